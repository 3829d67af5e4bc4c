package main

import (
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"spillway/p4/client"
	"spillway/p4/pipeline"
	"spillway/p4/softtor/server"
)

// version is what version reports.
type version struct {
	Version   string `json:"version"`
	P4Runtime string `json:"p4runtime"`
	// Pipeline is the cookie of the P4Info that this ToR accepts.
	Pipeline string `json:"pipeline"`
}

func versionCommand(s streams) *cli.Command {
	var output string
	return &cli.Command{
		Name:  "version",
		Usage: "which spill-tor, P4Runtime and pipeline this is",
		Flags: []cli.Flag{outputFlag(&output)},
		Action: func(*cli.Context) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			accepted, err := client.NewPipeline(pipeline.Software(), nil)
			if err != nil {
				return err
			}
			v := version{Version: "unknown", P4Runtime: server.Version, Pipeline: fmt.Sprintf("%016x", accepted.Cookie)}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Version = info.Main.Version
			}
			if output == outputJSON {
				return json.NewEncoder(s.out).Encode(v)
			}
			fmt.Fprintf(s.out, "spill-tor %s\np4runtime %s\npipeline  %s\n", v.Version, v.P4Runtime, v.Pipeline)
			return nil
		},
	}
}
