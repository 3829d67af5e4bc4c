// Command spill-load builds racks in network namespaces, runs all-reduces on
// them through real worker processes and a real aggregator, checks every bit and measures.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// streams are what a command reads and writes: data on out, messages on err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	os.Exit(Main())
}

// Main runs the command line and returns the exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, os.Args, streams{os.Stdin, os.Stdout, os.Stderr})
}

// execute is the one place where errors become exit codes.
func execute(ctx context.Context, args []string, s streams) int {
	err := newApp(s).RunContext(ctx, args)
	var usage *usageError
	var daemon *daemonError
	// The library's own is for a help topic that does not exist. It is not looked for
	// further down: a worker process's *exec.ExitError has the same method.
	_, topic := err.(cli.ExitCoder)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &daemon):
		return daemon.code
	case topic, errors.As(err, &usage):
		fmt.Fprintf(s.err, "spill-load: %v\nRun 'spill-load help' for what there is.\n", err)
		return exitUsage
	default:
		fmt.Fprintf(s.err, "spill-load: %v\n", err)
		return exitFailure
	}
}
