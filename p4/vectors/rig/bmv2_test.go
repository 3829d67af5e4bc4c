package rig

import (
	"os"
	"os/exec"
	"testing"

	"spillway/p4/client"
	"spillway/p4/pipeline"
	"spillway/wire"
)

// bmv2Pipeline is the committed program for BMv2.
func bmv2Pipeline(t *testing.T) client.Pipeline {
	t.Helper()
	json, err := os.ReadFile("../../v1model/spillway.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := client.NewPipeline(pipeline.Software(), json)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// startBMv2 starts a switch for the test, which is skipped where there is none.
func startBMv2(t *testing.T, ports []uint16) *BMv2 {
	t.Helper()
	if _, err := exec.LookPath(SimpleSwitch); err != nil {
		t.Skipf("%s is not on PATH: it comes with p4lang's package bmv2, or from github.com/p4lang/behavioral-model", SimpleSwitch)
	}
	b, err := StartBMv2(t.Context(), shortDir(t), bmv2Pipeline(t), ports)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			log, err := os.ReadFile(b.Log())
			t.Logf("the switch's log (%v):\n%s", err, log)
		}
	})
	return b
}

// TestBMv2Vectors: all cases that need no more than 32 elements.
func TestBMv2Vectors(t *testing.T) {
	files := load(t)
	b := startBMv2(t, allPorts(t, files))
	for _, f := range files {
		if f.Fixture.Elements > wire.MinElements {
			t.Logf("%s: %d cases left out: they need %d elements, and BMv2's program has %d", f.Name, len(f.Cases), f.Fixture.Elements, wire.MinElements)
			continue
		}
		for _, c := range f.Cases {
			t.Run(f.Name+"/"+c.Name, func(t *testing.T) {
				if err := f.Run(b, &c); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
