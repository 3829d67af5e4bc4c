package acceptance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal with spillctl in it.
type terminal struct {
	t   *testing.T
	pty *os.File
	cmd *exec.Cmd

	mu    sync.Mutex
	shown bytes.Buffer
	ended chan struct{}
}

// show starts spillctl in a new terminal.
func (l *lab) show(args ...string) *terminal {
	l.t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), role+"=spillctl", "SPILLCTL_ADDR="+l.addr(), "TERM=xterm-256color")
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	l.must(err)
	term := &terminal{t: l.t, pty: file, cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(term.ended)
		_, err := io.Copy(term, file)
		// Linux reads EIO from a terminal that nobody has open any more.
		if err != nil && !errors.Is(err, syscall.EIO) {
			l.t.Error(err)
		}
	}()
	l.t.Cleanup(func() {
		// It has ended long ago unless the test failed.
		_ = cmd.Process.Kill()
		<-term.ended
		if err := file.Close(); err != nil {
			l.t.Error(err)
		}
	})
	return term
}

// Write takes what is shown.
func (term *terminal) Write(text []byte) (int, error) {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.shown.Write(text)
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.shown.String()
}

// sees waits until all words were shown.
func (term *terminal) sees(words ...string) {
	term.t.Helper()
	eventually(term.t, func() error {
		for _, word := range words {
			if !strings.Contains(term.text(), word) {
				return fmt.Errorf("the terminal does not show %q: %q", word, term.text())
			}
		}
		return nil
	})
}

// ends waits until spillctl has ended, and returns its exit code.
func (term *terminal) ends() int {
	term.t.Helper()
	select {
	case <-term.ended:
	case <-time.After(patience):
		term.t.Fatalf("it does not end: %q", term.text())
	}
	var exit *exec.ExitError
	if err := term.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		term.t.Fatal(err)
	}
	return term.cmd.ProcessState.ExitCode()
}

// What a terminal is told.
const (
	toAlternate   = "\x1b[?1049h"
	fromAlternate = "\x1b[?1049l"
	showCursor    = "\x1b[?25h"
)

// TestTop: it shows a running job live, and each way to end it leaves the terminal as it was.
func TestTop(t *testing.T) {
	l := newLab(t, setup{workers: 2})
	l.startDaemon()
	workers := l.running("train")
	for name, quit := range map[string]func(term *terminal) error{
		"q":       func(term *terminal) error { _, err := term.pty.WriteString("q"); return err },
		"ctrl-c":  func(term *terminal) error { _, err := term.pty.WriteString("\x03"); return err },
		"SIGTERM": func(term *terminal) error { return term.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			term := l.show("top", "--interval", "100ms")
			term.sees(toAlternate, "train", "running", "2/2", "q quits")
			reduce(workers, 5000)
			term.sees("bit/s")
			raw, err := unix.IoctlGetTermios(int(term.pty.Fd()), unix.TCGETS)
			l.must(err)
			if raw.Lflag&unix.ICANON != 0 {
				t.Error("the terminal is not raw while the view is up, so no key reaches it")
			}
			l.must(quit(term))
			if code := term.ends(); code != 0 {
				t.Errorf("exit code %d: %q", code, term.text())
			}
			after := term.text()[strings.LastIndex(term.text(), toAlternate):]
			if !strings.Contains(after, fromAlternate) || !strings.Contains(after, showCursor) {
				t.Errorf("the terminal was not given back: %q", after)
			}
			cooked, err := unix.IoctlGetTermios(int(term.pty.Fd()), unix.TCGETS)
			l.must(err)
			if cooked.Lflag&unix.ICANON == 0 || cooked.Lflag&unix.ECHO == 0 {
				t.Error("the terminal stays raw")
			}
		})
	}
}

// TestTopGoesOnWithoutTheDaemon: it says so, and shows the job again when the daemon is back.
func TestTopGoesOnWithoutTheDaemon(t *testing.T) {
	l := newLab(t, setup{workers: 1})
	l.startDaemon()
	l.create("train", "--workers", "1")
	term := l.show("top", "--interval", "100ms")
	term.sees("train")
	l.must(l.daemon.stop())
	term.sees("no appliance answers")
	l.startDaemon()
	l.create("second", "--workers", "1")
	term.sees("second")
	if _, err := term.pty.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if code := term.ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestTopWithoutADaemon says so on the terminal as it is, and not on a screen that goes away.
func TestTopWithoutADaemon(t *testing.T) {
	l := newLab(t, setup{})
	term := l.show("top")
	if code := term.ends(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	if text := term.text(); !strings.Contains(text, "no appliance answers") || strings.Contains(text, toAlternate) {
		t.Errorf("%q", text)
	}
}

// TestFollow: events come as they happen, and an interrupt is how one ends it.
func TestFollow(t *testing.T) {
	l := newLab(t, setup{workers: 1})
	l.startDaemon()
	for _, args := range [][]string{{"events", "-f", "-o", "json"}, {"jobs", "--watch", "-o", "json"}} {
		p := start(t, l.home, "spillctl", []string{"SPILLCTL_ADDR=" + l.addr()}, args...)
		l.create("train", "--workers", "1")
		p.hear(`{`)
		if out, code := l.spillctl("job", "delete", "train"); code != 0 {
			t.Fatal(out)
		}
		p.hear(`{`)
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		p.wait()
		if p.err != nil {
			t.Errorf("%v: %v", args, p.err)
		}
	}
}
