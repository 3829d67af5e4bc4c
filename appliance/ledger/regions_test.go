package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPrivateRegions(t *testing.T) {
	g := regions{shared: 16, slots: 128, sharers: map[uint32]int{}}
	for _, c := range []struct{ slots, base uint32 }{{32, 32}, {8, 16}, {64, 64}, {8, 24}} {
		base, ok := g.fit(c.slots)
		if !ok || base != c.base {
			t.Fatalf("region of %d: at %d, %v; want %d", c.slots, base, ok, c.base)
		}
		g.take(Region{Base: base, Slots: c.slots, Period: 256})
	}
	if _, ok := g.fit(1); ok || g.largest() != 0 || g.used() != 112 {
		t.Errorf("full, and there is room: largest %d, used %d", g.largest(), g.used())
	}
	g.give(Region{Base: 32, Slots: 32})
	if g.largest() != 32 || g.used() != 80 {
		t.Errorf("largest %d, used %d after 32 were given back", g.largest(), g.used())
	}
}

func TestLargeMemories(t *testing.T) {
	g := regions{slots: 1 << 20, sharers: map[uint32]int{}}
	if base, ok := g.fit(maxRegion); !ok || base != 0 {
		t.Errorf("half of what can be addressed: at %d, %v", base, ok)
	}
	g.take(Region{Slots: maxRegion, Period: maxRegion})
	if _, ok := g.fit(maxRegion); ok {
		t.Error("a region with the index that says that there is no slot")
	}
	if g.largest() != maxRegion/2 {
		t.Errorf("largest %d beside one of %d", g.largest(), maxRegion)
	}
}

func TestSharedOffsets(t *testing.T) {
	g := regions{shared: 64, slots: 64, sharers: map[uint32]int{}}
	var got []uint32
	for range 6 {
		offset := g.offset()
		g.take(Region{Slots: 64, Period: 256, Offset: offset, Shared: true})
		got = append(got, offset)
	}
	if diff := cmp.Diff([]uint32{0, 32, 16, 48, 8, 40}, got); diff != "" {
		t.Error(diff)
	}
	g.give(Region{Slots: 64, Offset: 32, Shared: true})
	if g.offset() != 32 {
		t.Errorf("what was given back is not the next: %d", g.offset())
	}
	one := regions{shared: 1, slots: 1, sharers: map[uint32]int{}}
	for range 3 {
		if offset := one.offset(); offset != 0 {
			t.Errorf("offset %d of one slot", offset)
		}
		one.take(Region{Slots: 1, Shared: true})
	}
	if (&regions{shared: 64, slots: 63}).hasShared() || (&regions{slots: 64}).hasShared() {
		t.Error("a shared region that the ToR does not have")
	}
}

func TestPeriod(t *testing.T) {
	for _, c := range [][2]uint32{{1, 1}, {2, 2}, {3, 4}, {255, 256}, {256, 256}, {257, 512}} {
		if got := Period(c[0]); got != c[1] {
			t.Errorf("window %d: period %d, want %d", c[0], got, c[1])
		}
	}
}
