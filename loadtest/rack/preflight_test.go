package rack

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"spillway/loadtest/faults"
)

// everything is a configuration that needs all that a rack may need.
var everything = Config{Workers: 1, Elements: 832, Rate: 500_000_000, Faults: faults.Rates{Loss: 0.01, Reorder: 0.01}}

func TestPreflight(t *testing.T) {
	leaks, files := goleak.IgnoreCurrent(), openFiles(t)
	if err := Preflight(everything); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, leaks)
	if now := openFiles(t); now > files {
		t.Errorf("%d files are open, %d before", now, files)
	}
}

func TestPreflightWithoutRoot(t *testing.T) {
	for name, attributes := range map[string]*syscall.SysProcAttr{
		"nobody": {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
		// May make namespaces, but no links in them.
		"no CAP_NET_ADMIN": {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), "SPILLWAY_TEST_ROLE=preflight")
			cmd.SysProcAttr = attributes
			said, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("%v: %s", err, said)
			}
			if !strings.Contains(string(said), "this machine cannot run a rack") || !strings.Contains(string(said), "sudo") {
				t.Errorf("said %q", said)
			}
			t.Logf("%s", said)
		})
	}
}
