package acceptance

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs each script, with a lab of its own if it asks for one.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s := &script{t: t}
			testscript.Run(t, testscript.Params{Files: []string{file}, Cmds: map[string]func(*testscript.TestScript, bool, []string){
				"lab": s.lab, "exitcode": s.exitCode, "inhome": s.inHome, "join": s.join, "reduce": s.reduce, "leave": s.leave, "jsonkeys": jsonKeys,
				"complete": complete,
			}})
		})
	}
}

// script is one that runs.
type script struct {
	t       *testing.T
	running *lab
	workers []*process
}

// lab makes one and starts its daemon: lab WORKERS [tor] [tls]. SPILLCTL_ADDR is that of its socket, LAB the directory of its files.
func (s *script) lab(ts *testscript.TestScript, _ bool, args []string) {
	workers, err := strconv.Atoi(args[0])
	ts.Check(err)
	s.running = newLab(s.t, setup{workers: workers, tor: slices.Contains(args, "tor"), tls: slices.Contains(args, "tls")})
	s.running.startDaemon()
	if slices.Contains(args, "tor") {
		s.running.heals() // the daemon does not wait for the ToR, but jobs that want a part of its memory do
	}
	ts.Setenv("SPILLCTL_ADDR", s.running.addr())
	ts.Setenv("LAB", s.running.dir)
}

// exitCode runs a command and wants its exit code: exitcode CODE COMMAND ARG…
func (s *script) exitCode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// inHome runs spillctl in the home's namespace, where TCP works, and wants its exit code: inhome CODE ARG…; what it wrote goes to the file out.txt.
func (s *script) inHome(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	out, code := s.running.spillctl(args[1:]...)
	ts.Check(os.WriteFile(ts.MkAbs("out.txt"), []byte(out), 0o600))
	if code != want {
		ts.Fatalf("exit code %d, want %d: %s", code, want, out)
	}
}

// join starts workers of a job and waits until they take part: join JOB RANK…
func (s *script) join(_ *testscript.TestScript, _ bool, args []string) {
	var ranks []int
	for _, arg := range args[1:] {
		rank, err := strconv.Atoi(arg)
		if err != nil {
			s.t.Error(err)
		}
		ranks = append(ranks, rank)
	}
	joined := s.running.join(args[0], ranks...)
	for _, p := range joined {
		p.hear("joined")
	}
	s.workers = append(s.workers, joined...)
}

// reduce has all workers that joined reduce N numbers: reduce N
func (s *script) reduce(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	reduce(s.workers, n)
}

// leave has all workers leave.
func (s *script) leave(*testscript.TestScript, bool, []string) {
	for _, p := range s.workers {
		p.say("leave")
	}
	for _, p := range s.workers {
		p.hear("left")
	}
	s.workers = nil
}

// jsonKeys wants values in the last command's stdout, which is JSON: jsonkeys PATH=VALUE…, where a path is fields and indices between dots, and a
// value is JSON;
// * is any.
func jsonKeys(ts *testscript.TestScript, _ bool, args []string) {
	var all any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &all))
	for _, arg := range args {
		path, want, _ := strings.Cut(arg, "=")
		at := all
		for _, part := range strings.Split(path, ".") {
			switch v := at.(type) {
			case map[string]any:
				next, ok := v[part]
				if !ok {
					ts.Fatalf("%s: there is no %q", path, part)
				}
				at = next
			case []any:
				i, err := strconv.Atoi(part)
				ts.Check(err)
				if i >= len(v) {
					ts.Fatalf("%s: there are %d", path, len(v))
				}
				at = v[i]
			default:
				ts.Fatalf("%s: %q is in %v", path, part, at)
			}
		}
		got, err := json.Marshal(at)
		ts.Check(err)
		if want != "*" && string(got) != want {
			ts.Fatalf("%s is %s, want %s", path, got, want)
		}
	}
}

// complete has bash complete a line and wants a word among the choices: complete WORD LINE…; an empty last argument is a word that has not begun.
func complete(ts *testscript.TestScript, neg bool, args []string) {
	words := args[1:]
	line := `source <(spillctl completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _spillctl; printf '%s\n' "${COMPREPLY[@]}"`
	ts.Check(ts.Exec("bash", append([]string{"-c", line, "bash"}, words...)...))
	if slices.Contains(strings.Split(ts.ReadFile("stdout"), "\n"), args[0]) == neg {
		ts.Fatalf("the choices for %v are %q", words, ts.ReadFile("stdout"))
	}
}
