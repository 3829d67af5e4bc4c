package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/urfave/cli/v2"
	"google.golang.org/grpc/codes"

	"spillway/appliance/refusal"
	"spillway/ctl/client"
)

// Exit codes. They are a part of the API.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitUnreachable = 3 // no appliance answers
	exitNotFound    = 4
	exitRefused     = 5 // a conflict with what is there, or the appliance says no
)

// UsageError is a command line that cannot be meant.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

func onUsageError(_ *cli.Context, err error, _ bool) error { return &UsageError{err.Error()} }

// foundError ends a command that has printed all there is to say, and must not exit with 0.
type foundError struct{}

func (foundError) Error() string { return "something is wrong" }

// Execute runs a command line and returns the exit code. It is the one place where errors become exit codes.
func Execute(ctx context.Context, args []string, s Streams) int {
	app, _ := newApp(s)
	err := app.RunContext(ctx, arrange(app, args))
	code := codeOf(err)
	switch {
	case code == exitOK, errors.As(err, new(foundError)):
	case code == exitUsage:
		fmt.Fprintf(s.Err, "spillctl: %v\nRun 'spillctl help' for what there is.\n", err)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(s.Err, "spillctl: interrupted")
	default:
		fmt.Fprintf(s.Err, "spillctl: %v\n", err)
	}
	return code
}

// codeOf is the exit code of an error.
func codeOf(err error) int {
	var usage *UsageError
	var options *client.OptionsError
	var unreachable *client.UnreachableError
	switch refused := refusal.Of(err); {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.As(err, &options):
		return exitUsage
	case errors.As(err, &unreachable):
		return exitUnreachable
	case refused != nil:
		return codeOfRefusal(refused)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return exitRefused
	case errors.Is(err, fs.ErrNotExist):
		return exitNotFound
	}
	// The library's own is for a help topic that does not exist. It is not looked for further down the chain, where others
	// have the same method.
	if _, topic := err.(cli.ExitCoder); topic {
		return exitUsage
	}
	return exitFailure
}

func notFound(err error) bool {
	refused := refusal.Of(err)
	return refused != nil && refused.Code == codes.NotFound
}

func codeOfRefusal(refused *refusal.Error) int {
	switch refused.Code {
	case codes.InvalidArgument:
		return exitUsage
	case codes.NotFound:
		return exitNotFound
	case codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted, codes.ResourceExhausted, codes.OutOfRange,
		codes.PermissionDenied, codes.Unauthenticated:
		return exitRefused
	case codes.Unavailable:
		if refused.Reason == refusal.ShuttingDown || refused.Reason == refusal.NotLeader {
			return exitUnreachable
		}
		return exitRefused
	default:
		return exitFailure
	}
}
