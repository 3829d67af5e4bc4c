// Command makedeb makes the Debian packages: go run ./appliance/packaging/makedeb, in the directory of the sources.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"spillway/appliance/packaging"
	"spillway/worker/capi/library"
)

func main() {
	out := flag.String("out", "dist", "`directory` for the packages")
	version := flag.String("version", packaging.Version(), "`version` of the packages and of the programs in them")
	architectures := flag.String("arch", strings.Join(packaging.Architectures(), ","), "`architectures`, by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, architecture := range strings.Split(*architectures, ",") {
		options := packaging.Options{Repository: ".", Out: *out, Architecture: architecture, Version: *version}
		path, err := packaging.Build(ctx, options)
		if err != nil {
			fmt.Fprintln(os.Stderr, "makedeb:", err)
			os.Exit(1)
		}
		fmt.Println(path)
		paths, err := packaging.BuildLibrary(ctx, options)
		switch {
		case errors.Is(err, library.ErrNoCompiler):
			fmt.Fprintf(os.Stderr, "makedeb: no libspillway1 and libspillway-dev for %s: %v\n", architecture, err)
		case err != nil:
			fmt.Fprintln(os.Stderr, "makedeb:", err)
			os.Exit(1)
		}
		for _, path := range paths {
			fmt.Println(path)
		}
	}
	path, err := packaging.BuildPython(ctx, packaging.Options{Repository: ".", Out: *out, Version: *version})
	if err != nil {
		fmt.Fprintln(os.Stderr, "makedeb:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
