package capi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"spillway/appliance/command"
	"spillway/loadtest/rack"
	"spillway/worker/capi/library"
)

// asDaemon is set in the environment of this program when it is to be spillwayd.
const asDaemon = "SPILLWAY_TEST_AS_SPILLWAYD"

// built has the library, and the driver in its variants.
var built string

// variants of the driver, by the compiler's flags.
var variants = map[string][]string{
	"plain": {"-O2"},
	"asan":  {"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"},
}

func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) != "" {
		os.Exit(command.Main(context.Background(), append([]string{"spillwayd"}, os.Args[1:]...), os.Stdout, os.Stderr))
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if built, err = os.MkdirTemp("", "spillway-capi-"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(built)) }()
	if err := library.Install(context.Background(), library.Options{Repository: "../..", Out: built, Version: "1.2.3"}); err != nil {
		return 0, err
	}
	for name, flags := range variants {
		if err := compileDriver("gcc", built, filepath.Join(built, name), flags...); err != nil {
			return 0, err
		}
		commands[name] = []string{filepath.Join(built, name)}
	}
	return m.Run(), nil
}

// commands run the driver, by variant: in an emulator, if there is more than one word.
var commands = map[string][]string{}

// compileDriver builds the driver with the library in a directory.
func compileDriver(compiler, directory, out string, flags ...string) error {
	args := append([]string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-pthread", "-I", directory, "testdata/driver.c", "-o", out}, flags...)
	args = append(args, "-L", directory, "-lspillway", "-lm", "-Wl,-rpath,"+directory)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", compiler, err, out)
	}
	return nil
}

// newRack has so many workers.
func newRack(t *testing.T, workers int) *rack.Rack {
	t.Helper()
	r, err := rack.New(t.Context(), rack.Config{Workers: workers, Daemon: rack.Command{Env: []string{asDaemon + "=1"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// start runs a scenario of the driver at every rank of a new job.
func start(t *testing.T, r *rack.Rack, job rack.Job, variant, scenario string, files ...string) []*rack.Process {
	t.Helper()
	job.Unicast = len(commands[variant]) > 1 // qemu's emulation has no IP_MULTICAST_ALL
	if err := r.AddJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	invitations, err := r.Invite(job)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var all []*rack.Process
	for rank, i := range invitations {
		name := fmt.Sprintf("rank%d", rank)
		if err := i.Pair.Write(dir, name, false); err != nil {
			t.Fatal(err)
		}
		args := []string{scenario, i.Appliance, i.Job, strconv.Itoa(rank), strconv.Itoa(i.Workers), filepath.Join(dir, "ca.crt"), filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")}
		if files != nil {
			args = append(args, files[rank])
		}
		command := commands[variant]
		p, err := r.StartWorker(rank, rack.Command{Path: command[0], Args: append(slices.Clone(command[1:]), args...), Env: []string{"ASAN_OPTIONS=detect_leaks=1:abort_on_error=0"}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// report is a line of the driver's.
type report struct {
	Step        string `json:"step"`
	Code        int    `json:"code"`
	Ranks       uint64 `json:"ranks"`
	Broken      int    `json:"broken"`
	Text        string `json:"text"`
	Grown       int    `json:"grown"` // KiB
	Descriptors int    `json:"descriptors"`
}

// patience is how long a scenario may take on a busy machine.
const patience = 2 * time.Minute

// next is a driver's next line.
func next(t *testing.T, p *rack.Process) (said report) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Receive(ctx, &said); err != nil {
		t.Fatal(err)
	}
	return said
}

// step waits for a driver to have come to a step.
func step(t *testing.T, p *rack.Process, want string) {
	t.Helper()
	if said := next(t, p); said.Step != want {
		t.Fatalf("the driver says %+v, want step %s", said, want)
	}
}

// finish waits for drivers to end well.
func finish(t *testing.T, all []*rack.Process) {
	t.Helper()
	for _, p := range all {
		step(t, p, "done")
	}
	for _, p := range all {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// each runs a test with every variant, in one rack.
func each(t *testing.T, workers int, f func(t *testing.T, r *rack.Rack, variant string)) {
	t.Helper()
	r := newRack(t, workers)
	for variant := range variants {
		t.Run(variant, func(t *testing.T) { f(t, r, variant) })
	}
}
