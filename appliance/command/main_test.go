package command_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"spillway/appliance/command"
	"spillway/p4/softtor"
)

// role is the environment variable that makes this test binary a daemon or a worker, in a process of its own.
const role = "SPILLWAYD_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "daemon":
		go endWithParent()
		os.Exit(daemonRole())
	case "tor":
		go endWithParent()
		os.Exit(switching(os.Args[1]))
	case "worker":
		os.Exit(work(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// leaked is the exit code of a daemon that leaves goroutines or descriptors behind.
const leaked = 70

// daemonRole is spillwayd, which is looked at after its end.
func daemonRole() int {
	before := descriptors()
	code := command.Main(context.Background(), os.Args, os.Stdout, os.Stderr)
	if err := goleak.Find(goleak.IgnoreAnyFunction("spillway/appliance/command_test.endWithParent")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return leaked
	}
	after := descriptors()
	for number, what := range after {
		if before[number] == "" {
			fmt.Fprintf(os.Stderr, "descriptor %s is left: %s\n", number, what)
			code = leaked
		}
	}
	return code
}

// descriptors are those that are open, but for the runtime's own, which it keeps for good.
func descriptors() map[string]string {
	open := map[string]string{}
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		if what, err := os.Readlink(name); err == nil && !strings.Contains(what, "[event") { // one that is not there was Glob's
			open[name] = what
		}
	}
	return open
}

// endWithParent ends a daemon whose test died: its stdin is a pipe from there.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin) // an end is an end, whatever its reason
	os.Exit(1)
}

// switching is the software ToR.
func switching(file string) int {
	c, err := softtor.ReadConfigFile(file)
	if err == nil {
		c.Ready = func(net.Addr) { fmt.Println("ready") }
		err = softtor.Run(context.Background(), c, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
