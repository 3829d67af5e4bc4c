package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/xdp"
)

// TestNodes has jobs be given places at several nodes, and lose them again.
func TestNodes(t *testing.T) {
	l := newLedger(t, small(), 0)
	l.SetNode("b", xdp.Slots{64, 64, 32, 32}, 2) // ids below 2 only
	request := Request{Name: "x", Workers: 2, Elements: 256, Window: 7, Shards: 2}
	one, err := l.Reserve(request, "b", node)
	if err != nil || !cmp.Equal(one.Places, []Place{{"b", 0}, {node, 0}}) || one.Bytes() != 2*16*xdp.SlotBytes(2) {
		t.Fatalf("%+v, %v", one, err)
	}
	two, err := l.Reserve(request, "b", node)
	if err != nil || !cmp.Equal(two.Places, []Place{{node, 16}}) {
		t.Fatalf("id 2 is not for b: %+v, %v", two, err)
	}
	if l.Fits(two.ID, "b") || !l.Fits(one.ID, "b") || l.Fits(9, node) || l.Fits(one.ID, "c") {
		t.Error("fits where it does not, or the other way round")
	}
	l.Give(one.ID, "b")
	if _, ok := l.Place(one.ID, "b"); ok || len(l.Places(one.ID)) != 1 {
		t.Errorf("%v", l.Places(one.ID))
	}
	if place, ok := l.Take(one.ID, "b"); !ok || place != (Place{"b", 0}) {
		t.Errorf("%v, %v", place, ok)
	}
	if place, ok := l.Take(one.ID, "b"); !ok || place != (Place{"b", 0}) {
		t.Errorf("taken twice: %v, %v", place, ok)
	}
	// The node is another one: what was there is not.
	if misplaced := l.SetNode("b", xdp.Slots{64, 64, 8, 32}, 8); !slices.Equal(misplaced, []uint16{one.ID}) {
		t.Errorf("%v", misplaced)
	}
	if _, ok := l.Place(one.ID, "b"); ok || l.Fits(one.ID, "b") {
		t.Error("it has a place among 8 slots")
	}
	if misplaced := l.SetNode("b", xdp.Slots{64, 64, 128, 32}, 8); len(misplaced) != 0 {
		t.Errorf("%v", misplaced)
	}
	if c := l.Capacity(node, "b"); c.SlotClasses[2].Slots.Total != 256 || c.SlotClasses[2].Slots.Used != 48 || c.Jobs.Used != 2 {
		t.Errorf("%v", c)
	}
	if c := l.NodeCapacity("b"); c.SlotClasses[2].Slots.Total != 128 || c.SlotClasses[2].Slots.Used != 16 || c.Jobs.Used != 1 || c.Jobs.Total != 7 {
		t.Errorf("%v", c)
	}
	l.Release(one.ID)
	l.Release(two.ID)
	if c := l.Capacity(node, "b"); c.MemoryBytes.Used != 0 {
		t.Errorf("%v", c)
	}
}

// TestUnknownNode has an allocation be restored of which one place is at a node that is not known yet.
func TestUnknownNode(t *testing.T) {
	l := newLedger(t, small(), 0)
	l.SetNode("b", xdp.Slots{}, 0)
	a, err := l.Reserve(Request{Name: "x", Workers: 2, Elements: 256, Window: 7, Shards: 2}, node, "b")
	if err != nil {
		t.Fatal(err)
	}
	again := newLedger(t, small(), 0)
	if err := again.Restore(a); err != nil {
		t.Fatal(err)
	}
	if _, ok := again.Place(a.ID, "b"); ok || len(again.Places(a.ID)) != 2 {
		t.Errorf("%v", again.Places(a.ID))
	}
	if misplaced := again.SetNode("b", xdp.Slots{}, 0); len(misplaced) != 0 || describe(again) != describe(l) {
		t.Errorf("%v: %s", misplaced, cmp.Diff(describe(l), describe(again)))
	}
}

// TestRandomNodes takes and gives back places at random, and compares what is held with what there is.
func TestRandomNodes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	names := []string{node, "b", "c"}
	l := newLedger(t, small(), 0)
	for _, name := range names[1:] {
		l.SetNode(name, xdp.Slots{}, 0)
	}
	for range 2000 {
		id, name := uint16(1+random.IntN(7)), names[random.IntN(3)]
		switch random.IntN(4) {
		case 0:
			random.Shuffle(3, func(i, j int) { names[i], names[j] = names[j], names[i] })
			_, _ = l.Reserve(Request{Name: "x", Workers: 2, Elements: uint32(32 * (1 + random.IntN(26))), Window: uint32(1 + random.IntN(20)), Shards: uint32(random.IntN(4))}, names...) // where there is room
		case 1:
			l.Release(id)
		case 2:
			fits, before := l.Fits(id, name), describe(l)
			if _, ok := l.Take(id, name); ok != fits || !ok && before != describe(l) {
				t.Fatalf("it fits: %v, and was taken: %v", fits, ok)
			}
		case 3:
			l.Give(id, name)
		}
		var used uint64
		for _, name := range names {
			var held uint64
			for id, a := range l.held {
				place, ok := a.Place(name)
				if is, has := l.Place(id, name); ok != has || ok && place != is {
					t.Fatalf("%d has its place at %v (%v), and the account says %v (%v)", id, place, ok, is, has)
				}
				if a.Places = []Place{place}; ok {
					held += a.Bytes()
				}
			}
			if is := l.NodeCapacity(name).MemoryBytes.Used; is != held {
				t.Fatalf("node %s: %d bytes are held, and the account says %d", name, held, is)
			}
			used += held
		}
		if is := l.Capacity(names...).MemoryBytes.Used; is != used {
			t.Fatalf("%d bytes are held, and the account says %d", used, is)
		}
	}
}
