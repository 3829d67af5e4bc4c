package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/urfave/cli/v2"
	"github.com/vishvananda/netlink"

	"spillway/appliance/config"
	"spillway/xdp"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	// 3 is spillctl's: the appliance cannot be reached.
	exitNotFound = 4
	exitConflict = 5
)

// streams are what a command writes to: data on out, messages and logs on err.
type streams struct{ out, err io.Writer }

// Main runs a command line, of which args[0] is the program's name, and returns the exit code. It handles signals while a daemon runs; the end
// of ctx is as a SIGTERM.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s := streams{stdout, stderr}
	return s.code(newApp(s).RunContext(ctx, args))
}

// code is the one place where errors become exit codes, and are said.
func (s streams) code(err error) int {
	if err == nil {
		return exitOK
	}
	var usage *usageError
	_, topic := err.(cli.ExitCoder) // the library's own is for a help topic that does not exist
	if topic || errors.As(err, &usage) {
		fmt.Fprintf(s.err, "spillwayd: %v\nRun 'spillwayd help' for what there is.\n", err)
		return exitUsage
	}
	fmt.Fprintf(s.err, "spillwayd: %v\n", err)
	var wrong *configError
	switch {
	case errors.As(err, &wrong):
		return exitUsage
	case refused(err):
		return exitConflict
	case missing(err):
		return exitNotFound
	}
	return exitFailure
}

// refused tells whether what is there is somebody else's, or of another kind than this build or configuration can go on with.
func refused(err error) bool {
	if errors.Is(err, xdp.ErrInUse) || errors.Is(err, xdp.ErrDamaged) {
		return true
	}
	var foreign *xdp.ForeignError
	var newer *xdp.NewerError
	var sizes *xdp.SizesError
	return errors.As(err, &foreign) || errors.As(err, &newer) || errors.As(err, &sizes)
}

// missing tells whether a file or an interface is not there.
func missing(err error) bool {
	var link netlink.LinkNotFoundError
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &link)
}

// usageError is a command line that cannot be meant: exit code 2.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

// configError is a configuration file that cannot be meant: exit code 2, too, since starting again does not help.
type configError struct{ error }

// load reads a configuration.
func load(path string) (*config.Config, error) {
	read, err := config.Load(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		err = &configError{err}
	}
	return read, err
}

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}
