package command_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
)

// text is what a process says, which the test reads while it does.
type text struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

// process is this test binary in a role.
type process struct {
	l      *lab
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr text
	lines  chan string // of stdout
	ended  chan struct{}
	once   sync.Once
}

// start runs this test binary, or a copy of it, in a role and a namespace. It is killed at the end of the test.
func (l *lab) start(in netns.NsHandle, what, path string, env []string, args ...string) *process {
	l.Helper()
	p := &process{l: l, cmd: exec.Command(path, args...), lines: make(chan string, 1<<16), ended: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), role+"="+what), env...)
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	l.must(err)
	p.stdin, err = p.cmd.StdinPipe()
	l.must(err)
	l.must(l.in(in, p.cmd.Start))
	go func() {
		defer close(p.ended)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			p.lines <- scan.Text()
		}
		close(p.lines)
		_ = p.cmd.Wait() // what it says of the end is in ProcessState
	}()
	l.Cleanup(func() {
		p.kill()
		if l.Failed() {
			l.Logf("%s %v said:\n%s", what, args, p.stderr.String())
		}
	})
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.ended
	p.once.Do(func() { p.stdin.Close() })
}

func (p *process) signal(s syscall.Signal) {
	p.l.Helper()
	p.l.must(p.cmd.Process.Signal(s))
}

// code waits for the process's end.
func (p *process) code() int {
	p.l.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.l.Fatalf("it does not end; it said:\n%s", p.stderr.String())
		return 0
	}
}

// line waits for a line of stdout with a prefix, and returns the rest of it.
func (p *process) line(prefix string) string {
	p.l.Helper()
	deadline := time.After(patience)
	for {
		select {
		case got, ok := <-p.lines:
			if !ok {
				<-p.ended
				p.l.Fatalf("it ended before it said %q, with code %d: %s", prefix, p.cmd.ProcessState.ExitCode(), p.stderr.String())
			}
			if rest, found := strings.CutPrefix(got, prefix); found {
				return rest
			}
		case <-deadline:
			p.l.Fatalf("it does not say %q", prefix)
		}
	}
}

// finish lets a worker end, and its peers with it.
func (p *process) finish() { p.once.Do(func() { p.stdin.Close() }) }

// daemon is a running spillwayd, and the service manager that listens to it.
type daemon struct {
	*process
	notified chan string // messages of sd_notify
}

// watchdog is what the tests' service manager says: a daemon that is silent for so long is dead.
const watchdog = 600 * time.Millisecond

// launch starts a daemon from a program file, which is this test binary or a copy.
func (l *lab) launch(path string, env []string, args ...string) *daemon {
	l.Helper()
	address := filepath.Join(l.dir, fmt.Sprintf("notify%d", time.Now().UnixNano()))
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	l.must(err)
	d := &daemon{notified: make(chan string, 4096)}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		buffer := make([]byte, 4096)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			d.notified <- string(buffer[:n])
		}
	}()
	l.Cleanup(func() {
		socket.Close()
		<-reading
	})
	env = append([]string{"NOTIFY_SOCKET=" + address, fmt.Sprintf("WATCHDOG_USEC=%d", watchdog.Microseconds())}, env...)
	d.process = l.start(l.home, "daemon", path, env, args...)
	return d
}

// run starts a daemon on the lab's configuration and waits until it is ready.
func (l *lab) run(env ...string) *daemon {
	l.Helper()
	d := l.launch("/proc/self/exe", env, "run", "--config", l.config())
	d.hear("READY=1")
	return d
}

// hear waits for a message of sd_notify that has a text in it.
func (d *daemon) hear(part string) string {
	d.l.Helper()
	deadline := time.After(patience)
	for {
		select {
		case got := <-d.notified:
			if strings.Contains(got, part) {
				return got
			}
		case <-d.ended:
			d.l.Fatalf("it ended with code %d before it told the service manager %q; it said:\n%s", d.cmd.ProcessState.ExitCode(), part, d.stderr.String())
		case <-deadline:
			d.l.Fatalf("it does not tell the service manager %q; it said:\n%s", part, d.stderr.String())
		}
	}
}

// command runs a spillwayd command to its end in the aggregator's namespace.
func (l *lab) command(args ...string) (code int, stderr string) {
	l.Helper()
	p := l.start(l.home, "daemon", "/proc/self/exe", nil, args...)
	code = p.code()
	return code, p.stderr.String()
}
