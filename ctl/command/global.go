package command

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"spillway/ctl/client"
	"spillway/ctl/output"
)

// global is what all commands share: the options that may stand anywhere, and the streams.
type global struct {
	Streams
	form    string
	options client.Options
}

func (g *global) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "addr", Usage: "`ADDRESS` of the appliance: unix:///PATH, or HOST:PORT with --ca, --cert and --key",
			Value: client.DefaultAddr, EnvVars: []string{"SPILLCTL_ADDR"}, Destination: &g.options.Addr},
		&cli.StringFlag{Name: "ca", Usage: "PEM `FILE` of the authority that signed the appliance's certificate",
			EnvVars: []string{"SPILLCTL_CA"}, Destination: &g.options.CA},
		&cli.StringFlag{Name: "cert", Usage: "PEM `FILE` of the operator's certificate",
			EnvVars: []string{"SPILLCTL_CERT"}, Destination: &g.options.Cert},
		&cli.StringFlag{Name: "key", Usage: "PEM `FILE` of its key",
			EnvVars: []string{"SPILLCTL_KEY"}, Destination: &g.options.Key},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORM` of the data: table, json or yaml",
			Value: string(output.Table), EnvVars: []string{"SPILLCTL_OUTPUT"}, Destination: &g.form},
		&cli.DurationFlag{Name: "timeout", Usage: "how long the appliance has to answer; 0: for ever",
			Value: 10 * time.Second, EnvVars: []string{"SPILLCTL_TIMEOUT"}, Destination: &g.options.Timeout},
	}
}

// output is the form that was asked for.
func (g *global) output() (output.Form, error) {
	form, err := output.ParseForm(g.form)
	if err != nil {
		return "", &UsageError{err.Error()}
	}
	return form, nil
}

// call connects, and closes the connection after f. The form is checked first: what cannot be shown is not done either.
func (g *global) call(c *cli.Context, f func(ctx context.Context, appliance *client.Client) error) (err error) {
	if _, err := g.output(); err != nil {
		return err
	}
	if g.options.Timeout < 0 {
		return usagef("--timeout %v is negative", g.options.Timeout)
	}
	appliance, err := client.New(g.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, appliance.Close()) }()
	return f(c.Context, appliance)
}

// show writes the data, as a table or as the object.
func (g *global) show(o *output.Object, table func(w io.Writer) error) error {
	form, err := g.output()
	if err != nil {
		return err
	}
	if form == output.Table {
		return table(g.Out)
	}
	return output.Write(g.Out, form, o)
}
