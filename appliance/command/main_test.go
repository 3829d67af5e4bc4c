package command_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
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
		os.Exit(command.Main(context.Background(), os.Args, os.Stdout, os.Stderr))
	case "tor":
		go endWithParent()
		os.Exit(switching(os.Args[1]))
	case "worker":
		os.Exit(work(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
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
