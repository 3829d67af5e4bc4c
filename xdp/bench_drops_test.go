package xdp

import (
	"slices"
	"testing"
)

// TestDropBench holds the bench to its job: it has every reason to drop a packet that there is, but for those to which no packet
// of a member leads: internal, contended, and needless, which is said of a parent's.
func TestDropBench(t *testing.T) {
	costs, err := benchDrops(1, 2000)
	if err != nil {
		t.Fatal(err)
	}
	reasons := []string{Foreign}
	for _, reason := range dropReasons(shared) {
		if !slices.Contains([]string{"internal", "contended", "needless"}, reason) {
			reasons = append(reasons, reason)
		}
	}
	var got []string
	for _, c := range costs {
		got = append(got, c.Reason)
		if c.NS <= 0 {
			t.Errorf("%+v: want a time above 0", c)
		}
	}
	if !slices.Equal(got, reasons) {
		t.Errorf("measured %v, want %v", got, reasons)
	}
}
