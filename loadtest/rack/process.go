package rack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// self is this very program, even if its file was replaced meanwhile.
	self = "/proc/self/exe"
	// grace is how long a process may take to end after its stdin has.
	grace = 5 * time.Second
	// maxLine is the longest line of JSON a process may write.
	maxLine = 1 << 20
)

// ErrEnded is what Receive returns when the process has ended its output.
var ErrEnded = errors.New("process ended")

// Command says what a process runs.
type Command struct {
	// Path of the program; empty is the running one.
	Path string
	Args []string
	// Env is added to this process's environment.
	Env []string
	// Files are passed on as descriptors 3, 4, ….
	Files []*os.File
	// Stderr takes what the process says beside its answers; nil is this process's.
	Stderr io.Writer
	// Foreign is a program that neither speaks JSON nor minds its stdin: what it writes is dropped, and it is ended with the signal End, or
	// killed without one.
	Foreign bool
	End     syscall.Signal
	// Family gives it a namespace of processes, so that all that it starts ends when it does, however that comes about.
	Family bool
}

// A Process is a worker process in a worker's namespace, or the ToR's or the daemon's in its own. It is
// spoken to in lines of JSON over its stdin and stdout, and it must end when its stdin does.
type Process struct {
	name  string // as errors call it: "worker 3"
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan []byte   // stdout, closed at its end
	done  chan struct{} // closed when the process was waited for
	err   error         // of the process; valid after done

	foreign bool // as Command has it
	end     syscall.Signal
	stop    sync.Once
	stopped atomic.Bool // Stop was called, and has reported how the process ended
}

// StartWorker runs a command in the namespace of the worker with this rank. Close of the rack stops it.
func (r *Rack) StartWorker(rank int, c Command) (*Process, error) {
	if rank < 0 || rank >= len(r.workers) {
		return nil, fmt.Errorf("rank %d is outside the rack's %d workers", rank, len(r.workers))
	}
	return r.start(r.workers[rank], c)
}

// start runs a command that Close of the rack stops.
func (r *Rack) start(in *namespace, c Command) (*Process, error) {
	p, err := startProcess(in, c)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.processes = append(r.processes, p)
	r.mu.Unlock()
	return p, nil
}

// startProcess runs a command in a namespace, which it inherits from the thread that starts it. It is in a process group
// of its own (so that a Ctrl-C at the terminal reaches only this process, which
// then stops it in order), and the kernel kills it should this process die.
func startProcess(in *namespace, c Command) (*Process, error) {
	if c.Path == "" {
		c.Path = self
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.ExtraFiles = c.Files
	cmd.Stderr = c.Stderr
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if c.Family {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to %s: %w", in.name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pipe from %s: %w", in.name, err), stdin.Close())
	}
	if err := in.do(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", in.name, err)
	}
	p := &Process{name: in.name, cmd: cmd, stdin: stdin, foreign: c.Foreign, end: c.End, lines: make(chan []byte, 16), done: make(chan struct{})}
	go p.read(stdout)
	return p, nil
}

// read owns stdout: it passes lines on until the end, then waits for the process.
func (p *Process) read(stdout io.Reader) {
	defer close(p.done)
	if p.foreign {
		close(p.lines)
		_, copyErr := io.Copy(io.Discard, stdout)
		p.err = errors.Join(copyErr, p.cmd.Wait())
		return
	}
	lines := bufio.NewScanner(stdout)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	for lines.Scan() {
		p.lines <- append([]byte(nil), lines.Bytes()...)
	}
	scanErr := lines.Err()
	close(p.lines)
	if scanErr != nil {
		// Let a process that writes too long a line end rather than block on its pipe.
		_, copyErr := io.Copy(io.Discard, stdout)
		scanErr = errors.Join(fmt.Errorf("read from %s: %w", p.name, scanErr), copyErr)
	}
	p.err = errors.Join(scanErr, p.cmd.Wait())
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Send writes v to the process as a line of JSON.
func (p *Process) Send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("message to %s: %w", p.name, err)
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("message to %s: %w", p.name, err)
	}
	return nil
}

// Receive reads the process's next line of JSON into v. It returns an error that
// wraps ErrEnded and says how the process ended if there is none.
func (p *Process) Receive(ctx context.Context, v any) error {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return p.ended(ctx)
		}
		if err := json.Unmarshal(line, v); err != nil {
			return fmt.Errorf("%s said %q: %w", p.name, clip(line), err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", p.name, context.Cause(ctx))
	}
}

func (p *Process) ended(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", p.name, context.Cause(ctx))
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %w", p.name, ErrEnded, p.err)
	}
	return fmt.Errorf("%s: %w", p.name, ErrEnded)
}

// Kill ends the process without warning, and waits for its end.
func (p *Process) Kill() {
	p.stopped.Store(true)
	p.kill()
	for range p.lines {
	}
	<-p.done
}

// Stop ends the process's stdin, sends the signal that ends it, if it has one, waits for it to end, kills it after 5 s, and
// returns how it ended: nil is exit status 0. Output that was not received is dropped.
func (p *Process) Stop() error {
	if p.foreign && p.end == 0 {
		p.Kill()
		return nil
	}
	p.stopped.Store(true)
	var closeErr error
	p.stop.Do(func() {
		if p.end != 0 {
			// An error means that it has ended.
			_ = p.cmd.Process.Signal(p.end)
		}
		closeErr = p.stdin.Close()
		if errors.Is(closeErr, os.ErrClosed) {
			closeErr = nil // it ended before us
		}
	})
	kill := time.AfterFunc(grace, p.kill)
	defer kill.Stop()
	for range p.lines {
	}
	<-p.done
	if p.err != nil {
		return errors.Join(fmt.Errorf("%s: %w", p.name, p.err), closeErr)
	}
	return closeErr
}

// kill ends the process and everything it started. An error means that it has ended.
func (p *Process) kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// clip shortens what a process said to what an error can hold.
func clip(line []byte) string {
	const most = 120
	s := strings.ToValidUTF8(string(line), "?")
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
