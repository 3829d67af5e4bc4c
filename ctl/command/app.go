// Package command is the command line of spillctl: its commands, a file each, what they print, and the exit codes.
package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

// Streams are what a command reads and writes: data on Out, messages on Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the command line of the process and returns the exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Execute(ctx, os.Args, Streams{os.Stdin, os.Stdout, os.Stderr})
}

// Execute runs a command line and returns the exit code.
func Execute(ctx context.Context, args []string, s Streams) int {
	if err := New(s).RunContext(ctx, args); err != nil {
		return 1
	}
	return 0
}

// New is the app, for those who make man pages and completions of it too.
func New(s Streams) *cli.App {
	return &cli.App{Name: "spillctl", Writer: s.Out, ErrWriter: s.Err, Reader: s.In}
}
