package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// exitCode runs a command and wants its exit code: exitcode CODE COMMAND ARG…
// Its streams are for stdout and stderr of the script.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// unshared runs a command as a user without privileges and wants exit code 1:
// unshared COMMAND ARG…; stderr goes to the file stderr.txt.
func unshared(ts *testscript.TestScript, neg bool, args []string) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
			if _, err := os.Stat(filepath.Join(dir, args[0])); err == nil {
				path = filepath.Join(dir, args[0])
			}
		}
	}
	// The nobody user cannot search the directory that the script's commands are in; a
	// descriptor needs no search.
	program, err := os.Open(path)
	ts.Check(err)
	defer program.Close()
	cmd := exec.Command("/proc/self/fd/3", args[1:]...)
	cmd.ExtraFiles = []*os.File{program}
	cmd.Args[0] = args[0]
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), asSpillLoad + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var said strings.Builder
	cmd.Stderr = &said
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
		ts.Fatalf("%v, want exit code 1: %s", err, said.String())
	}
	ts.Check(os.WriteFile(ts.MkAbs("stderr.txt"), []byte(said.String()), 0o600))
}

// jsonKeys wants keys in the last command's stdout, which is a JSON object or a
// list of them: jsonkeys KEY…
func jsonKeys(ts *testscript.TestScript, neg bool, args []string) {
	var any json.RawMessage
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &any))
	var all []map[string]json.RawMessage
	if err := json.Unmarshal(any, &all); err != nil {
		one := map[string]json.RawMessage{}
		ts.Check(json.Unmarshal(any, &one))
		all = append(all, one)
	}
	if len(all) == 0 {
		ts.Fatalf("no objects")
	}
	for _, object := range all {
		for _, key := range args {
			if _, ok := object[key]; !ok {
				ts.Fatalf("no key %q", key)
			}
		}
	}
}

// nothingLeft wants no process of this program but itself, and no namespace that
// this test's own processes are not in: nothingleft
func nothingLeft(ts *testscript.TestScript, neg bool, args []string) {
	own, err := os.Readlink("/proc/self/ns/net")
	ts.Check(err)
	marker := "WORK=" + ts.Getenv("WORK") + "\x00" // in the environment of all that this script starts
	processes, err := filepath.Glob("/proc/[0-9]*")
	ts.Check(err)
	for _, process := range processes {
		environment, err := os.ReadFile(filepath.Join(process, "environ"))
		if err != nil || !strings.Contains(string(environment), marker) {
			continue
		}
		ns, err := os.Readlink(filepath.Join(process, "ns/net"))
		if err != nil {
			continue // it ended meanwhile
		}
		ts.Fatalf("process %s is left, in namespace %s (ours is %s)", process, ns, own)
	}
}
