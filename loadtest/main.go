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
	// The library's own error, for a help topic that does not exist. Not looked for in
	// the chain: the error of a process that ended badly has an exit code too.
	_, exit := err.(cli.ExitCoder)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), exit:
		fmt.Fprintf(s.err, "spill-load: %v\nRun 'spill-load help' for what there is.\n", err)
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintf(s.err, "spill-load: %v\n", context.Cause(ctx))
		return exitFailure
	default:
		fmt.Fprintf(s.err, "spill-load: %v\n", err)
		return exitFailure
	}
}
