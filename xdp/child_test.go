package xdp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// childRequest is what a child process of the tests is asked to do: Open, Attach to the interface, Release or whatever is named.
type childRequest struct {
	Dir      string
	Config   Config
	Ifindex  int
	Job      *Job // to add
	End      string
	Takeover Takeover
	Older    bool // as the build before this one
}

// childReport is what came of it.
type childReport struct {
	Error       string
	Adopted     bool
	Tag         string
	Mode        Mode
	Jobs        []Job
	Attachments []Attachment
	Counters    map[string]uint64
	Slots       []SlotState
	Members     []MemberState
	Uid         int
	Caps        string
}

const childVariable = "SPILLWAY_XDP_CHILD"

// runChild does in another process what the request says; attr says as whom.
func runChild(t *testing.T, r childRequest, attr *unix.SysProcAttr) childReport {
	t.Helper()
	in, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	// The test's binary is where only root can go.
	dir, err := os.MkdirTemp("", "spillway-child-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "child")
	if err := errors.Join(os.Chmod(dir, 0o755), copyFile(binary, "/proc/self/exe")); err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = bytes.NewReader(in), &out, &stderr, attr
	if err := cmd.Run(); err != nil {
		t.Fatalf("child: %v\n%s%s", err, out.Bytes(), stderr.Bytes())
	}
	var report childReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("child said %q: %v", out.Bytes(), err)
	}
	return report
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// child is the child process.
func child() error {
	var r childRequest
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return err
	}
	report := childReport{Uid: os.Getuid(), Caps: effectiveCaps()}
	if err := r.run(&report); err != nil {
		report.Error = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

func (r *childRequest) run(report *childReport) error {
	if r.End == "detach" {
		return Detach(r.Dir)
	}
	b := thisBuild()
	if r.Older {
		b = older(layoutVersion)
	}
	config, err := r.Config.completed()
	if err != nil {
		return err
	}
	a, err := b.open(r.Dir, config, r.Takeover)
	if err != nil {
		return err
	}
	if report.Mode, err = a.Attach(r.Ifindex); err != nil {
		return err
	}
	report.Adopted, report.Tag, report.Attachments = a.Adopted(), a.Tag(), a.Attachments()
	if r.Job != nil {
		if err := a.AddJob(*r.Job); err != nil {
			return err
		}
	}
	report.Jobs = a.Jobs()
	if len(report.Jobs) > 0 {
		id := report.Jobs[0].ID
		if report.Counters, err = a.Counters(id); err != nil {
			return err
		}
		if report.Slots, err = a.Slots(id); err != nil {
			return err
		}
		if report.Members, err = a.Members(id); err != nil {
			return err
		}
	}
	switch r.End {
	case "release":
		return a.Release()
	case "close":
		return a.Close()
	case "die":
		return nil
	}
	return fmt.Errorf("end %q?", r.End)
}

func effectiveCaps() string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err.Error()
	}
	for line := range bytes.Lines(status) {
		if caps, ok := bytes.CutPrefix(line, []byte("CapEff:")); ok {
			return string(bytes.TrimSpace(caps))
		}
	}
	return ""
}
