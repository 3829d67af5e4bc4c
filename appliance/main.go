// Command spillwayd is the daemon of an appliance: it loads the XDP aggregator, admits jobs, tells workers what they must know, and keeps
// the ToR programmed.
package main

import (
	"context"
	"os"

	"spillway/appliance/command"
)

func main() {
	os.Exit(command.Main(context.Background(), os.Args, os.Stdout, os.Stderr))
}
