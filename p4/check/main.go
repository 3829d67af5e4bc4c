// Command check compiles the P4 programs, refuses what the compiler made if it is not what the sources say, and keeps what a
// user needs who has no compiler: the p4info of both programs, the BMv2 configuration, the Tofino resource summary. It runs in p4/,
// so that no path of this machine gets into them. Its tests hold the committed files to the sources, without a compiler.
//
// A clean compile proves little on Tofino: known compilers drop the parser's selects, or keep a register twice, without an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(os.Stderr, "p4/check: %v\n", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	dir := flags.String("dir", "p4", "`folder` of the programs")
	note := flags.String("note", "", "what to say of the compiler besides its version, in SOURCE")
	keep := flags.String("keep", "", "`folder` to leave the compilers' whole output in")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if _, err := exec.LookPath("p4c"); err != nil {
		return fmt.Errorf("p4c is not on PATH; it comes with the packages of p4lang, https://github.com/p4lang/p4c: %w", err)
	}
	work := *keep
	if work == "" {
		var err error
		if work, err = os.MkdirTemp("", "spillway-p4-"); err != nil {
			return err
		}
		defer os.RemoveAll(work)
	}
	return compileAll(ctx, *dir, work, *note, out)
}
