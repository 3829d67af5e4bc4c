package hostile_test

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"spillway/wire"
	"spillway/wire/hostile"
)

var world = hostile.World{
	Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Ports: []uint16{9}, Jobs: []uint16{1}, Generations: []uint8{2}, Cookies: []uint32{3},
	Bitmaps: []uint64{4}, Slots: []uint16{5}, Ring: 16, Elements: []int{0, 31, 833},
}

// Every mutation is met, none trips over what another made, and the valid packet is left alone.
func TestMutate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	valid := make([]byte, 70+4*32)
	met := map[string]bool{}
	for range 20_000 {
		mutant, how := world.Mutate(rng, valid)
		if len(mutant) < 14 || len(mutant) > 70+4*wire.MaxElements+4+24 {
			t.Fatalf("%v made a frame of %d bytes", how, len(mutant))
		}
		for _, name := range how {
			met[name] = true
		}
	}
	for _, name := range hostile.Mutations() {
		if !met[name] {
			t.Errorf("%q was never met", name)
		}
	}
	if !bytes.Equal(valid, make([]byte, len(valid))) {
		t.Error("the valid packet was changed")
	}
}

// One seed, one attack.
func TestSeed(t *testing.T) {
	attack := func(seed uint64) (all [][]byte) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for range 100 {
			mutant, _ := world.Mutate(rng, make([]byte, 100))
			all = append(all, mutant, hostile.Garbage(rng, 60))
		}
		return all
	}
	if !slices.EqualFunc(attack(1), attack(1), bytes.Equal) || slices.EqualFunc(attack(1), attack(2), bytes.Equal) {
		t.Error("an attack cannot be repeated by its seed")
	}
}
