package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test program spill-load itself when a script, or a rack
// that starts its workers from /proc/self/exe, runs it.
func TestMain(m *testing.M) {
	if os.Getenv(asSpillLoad) != "" {
		os.Exit(Main())
	}
	testscript.Main(m, map[string]func(){"spill-load": func() {
		// For the worker processes that this one will start.
		if err := os.Setenv(asSpillLoad, "1"); err != nil {
			panic(err)
		}
		os.Exit(Main())
	}})
}

// asSpillLoad is set in the environment of a test program that is to be spill-load.
const asSpillLoad = "SPILLWAY_TEST_AS_SPILL_LOAD"

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode":    exitCode,
			"unshared":    unshared,
			"jsonkeys":    jsonKeys,
			"nothingleft": nothingLeft,
		},
	})
}
