// Command makelib builds libspillway for this machine: go run ./worker/capi/library/makelib, in the directory of the sources.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"spillway/worker/capi/library"
)

func main() {
	out := flag.String("out", "bin", "`directory` for the library, the header and the file for pkg-config")
	version := flag.String("version", "", "`version` of the library")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := library.Install(ctx, library.Options{Repository: ".", Out: *out, Version: *version}); err != nil {
		fmt.Fprintln(os.Stderr, "makelib:", err)
		os.Exit(1)
	}
}
