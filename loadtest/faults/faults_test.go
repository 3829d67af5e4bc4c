package faults

import (
	"math"
	"testing"
)

// What the programs do to packets is tested on a rack, in loadtest/rack.

func TestValidate(t *testing.T) {
	for _, good := range []Rates{{}, {Loss: 1}, {Loss: 0.001, Duplicate: 0.5, Reorder: 0.01, ECN: 1}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []Rates{{Loss: -0.1}, {Duplicate: 1.1}, {Reorder: math.NaN()}, {ECN: math.Inf(1)}} {
		if err := bad.Validate(); err == nil {
			t.Errorf("%+v passes", bad)
		}
		if i, err := Load(bad); err == nil {
			t.Errorf("%+v was loaded: %v", bad, i)
		}
	}
}

func TestThreshold(t *testing.T) {
	for p, want := range map[float64]uint32{0: 0, 0.5: 1 << 31, 1: math.MaxUint32, 0.001: 4294967, 1e-12: 0} {
		if got := threshold(p); got != want {
			t.Errorf("threshold(%g) = %d, want %d", p, got, want)
		}
	}
}

func TestDetourRate(t *testing.T) {
	for _, c := range []struct {
		rate    uint64
		reorder float64
		want    uint64
	}{
		{800_000_000, 0.001, 100_000_000}, // late by eight packets
		{800_000_000, 0.1, 480_000_000},   // room for two directions' share, twice, and half again
		{0, 0.001, 125_000_000},
	} {
		if got := detourRate(Link{Rate: c.rate}, c.reorder); got != c.want {
			t.Errorf("detour of %d bit/s at %g: %d bit/s, want %d", c.rate, c.reorder, got, c.want)
		}
	}
}
