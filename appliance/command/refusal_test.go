package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nothing wants the host as it was: no program, no pins, no files of the daemon.
func (l *lab) nothing() {
	l.Helper()
	if program := l.attached(); program != 0 {
		l.Errorf("program %d is on the interface", program)
	}
	for _, path := range []string{l.pin(), l.socket(), filepath.Join(l.dir, "state.db")} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			l.Errorf("%s is there: %v", path, err)
		}
	}
}

func TestCheck(t *testing.T) {
	l := newLab(t)
	for name, of := range map[string]struct {
		more []string
		code int
		says string
	}{
		"good":                 {nil, 0, ""},
		"an unknown key":       {[]string{"intrefaces: []"}, 2, ":12: "},
		"a wrong unit":         {[]string{"jobs: {grace: 10}"}, 2, "jobs.grace"},
		"a switch without all": {[]string{"switch: {target: 127.0.0.1:9559}"}, 2, "switch"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lab{T: t, dir: l.dir, home: l.home, workers: l.workers}
			l.configure(of.more...)
			if code, said := l.command("check", l.config()); code != of.code || !strings.Contains(said, of.says) {
				t.Errorf("code %d, it says %q", code, said)
			}
			l.nothing()
		})
	}
	l.configure()
	if code, said := l.command("check", filepath.Join(l.dir, "nowhere")); code != 4 || !strings.Contains(said, "nowhere") {
		t.Errorf("a file that is not there: code %d, it says %q", code, said)
	}
	if code, said := l.command("check", "one", "two"); code != 2 {
		t.Errorf("two files: code %d, it says %q", code, said)
	}
	link, err := l.handle(l.home).LinkByName(homeLink)
	l.must(err)
	l.must(l.handle(l.home).LinkSetName(link, "other"))
	if code, said := l.command("check", l.config()); code == 0 || !strings.Contains(said, homeLink) || !strings.Contains(said, "other") {
		t.Errorf("an interface that is not there: code %d, it says %q", code, said)
	}
	if code, said := l.command("check", "--file-only", l.config()); code != 0 {
		t.Errorf("the file alone: code %d, it says %q", code, said)
	}
}

func TestDetach(t *testing.T) {
	l := newLab(t)
	l.configure()
	d := l.run()
	l.create("train")
	if code, said := l.command("detach", "--config", l.config()); code != 5 || l.attached() == 0 {
		t.Errorf("while a daemon runs: code %d, it says %q", code, said)
	}
	d.signal(syscall.SIGTERM)
	d.code()
	for range 2 { // the second time there is nothing
		if code, said := l.command("detach", "--config", l.config()); code != 0 {
			t.Errorf("code %d, it says %q", code, said)
		}
		l.must(os.RemoveAll(filepath.Join(l.dir, "state.db")))
		l.nothing()
	}
	if code, said := l.command("detach", "--pin", l.pin()); code != 0 {
		t.Errorf("without a configuration: code %d, it says %q", code, said)
	}
}

// TestForeign: what is somebody else's stays, and the daemon says whose, and what to do.
func TestForeign(t *testing.T) {
	t.Run("program", func(t *testing.T) {
		l := newLab(t)
		l.configure()
		foreign := l.pass(l.home, homeLink)
		code, said := l.command("run", "--config", l.config())
		if code != 5 || !strings.Contains(said, homeLink) {
			t.Errorf("code %d, it says %q", code, said)
		}
		if got := l.attached(); got != foreign {
			t.Errorf("program %d is on the interface, it was %d", got, foreign)
		}
		if _, err := os.Lstat(filepath.Join(l.pin(), "aggregator")); !os.IsNotExist(err) {
			t.Errorf("something of the attempt is left: %v", err)
		}
	})
	t.Run("daemon", func(t *testing.T) {
		l := newLab(t)
		l.configure()
		first := l.run()
		code, said := l.command("run", "--config", l.config())
		if code != 5 || !strings.Contains(said, "another process has it open") {
			t.Errorf("code %d, it says %q", code, said)
		}
		l.create("train") // the first one minds nothing
		first.signal(syscall.SIGTERM)
		first.code()
	})
	t.Run("sizes", func(t *testing.T) {
		l := newLab(t)
		l.configure()
		first := l.run()
		first.signal(syscall.SIGTERM)
		first.code()
		l.write(strings.Replace(l.text(), "aggregator:", "aggregator:\n  max_jobs: 16", 1))
		code, said := l.command("run", "--config", l.config())
		if code != 5 || !strings.Contains(said, "16") {
			t.Errorf("code %d, it says %q", code, said)
		}
		l.launch("/proc/self/exe", nil, "run", "--upgrade", "--config", l.config()).hear("READY=1")
		if l.node().GetAdopted() {
			t.Error("maps of another size were adopted")
		}
	})
}

// TestCommandLine: what cannot be meant is said, with code 2.
func TestCommandLine(t *testing.T) {
	l := &lab{T: t, dir: t.TempDir()}
	l.home = l.namespace()
	for _, args := range [][]string{{"fly"}, {"run", "--wings"}, {"run", "now"}, {"check"}, {"version", "--output", "xml"}, {"help", "wings"}} {
		if code, said := l.command(args...); code != 2 || !strings.HasPrefix(said, "spillwayd: ") {
			t.Errorf("%v: code %d, it says %q", args, code, said)
		}
	}
	if code, said := l.command("version", "--output", "json"); code != 0 {
		t.Errorf("version: code %d, it says %q", code, said)
	}
	if code, said := l.command("run", "--config", filepath.Join(l.dir, "nowhere")); code != 4 {
		t.Errorf("run without a configuration: code %d, it says %q", code, said)
	}
}
