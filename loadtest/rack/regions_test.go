package rack

import (
	"errors"
	"testing"
)

func TestRegions(t *testing.T) {
	for _, c := range []struct {
		name   string
		slots  uint32
		jobs   int
		shared bool
		window int
		want   []Region
	}{
		{"one job", 256, 1, false, 255, []Region{{0, 256, 256, 0}}},
		{"more than it has in flight", 1024, 1, false, 100, []Region{{0, 128, 128, 0}}},
		{"rounded down", 100, 1, false, 255, []Region{{0, 64, 256, 0}}},
		{"no memory", 0, 1, false, 255, []Region{{0, 0, 256, 0}}},
		{"two jobs", 64, 2, false, 127, []Region{{0, 32, 128, 0}, {32, 32, 128, 0}}},
		{"three jobs", 64, 3, false, 127, []Region{{0, 16, 128, 0}, {16, 16, 128, 0}, {32, 16, 128, 0}}},
		{"less than a slot each", 1, 2, false, 127, []Region{{0, 0, 128, 0}, {0, 0, 128, 0}}},
		{"shared by two", 64, 2, true, 127, []Region{{0, 64, 128, 0}, {0, 64, 128, 32}}},
		{"shared by three", 100, 3, true, 127, []Region{{0, 64, 128, 0}, {0, 64, 128, 16}, {0, 64, 128, 32}}},
		{"one slot shared", 1, 2, true, 127, []Region{{0, 1, 128, 0}, {0, 1, 128, 0}}},
		{"all of a large memory shared", 1 << 16, 2, true, 255, []Region{{0, 1 << 15, 256, 0}, {0, 1 << 15, 256, 1 << 14}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRegions(c.slots, c.jobs, c.shared)
			for i, want := range c.want {
				got, err := g.take(uint16(i+1), c.window)
				if err != nil || got != want {
					t.Errorf("job %d: %+v, %v, want %+v", i+1, got, err, want)
				}
				if got.Slots != 0 && (got.Base%got.Slots != 0 || got.Base+got.Slots > max(c.slots, 1)) {
					t.Errorf("job %d: %+v of %d slots", i+1, got, c.slots)
				}
			}
			if _, err := g.take(99, c.window); !errors.Is(err, errRegionsTaken) {
				t.Errorf("a job too many: %v", err)
			}
			g.give(1)
			if again, err := g.take(99, c.window); err != nil || again != c.want[0] {
				t.Errorf("given back and taken again: %+v, %v", again, err)
			}
		})
	}
}

func TestSlotsForAll(t *testing.T) {
	for _, c := range []struct{ jobs, window, want int }{{1, 255, 256}, {1, 256, 256}, {2, 127, 256}, {3, 1, 4}, {1, 1, 1}} {
		if got := SlotsForAll(c.jobs, c.window); got != c.want {
			t.Errorf("%d jobs, window %d: %d slots, want %d", c.jobs, c.window, got, c.want)
		}
	}
}
