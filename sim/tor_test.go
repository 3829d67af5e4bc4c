package sim

import (
	"testing"
	"time"

	"spillway/p4/softtor/dataplane"
	"spillway/wire"
	"spillway/worker/engine"
)

// share is a region of slots for every 32 chunks.
func share(slots uint16, mode dataplane.RegionMode, priority uint8) *Share {
	return &Share{Region: engine.TorRegion{Slots: slots, Period: 32}, Mode: mode, Priority: priority}
}

// calm is a scenario without faults: jobs of four workers, each of which reduces that many chunks of 64 elements.
func calm(chunks int, shares ...*Share) *Scenario {
	s := &Scenario{Seed: 1, Faults: base, Burst: 64, Tor: &TorPlan{Elements: 832}}
	for n, share := range shares {
		j := &Job{Workers: 4, Elements: 64, Window: 32, HomePorts: 1, Share: share}
		c := Collective{Op: wire.Sum}
		for rank := range j.Workers {
			x := make([]int32, chunks*j.Elements)
			for i := range x {
				x[i] = int32(i*(rank+1) + n)
			}
			c.I32 = append(c.I32, x)
			j.Start = append(j.Start, []int64{int64(rank) * 1000})
		}
		j.Collectives = []Collective{c}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// TestNothingForTheHome: where the ToR has memory enough and nothing is lost, no packet reaches the home.
func TestNothingForTheHome(t *testing.T) {
	kit := takeKit(t)
	apart := share(64, dataplane.PrivateSlots, 9)
	apart.Region.Base = 64
	for name, s := range map[string]*Scenario{
		"one job":                 calm(500, share(32, dataplane.PrivateSlots, 1)),
		"two jobs, regions apart": calm(500, share(32, dataplane.PrivateSlots, 1), apart),
		"first come":              calm(500, share(32, dataplane.FirstComeSlots, 1)),
	} {
		s.Faults.Jitter = 0
		o, err := s.Run(kit)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if o.TorChunks != o.Chunks || o.Resends != 0 || o.Probes != 0 || o.Events["forwarded"] != 0 || o.Events["passed"] != 0 {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// TestShares: of every 32 chunks the ToR sums as many as it has slots, and nothing is asked about or sent again because the others
// take longer.
func TestShares(t *testing.T) {
	kit := takeKit(t)
	for _, slots := range []uint16{0, 1, 8, 16, 32} {
		for _, longer := range []int64{0, 100_000, 900_000} {
			s := calm(639, share(slots, dataplane.SharedSlots, 5))
			s.Tor.Longer = longer
			o, err := s.Run(kit)
			if err != nil {
				t.Fatal(err)
			}
			if want := o.Chunks * uint64(slots) / 32; o.TorChunks != want || o.Resends != 0 || o.Probes > o.Chunks/100 {
				t.Errorf("%d slots, home %v farther: %d of %d chunks summed in the ToR, %d resends, %d probes", slots, time.Duration(longer), o.TorChunks, o.Chunks, o.Resends, o.Probes)
			}
		}
	}
}

// TestContendedSlots: two jobs in one region. What is spilled and preempted costs few questions.
func TestContendedSlots(t *testing.T) {
	kit := takeKit(t)
	for _, mode := range []dataplane.RegionMode{dataplane.SharedSlots, dataplane.FirstComeSlots} {
		for _, longer := range []int64{0, 100_000, 900_000} {
			for _, slots := range []uint16{8, 32} {
				s := calm(800, share(slots, mode, 5), share(slots, mode, 50))
				s.Tor.Longer = longer
				o, err := s.Run(kit)
				if err != nil {
					t.Fatal(err)
				}
				if o.Resends > o.Chunks/50 || o.Probes > o.Chunks/25 || o.Events["spilled"] == 0 {
					t.Errorf("mode %d, %d slots, home %v farther: %v; %d of %d chunks summed in the ToR, %d resends, %d probes; %v", mode, slots, time.Duration(longer), o.Time, o.TorChunks, o.Chunks, o.Resends, o.Probes, o.Events)
				}
			}
		}
	}
}

// TestStraggler: a rank is late. Meanwhile the others bring one chunk to the home and ask about it now and then; when it comes, all goes on at once.
func TestStraggler(t *testing.T) {
	const late = 100 * time.Millisecond
	s := calm(200, share(32, dataplane.SharedSlots, 5))
	s.Jobs[0].Start[3][0] = int64(late)
	o, err := s.Run(takeKit(t))
	if err != nil {
		t.Fatal(err)
	}
	if o.Time > late+2*time.Millisecond || o.TorChunks < o.Chunks-8 || o.Resends > 8 || o.Probes > 40 {
		t.Errorf("%v; %d of %d chunks summed in the ToR, %d resends, %d probes; %v", o.Time, o.TorChunks, o.Chunks, o.Resends, o.Probes, o.Events)
	}
}
