package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// patience is how long a step may take before progress is shown.
	patience = time.Second
	// On a terminal one line is written over and over; elsewhere a line now and then.
	terminalEvery = 200 * time.Millisecond
	plainEvery    = 5 * time.Second
)

// Progress tells the user what a long step is doing. A step that is over within
// a second is never mentioned. Safe for concurrent use.
type Progress struct {
	w        io.Writer
	terminal bool

	mu          sync.Mutex
	step        string
	done, total int
	since       time.Time
	written     bool // the line on the terminal is not empty

	stop  chan struct{}
	ended chan struct{}
}

// newProgress shows progress on w until Close.
func newProgress(w io.Writer) *Progress { return startProgress(w, isTerminal(w)) }

func startProgress(w io.Writer, terminal bool) *Progress {
	p := &Progress{w: w, terminal: terminal, since: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	go p.show()
	return p
}

// isTerminal reports whether w is a terminal that a line can be written over on.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Step begins a step of total parts; 0 if it cannot be said.
func (p *Progress) Step(name string, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.step, p.done, p.total, p.since = name, 0, total, time.Now()
}

// Advance says that n more parts of the step are done.
func (p *Progress) Advance(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
}

// Close ends it and leaves the terminal's line empty.
func (p *Progress) Close() {
	close(p.stop)
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *Progress) show() {
	defer close(p.ended)
	every := plainEvery
	if p.terminal {
		every = terminalEvery
	}
	tick := time.NewTicker(min(every, patience))
	defer tick.Stop()
	last := time.Time{}
	for {
		select {
		case <-p.stop:
			return
		case now := <-tick.C:
			if now.Sub(last) >= every-every/10 && p.write(now) {
				last = now
			}
		}
	}
}

// write shows the step if it has taken long enough.
func (p *Progress) write(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := now.Sub(p.since)
	if took < patience || p.step == "" {
		return false
	}
	line := p.step
	if p.total > 0 {
		line += fmt.Sprintf(" %d/%d", p.done, p.total)
	}
	line += fmt.Sprintf(", %.0f s", took.Seconds())
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
		p.written = true
	} else {
		fmt.Fprintln(p.w, line)
	}
	return true
}

// clear empties the terminal's line; p.mu is held.
func (p *Progress) clear() {
	if p.written {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.written = false
	}
}
