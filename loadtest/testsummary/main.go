// Command testsummary runs `go test -json` with the arguments it is given and
// says what came of it in a form short enough to read: a line a package, the
// whole output of what failed, the reason of each skip, and at the very end
//
//	N passed, N failed, N skipped
//
// It exits 1 when anything failed, or when no test ran at all.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

// run runs the tests and prints the summary. A go command that fails for
// another reason than a failed test is an error of its own.
func run(ctx context.Context, args []string) (ok bool, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	// Tests that are interrupted get the chance to take their namespaces down.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start go test: %w", err)
	}
	summary := newSummary(os.Stdout)
	readErr := summary.read(stdout)
	waitErr := cmd.Wait()
	clean := summary.close()
	if readErr != nil {
		return false, fmt.Errorf("read the output of go test: %w", readErr)
	}
	if waitErr != nil && clean {
		return false, fmt.Errorf("go test: %w", waitErr)
	}
	return clean, nil
}
