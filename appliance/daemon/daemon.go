package daemon

import (
	"context"
	"errors"
	"io"
	"os"

	"spillway/appliance/config"
)

// Options are what a daemon is told beside its configuration.
type Options struct {
	// Path of the configuration, which SIGHUP has read again.
	Path string
	// Upgrade takes over a data plane of another version, as aggregator.upgrade does.
	Upgrade bool
	Version string
	// Log is where the log goes.
	Log io.Writer
	// Signals are SIGHUP, to reload, and others, the first of which ends the daemon in order and the second at once. nil: none come.
	Signals <-chan os.Signal
}

// Run is the daemon, until a signal comes or ctx ends. The data plane stays where it is.
func Run(ctx context.Context, c *config.Config, o Options) error {
	return errors.New("daemon: cannot run yet")
}

// Detach takes the data plane in the directory pin off its interfaces, and its pins away. It refuses while a daemon has the state file open;
// an empty state is not looked at.
func Detach(pin, state string) error {
	return errors.New("daemon: cannot detach yet")
}
