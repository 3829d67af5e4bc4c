package dataplane

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWipe: nothing of before is left, and the ToR works when its tables are back.
func TestWipe(t *testing.T) {
	r := setUp(t, 32, jobA, jobB)
	r.send("claim", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
	r.must(r.Wipe())
	if s := r.state(); len(s.Slots)+len(s.Counters) != 0 {
		t.Errorf("after a wipe: %+v", s)
	}
	r.sendFrame("Ethernet", 1, append([]byte{255, 255, 255, 255, 255, 255}, make([]byte, 54)...), nil)
	r.send("no job", jobA.data(0, 5, 32), nil, "unknown_job[0]")
	r.must(r.Wipe())
	r.install(jobA)
	r.send("no route", jobA.data(0, 5, 32).resend(), nil, jobA.at("passed"))
	r.send("claim", jobA.data(0, 5, 32), nil, jobA.at("claimed"))
	last := jobA.data(2, 5, 32)
	r.send("merge", jobA.data(1, 5, 32), nil, jobA.at("merged"))
	r.send("complete", last, jobA.result(last, 0, sum(5, 32, 0, 1, 2)), jobA.at("completed"))
}

// TestTrafficCounters: what entries count, and that they can be reset.
func TestTrafficCounters(t *testing.T) {
	r := setUp(t, 32, jobA)
	home := netip.PrefixFrom(homeAddr, 32)
	member := MemberKey{1, workerAddr(0), jobA.id}
	p := jobA.data(0, 5, 32).resend()
	for range 3 {
		r.send("resend", p, p.passed(), jobA.at("passed"))
	}
	packets, bytes, err := r.ForwardCount(home)
	if err != nil || packets != 3 || bytes != 3*uint64(len(p.frame())) {
		t.Errorf("forward: %d packets, %d bytes, %v", packets, bytes, err)
	}
	packets, bytes, err = r.MemberCount(member)
	if err != nil || packets != 3 || bytes != 3*uint64(len(p.frame())) {
		t.Errorf("member: %d packets, %d bytes, %v", packets, bytes, err)
	}
	r.must(r.SetForward(home, &ToPort{Port: 63, MAC: homeMAC}))
	if packets, _, err = r.ForwardCount(home); err != nil || packets != 3 {
		t.Errorf("forward, changed: %d packets, %v", packets, err)
	}
	r.must(r.ResetForward(home))
	r.must(r.ResetMember(member))
	r.must(r.ResetEvent(jobA.index, int(torEventEVENT_PASSED)))
	r.must(r.ResetPreempted(jobA.index))
	r.must(r.ResetSaturated(jobA.index))
	if diff := cmp.Diff(map[string]uint64{}, r.counters()); diff != "" {
		t.Errorf("counters after a reset (-want +got)\n%s", diff)
	}
	packets, bytes, err = r.MemberCount(member)
	if err != nil || packets+bytes != 0 {
		t.Errorf("member, reset: %d packets, %d bytes, %v", packets, bytes, err)
	}
	r.must(r.SetMember(member, nil))
	if _, _, err = r.MemberCount(member); !errors.Is(err, ErrNoEntry) {
		t.Errorf("member, deleted: %v", err)
	}
}

// TestRefusedEntries: what the data plane cannot hold it refuses, and what was there stays.
func TestRefusedEntries(t *testing.T) {
	r := setUp(t, 32, jobA)
	shared, firstCome, mode9 := SharedSlots, FirstComeSlots, RegionMode(9)
	group := uint16(1)
	for name, c := range map[string]struct{ got, want error }{
		"IPv6 route":              {r.SetForward(netip.MustParsePrefix("fd00::/8"), &ToPort{}), ErrInvalid},
		"host bits":               {r.SetForward(netip.MustParsePrefix("10.0.0.1/8"), &ToPort{}), ErrInvalid},
		"no such port":            {r.SetForward(netip.MustParsePrefix("10.0.0.0/8"), &ToPort{Port: 512}), ErrInvalid},
		"no such route":           {r.SetForward(netip.MustParsePrefix("10.0.0.0/8"), nil), ErrNoEntry},
		"unicast group":           {r.SetGroupRoute(homeAddr, &group), ErrInvalid},
		"no such group":           {r.SetGroupRoute(netip.MustParseAddr("239.9.9.9"), nil), ErrNoEntry},
		"no such link":            {r.SetBridge(MAC{9}, nil), ErrNoEntry},
		"bridge to no port":       {r.SetBridge(MAC{9}, &BridgeTo{Port: 512}), ErrInvalid},
		"index 0":                 {r.SetJob(9, &JobParams{}), ErrInvalid},
		"no such job":             {r.SetJob(9, nil), ErrNoEntry},
		"worker without a bit":    {r.SetMember(MemberKey{1, homeAddr, 7}, &Member{Role: Worker}), ErrInvalid},
		"bits in the rest":        {r.SetMember(MemberKey{1, homeAddr, 7}, &Member{Role: Worker, Bits: 1, Rest: 3}), ErrInvalid},
		"role":                    {r.SetMember(MemberKey{1, homeAddr, 7}, &Member{Role: 4}), ErrInvalid},
		"no such member":          {r.SetMember(MemberKey{1, homeAddr, 7}, nil), ErrNoEntry},
		"region outside":          {r.SetRegion(RegionKey{7, 256, 0xff00}, &shared), ErrInvalid},
		"region with holes":       {r.SetRegion(RegionKey{7, 0, 0xff55}, &shared), ErrInvalid},
		"region not aligned":      {r.SetRegion(RegionKey{7, 8, 0xfff0}, &shared), ErrInvalid},
		"region of its own twice": {r.SetRegion(RegionKey{7, 64, 0xfff0}, &firstCome), ErrInvalid},
		"mode":                    {r.SetRegion(RegionKey{7, 0, 0xfff0}, &mode9), ErrInvalid},
		"no such region":          {r.SetRegion(RegionKey{7, 0, 0xfff0}, nil), ErrNoEntry},
		"uplink without address":  {r.SetUplink(7, &Uplink{}), ErrInvalid},
		"no such uplink":          {r.SetUplink(9, nil), ErrNoEntry},
		"publish nowhere":         {r.SetPublish(7, &Publish{}), ErrInvalid},
		"no such publish":         {r.SetPublish(9, nil), ErrNoEntry},
		"port twice":              {r.SetMulticast(1, []Port{1, 1}), ErrInvalid},
		"no such multicast group": {r.SetMulticast(1, nil), ErrNoEntry},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	for w := range 3 {
		p := jobA.data(w, 5, 32)
		switch w {
		case 0:
			r.send("claim", p, nil, jobA.at("claimed"))
		case 1:
			r.send("merge", p, nil, jobA.at("merged"))
		case 2:
			r.send("complete", p, jobA.result(p, 0, sum(5, 32, 0, 1, 2)), jobA.at("completed"))
		}
	}
	for _, c := range []Config{{Slots: 65536}, {Elements: 31}, {Elements: 833}, {Elements: 864}, {Elements: -32}} {
		if d, err := Load(c); err == nil {
			d.Close()
			t.Errorf("%+v was loaded", c)
		}
	}
}

// TestTableSizes: tables take as many entries as the P4 programs', and give the places back.
func TestTableSizes(t *testing.T) {
	r := setUp(t, 32)
	r.must(r.Wipe())
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}) }
	group := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{239, 0, byte(i >> 8), byte(i)}) }
	one, mode := uint16(1), SharedSlots
	for name, c := range map[string]struct {
		size   int
		put    func(i int) error
		remove func(i int) error
	}{
		"forward": {1024, func(i int) error { return r.SetForward(netip.PrefixFrom(addr(i), 32), &ToPort{}) },
			func(i int) error { return r.SetForward(netip.PrefixFrom(addr(i), 32), nil) }},
		"group":  {1024, func(i int) error { return r.SetGroupRoute(group(i), &one) }, func(i int) error { return r.SetGroupRoute(group(i), nil) }},
		"bridge": {1024, func(i int) error { return r.SetBridge(MAC{byte(i >> 8), byte(i)}, &BridgeTo{}) }, func(i int) error { return r.SetBridge(MAC{byte(i >> 8), byte(i)}, nil) }},
		"job":    {256, func(i int) error { return r.SetJob(uint16(i), &JobParams{Index: 1}) }, func(i int) error { return r.SetJob(uint16(i), nil) }},
		"member": {4096, func(i int) error { return r.SetMember(MemberKey{1, addr(i), 7}, &Member{Role: Home}) },
			func(i int) error { return r.SetMember(MemberKey{1, addr(i), 7}, nil) }},
		"regions of a job": {4, func(i int) error { return r.SetRegion(RegionKey{7, uint16(i), 0xffff}, &mode) },
			func(i int) error { return r.SetRegion(RegionKey{7, uint16(i), 0xffff}, nil) }},
		"multicast": {1024, func(i int) error { return r.SetMulticast(uint16(i), []Port{1}) }, func(i int) error { return r.SetMulticast(uint16(i), nil) }},
	} {
		for round := range 2 {
			for i := range c.size {
				if err := c.put(i); err != nil {
					t.Fatalf("%s, round %d, entry %d: %v", name, round, i, err)
				}
			}
			if err := c.put(c.size); !errors.Is(err, ErrFull) {
				t.Errorf("%s: entry %d: %v, want %v", name, c.size, err, ErrFull)
			}
			for i := range c.size {
				if err := c.remove(i); err != nil {
					t.Fatalf("%s, round %d, entry %d: %v", name, round, i, err)
				}
			}
		}
	}
}

// TestEventNames: the numbers are the P4 programs', which docs/protocol.md lists.
func TestEventNames(t *testing.T) {
	names, err := EventNames()
	if err != nil {
		t.Fatal(err)
	}
	want := make([]string, 32)
	copy(want, []string{"claimed", "merged", "completed", "preempts", "spilled", "resend_evicted", "passed", "duplicate", "overlap", "freed", "forwarded", "mismatch"})
	copy(want[16:], []string{"unknown_job", "stale", "bad_cookie", "not_member", "bad_bitmap", "bad_slot", "bad_header", "bad_direction"})
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
