// Command spillctl shows what an appliance does, admits jobs, and finds out why nothing moves.
package main

import (
	"os"

	"spillway/ctl/command"
)

func main() { os.Exit(command.Main()) }
