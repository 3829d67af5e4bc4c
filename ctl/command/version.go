package command

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"spillway/ctl/output"
)

// builtVersion is set by the linker (-X spillway/ctl/command.builtVersion=1.2.3); empty in what was built without.
var builtVersion string

// Version is that of this program.
func Version() string {
	if builtVersion != "" {
		return builtVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func versionCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "which spillctl this is",
		Description: `Asks nobody. The daemon's version is in 'spillctl status'.

  spillctl version --output json`,
		Action: func(*cli.Context) error {
			o := (&output.Object{}).With("version", Version()).With("go", runtime.Version())
			return g.show(o, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "spillctl %s, %s\n", Version(), runtime.Version())
				return err
			})
		},
	}
}
