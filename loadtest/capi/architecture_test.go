package capi

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"spillway/loadtest/rack"
	"spillway/worker/capi/library"
)

// TestOtherArchitecture: the library for the architecture that is not this machine's reduces as the reference does, every type, at lengths from one element to many
// chunks; and threads share a worker, and a rank that is killed is named. Debian's cross compiler builds it, and qemu runs the ranks.
func TestOtherArchitecture(t *testing.T) {
	architecture := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	compiler, err := library.Compiler(architecture)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	if err := library.Install(t.Context(), library.Options{Repository: "../..", Out: directory, Architecture: architecture, Version: "1.2.3"}); err != nil {
		t.Fatal(err)
	}
	driver := filepath.Join(directory, "driver")
	if err := compileDriver(compiler, directory, driver, "-O2"); err != nil {
		t.Fatal(err)
	}
	emulator := library.Emulator(architecture)
	if emulator[0], err = exec.LookPath(emulator[0]); err != nil {
		t.Fatalf("%v: install qemu-user", err)
	}
	commands[architecture] = append(emulator, driver)
	r := newRack(t, 3)
	reduceAll(t, r, architecture)
	finish(t, start(t, r, rack.Job{Name: "threads-" + architecture, Window: 128}, architecture, "threads"))
	kill(t, r, architecture)
}
