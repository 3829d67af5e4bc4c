package worker

import (
	"slices"
	"strings"
	"testing"

	v1 "spillway/appliance/api/spillway/v1"
)

// TestPlaceInTree: a worker's place at its home is taken as it is said, also of a rank that no bitmap has a bit for; what cannot be is refused.
func TestPlaceInTree(t *testing.T) {
	p := complete()
	p.Policy, p.Rank, p.Workers = Policy{}, 300, 1000
	message := said(p)
	message.Tree = &v1.TreePlace{Bit: 1, Ranks: []uint32{299, 300}, Beyond: []*v1.Branch{{Ranks: []uint32{0, 1}}, {Ranks: []uint32{299, 300}}}}
	got, err := paramsOf(message, 300)
	if err != nil || got.Level == nil || got.Level.Bit != 1 || !slices.Equal(got.Level.Ranks, []int{299, 300}) || len(got.Level.Beyond) != 2 {
		t.Fatalf("%v, %+v", err, got.Level)
	}
	message.Tree.Bit = 0
	if _, err := paramsOf(message, 300); err == nil || !strings.Contains(err.Error(), "bit 0 is that of rank 299") {
		t.Errorf("another's bit: %v", err)
	}
	message.Tree = nil
	if _, err := paramsOf(message, 300); err == nil || !strings.Contains(err.Error(), "workers 1000 is not between") {
		t.Errorf("1000 workers of one level: %v", err)
	}
}
