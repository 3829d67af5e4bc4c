package dataplane

import (
	"slices"
	"testing"
)

// TestDropBench holds the bench to its job: it has every reason for which a packet ends in the ToR.
func TestDropBench(t *testing.T) {
	costs, err := benchDrops(1, 2000)
	if err != nil {
		t.Fatal(err)
	}
	names, err := EventNames()
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]bool{}
	for _, c := range costs {
		measured[c.Reason] = true
		if c.NS <= 0 || c.Reason != Foreign && !slices.Contains(names, c.Reason) {
			t.Errorf("%+v: want a time above 0 of an event", c)
		}
	}
	// A bad slot is no reason: the packet goes on to its home.
	for _, name := range names[torEventEVENT_UNKNOWN_JOB:] {
		if name != "" && name != "bad_slot" && !measured[name] {
			t.Errorf("%s is not measured", name)
		}
	}
	if !measured["duplicate"] {
		t.Error("duplicate is not measured")
	}
}
