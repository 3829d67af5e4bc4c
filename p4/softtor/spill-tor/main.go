// Command spill-tor is the software ToR: Spillway's pipeline as an XDP program on the interfaces of its network namespace, programmed over
// P4Runtime.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"spillway/p4/softtor"
)

// Exit codes.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitNotFound = 4
	exitConflict = 5
)

// streams are what a command writes to: data on out, messages on err.
type streams struct{ out, err io.Writer }

func main() {
	os.Exit(Main())
}

// Main runs the command line and returns the exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, os.Args, streams{os.Stdout, os.Stderr})
}

// execute is the one place where errors become exit codes.
func execute(ctx context.Context, args []string, s streams) int {
	err := newApp(s).RunContext(ctx, args)
	if err == nil {
		return exitOK
	}
	var usage *usageError
	_, topic := err.(cli.ExitCoder) // the library's own is for a help topic that does not exist
	if topic || errors.As(err, &usage) {
		fmt.Fprintf(s.err, "spill-tor: %v\nRun 'spill-tor help' for what there is.\n", err)
		return exitUsage
	}
	fmt.Fprintf(s.err, "spill-tor: %v\n", err)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, softtor.ErrNoInterface):
		return exitNotFound
	case errors.Is(err, softtor.ErrInUse):
		return exitConflict
	}
	return exitFailure
}
