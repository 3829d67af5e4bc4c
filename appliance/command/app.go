package command

import "github.com/urfave/cli/v2"

// newApp is the command line. Commands are made by the files that are named after them.
func newApp(s streams) *cli.App {
	app := &cli.App{
		Name:  "spillwayd",
		Usage: "the daemon of a Spillway appliance",
		Description: `spillwayd puts the aggregator on the interfaces of this host, as an XDP program,
admits jobs against its memory, tells workers what they must know when they join,
and keeps the ToR programmed over P4Runtime.

  spillwayd check /etc/spillway/spillwayd.yaml   is this configuration right?
  spillwayd run                                  until a signal comes
  spillwayd detach                               take the data plane off again

When the daemon ends, its data plane stays and goes on summing: the next one takes
it over. Only detach removes it.

Signals: SIGHUP reads the configuration and the certificates again; SIGTERM and
SIGINT end the daemon in order, a second one at once.

Exit codes: 0 done; 1 failure; 2 a command line or a configuration file that cannot
be meant; 4 a file or an interface that is not there; 5 the data plane is in use,
somebody else's, or of another version or size.`,
		Commands:             []*cli.Command{runCommand(s), checkCommand(s), detachCommand(s), versionCommand(s)},
		Writer:               s.out,
		ErrWriter:            s.err,
		HideVersion:          true,
		EnableBashCompletion: true,
		// Codes are given once, in Main.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   onUsageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("there is no command %q", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, command := range app.Commands {
		command.OnUsageError = onUsageError
		command.HideHelpCommand = true
		if command.Before == nil {
			command.Before = refuseArguments
		}
	}
	return app
}

func onUsageError(_ *cli.Context, err error, _ bool) error {
	return &usageError{err.Error()}
}

// refuseArguments rejects positional arguments. The library would silently treat flags after the first one as arguments as well.
func refuseArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("%s: unexpected argument %q", c.Command.Name, c.Args().First())
	}
	return nil
}
