package command

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// docsCommand makes what packages carry. It is hidden, because nobody else needs it.
func docsCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:   "docs",
		Usage:  "make documentation out of this program",
		Hidden: true,
		Subcommands: []*cli.Command{{
			Name:  "man",
			Usage: "the man page, in roff",
			Action: func(*cli.Context) error {
				page, err := ManPage()
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(g.Out, page)
				return err
			},
		}},
	}
}

// ManPage is spillctl(1).
func ManPage() (string, error) {
	app := New(Streams{})
	app.UsageText = "" // the page has a synopsis
	app.Description = strings.ReplaceAll(app.Description, "\n  ", "\n    ")
	for _, command := range app.Commands {
		describe(command, app.Name)
	}
	page, err := app.ToManWithSection(1)
	if err != nil {
		return "", fmt.Errorf("make the man page: %w", err)
	}
	return page, nil
}

// describe moves what a command's help says to where the library's man page takes it from: it leaves descriptions out, and prints a usage of several
// lines as it is.
func describe(command *cli.Command, path string) {
	path += " " + command.Name
	command.UsageText = strings.TrimSpace(path+" [options] "+command.ArgsUsage) + "\n\n" + command.Description
	if len(command.Subcommands) > 0 {
		command.UsageText = ""
	}
	for _, sub := range command.Subcommands {
		describe(sub, path)
	}
}
