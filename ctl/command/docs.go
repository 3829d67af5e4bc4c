package command

import (
	"fmt"

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
	page, err := New(Streams{}).ToManWithSection(1)
	if err != nil {
		return "", fmt.Errorf("make the man page: %w", err)
	}
	return page, nil
}
