package xdp

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"spillway/wire"
)

// TestRemovalUnderPackets has packets of a job in the program while the job comes and goes: none gets to the slots of another.
func TestRemovalUnderPackets(t *testing.T) {
	neighbour := testJob(2, 32)
	neighbour.ID, neighbour.Home = 1, netip.AddrPortFrom(homeAddr, wire.BasePort)
	a := load(t, neighbour)
	j := testJob(2, 32)
	base := a.config.Slots.base(0)
	if first := a.jobs[neighbour.ID].slots.first; first != 0 {
		t.Fatalf("the neighbour's slots begin at %d, and are to be the first", first)
	}
	var done atomic.Bool
	var packets errgroup.Group
	packets.Go(func() error {
		for seq := uint32(1); !done.Load(); seq++ {
			h, elements := data(0, seq, make([]int32, 32)...)
			if _, _, err := a.Process(frame(0, h, elements)); err != nil {
				return err
			}
		}
		return nil
	})
	for end := time.Now().Add(time.Second); time.Now().Before(end) && !t.Failed(); {
		if err := a.AddJob(j); err != nil {
			t.Error(err)
		}
		if err := a.RemoveJob(j.ID); err != nil {
			t.Error(err)
		}
		var s aggregatorSlot
		if err := a.objects.Slots.Lookup(base, &s); err != nil {
			t.Error(err)
		}
		if s.Tenant != 0 {
			t.Errorf("the neighbour's first slot has a chunk of tenant %#x", s.Tenant)
		}
	}
	done.Store(true)
	if err := packets.Wait(); err != nil {
		t.Error(err)
	}
}
