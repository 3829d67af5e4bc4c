package acceptance

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// role is set in the environment of a test program that is to be something else.
const role = "SPILLWAY_ACCEPTANCE_ROLE"

// patience bounds everything that a test waits for.
const patience = 20 * time.Second

// process is this program in another role and in a namespace. It is spoken to in lines.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
	done  chan struct{}
	err   error // of its end; valid after done
	// explain logs how things stand when it does not say what it should; may be nil.
	explain func()

	mu   sync.Mutex
	said bytes.Buffer // stderr
}

// program is this one under the name of a role, which is what the kernel calls the process then.
func program(t *testing.T, as string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), as)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs this program as a role. It is ended with the test, which shows what it said if it failed.
func start(t *testing.T, in *namespace, as string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: as + " " + strings.Join(args, " "), cmd: exec.Command(program(t, as), args...), lines: make(chan string, 1024),
		done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), role+"="+as), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p.cmd.Stderr = p
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := in.do(p.cmd.Start); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		defer close(p.done)
		defer close(p.lines)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.lines <- lines.Text()
		}
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Logf("%s said:\n%s", p.name, p.said.String())
		}
	})
	return p
}

// Write takes stderr.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(text)
}

// kill ends it without warning.
func (p *process) kill() {
	// It may have ended by itself, which is as good.
	_ = p.cmd.Process.Kill()
	p.wait()
}

// stop asks it to end.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	p.wait()
	return p.err
}

func (p *process) wait() {
	for {
		select {
		case <-p.done:
			return
		case <-p.lines: // nobody wants them any more
		case <-time.After(patience):
			p.t.Errorf("%s does not end", p.name)
			return
		}
	}
}

// say writes a line to its stdin.
func (p *process) say(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.stdin, format+"\n", args...); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// hear waits for a line that begins with one of the words.
func (p *process) hear(words ...string) string {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				<-p.done
				p.t.Fatalf("%s ended (%v) instead of saying %v: %s", p.name, p.err, words, p.stderr())
			}
			for _, word := range words {
				if strings.HasPrefix(line, word) {
					return line
				}
			}
			p.t.Logf("%s: %s", p.name, line)
		case <-deadline:
			if p.explain != nil {
				p.explain()
			}
			p.t.Fatalf("%s does not say %v: %s", p.name, words, p.stderr())
		}
	}
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// eventually polls until what is looked for is there, and fails the test with the last reason if it does not come.
func eventually(t *testing.T, look func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := look()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %v", patience, err)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}
