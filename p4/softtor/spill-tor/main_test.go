package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"spillway/p4/client"
	"spillway/p4/pipeline"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"spill-tor": main, "controller": controller})
}

// TestScripts drives the command whole, in a network namespace with veths port1 and port2.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"namespace": namespace, "exitcode": exitCode, "ready": ready, "attached": attached, "mkconfig": makeConfig,
		},
	})
}

// namespace puts the script, which has a goroutine of its own, into a fresh network namespace: namespace
func namespace(ts *testscript.TestScript, neg bool, args []string) {
	// Never unlocked: the thread ends with the script.
	runtime.LockOSThread()
	ns, err := netns.New()
	ts.Check(err)
	ts.Defer(func() { ns.Close() })
	for _, name := range []string{"port1", "port2"} {
		ts.Check(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "peer" + name}))
	}
	lo, err := netlink.LinkByName("lo")
	ts.Check(err)
	ts.Check(netlink.LinkSetUp(lo))
}

// makeConfig writes a configuration whose socket is in the script's directory: mkconfig FILE [SECOND INTERFACE]
func makeConfig(ts *testscript.TestScript, neg bool, args []string) {
	second := "port2"
	if len(args) > 1 {
		second = args[1]
	}
	text := fmt.Sprintf(`{"listen": "unix:%s", "device_id": 7, "slots": 16, "elements": 64,
		"ports": [{"port": 1, "interface": "port1"}, {"port": 2, "interface": %q}]}`, ts.MkAbs("tor.sock"), second)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// exitCode runs a command and wants its exit code: exitcode CODE COMMAND ARG…
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
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

// ready waits until a socket is there: ready PATH
func ready(ts *testscript.TestScript, neg bool, args []string) {
	until(ts, "there is no "+args[0], func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	})
}

// attached waits until an XDP program is, or is not, on an interface: [!] attached INTERFACE
func attached(ts *testscript.TestScript, neg bool, args []string) {
	until(ts, fmt.Sprintf("an XDP program on %s: %v", args[0], neg), func() bool {
		link, err := netlink.LinkByName(args[0])
		ts.Check(err)
		xdp := link.Attrs().Xdp
		return (xdp != nil && xdp.Attached) != neg
	})
}

func until(ts *testscript.TestScript, what string, f func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(30 * time.Second)
	for !f() {
		select {
		case <-tick.C:
		case <-end:
			ts.Fatalf("%s", what)
		}
	}
}

// controller is a command of the scripts: it makes itself primary of the ToR, and says what it finds. controller TARGET [write]
func controller() {
	if err := control(os.Args[1], slices.Contains(os.Args[2:], "write")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func control(target string, write bool) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Target: target, Device: 7, Election: &client.ElectionID{Low: 1}, Info: pipeline.Software()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	p, err := client.NewPipeline(pipeline.Software(), nil)
	if err != nil {
		return err
	}
	pushed, err := c.EnsurePipeline(ctx, p, false)
	if err != nil {
		return err
	}
	if write {
		if err := c.Write(ctx, &p4v1.Update{Type: p4v1.Update_INSERT, Entity: pipeline.Multicast(1, 1, 2)}); err != nil {
			return err
		}
	}
	groups, err := c.Read(ctx, pipeline.Multicast(0))
	if err != nil {
		return err
	}
	limits, err := pipeline.ReadLimits(ctx, c, pipeline.Software())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"pushed": pushed, "groups": len(groups), "slots": limits.Slots, "elements": limits.Elements})
}

// The exit codes that the help tells of are those that there are.
func TestExitCodesInHelp(t *testing.T) {
	help := newApp(streams{}).Description
	for _, code := range []int{exitOK, exitFailure, exitUsage, exitNotFound, exitConflict} {
		if !strings.Contains(strings.ReplaceAll(help, "\n", " "), fmt.Sprintf(" %d ", code)) {
			t.Errorf("exit code %d is not in the help", code)
		}
	}
}
