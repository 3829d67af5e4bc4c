package command_test

import (
	"context"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"

	"spillway/appliance/command"
)

// role is the environment variable that makes this test binary a daemon or a worker, in a process of its own.
const role = "SPILLWAYD_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "daemon":
		go endWithParent()
		os.Exit(command.Main(context.Background(), os.Args, os.Stdout, os.Stderr))
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
