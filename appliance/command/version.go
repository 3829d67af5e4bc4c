package command

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"spillway/p4/softtor/server"
)

// builtVersion is set by the linker (-X spillway/appliance/command.builtVersion=1.2.3); empty in what was built without.
var builtVersion string

// version is that of this program.
func version() string {
	if builtVersion != "" {
		return builtVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func versionCommand(s streams) *cli.Command {
	var output string
	return &cli.Command{
		Name:  "version",
		Usage: "which spillwayd this is",
		Flags: []cli.Flag{&cli.StringFlag{
			Name: "output", Aliases: []string{"o"}, Usage: "`FORM` of the answer: table or json", Value: "table", EnvVars: []string{"SPILL_OUTPUT"}, Destination: &output,
		}},
		Action: func(*cli.Context) error {
			of := struct {
				Version   string `json:"version"`
				Go        string `json:"go"`
				P4Runtime string `json:"p4runtime"`
			}{version(), runtime.Version(), server.Version}
			switch output {
			case "json":
				return json.NewEncoder(s.out).Encode(of)
			case "table":
				fmt.Fprintf(s.out, "spillwayd %s\ngo        %s\np4runtime %s\n", of.Version, of.Go, of.P4Runtime)
				return nil
			}
			return usagef("version: output %q is neither table nor json", output)
		},
	}
}
