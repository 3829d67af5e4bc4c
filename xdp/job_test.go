package xdp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/wire"
)

// TestClasses holds classElements to the compiled program's payload maps.
func TestClasses(t *testing.T) {
	spec, err := loadAggregator()
	if err != nil {
		t.Fatal(err)
	}
	var found int
	for name, m := range spec.Maps {
		if !strings.HasPrefix(name, "payload_") {
			continue
		}
		found++
		if i := slices.IndexFunc(classElements[:], func(e int) bool { return name == fmt.Sprintf("payload_%d_map", e) }); i < 0 || int(m.ValueSize) != classElements[i]*wire.ElementSize {
			t.Errorf("map %s has values of %d bytes", name, m.ValueSize)
		}
	}
	if found != classes {
		t.Errorf("%d payload maps, want %d", found, classes)
	}
	for e, want := range map[int]int{32: 0, 64: 1, 96: 2, 256: 2, 288: 3, 832: 3} {
		if got, room := ClassOf(e); got != want || room != classElements[want] {
			t.Errorf("E %d is of class %d, want %d", e, got, want)
		}
	}
}

func TestAllocator(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	region := NewAllocator(1000)
	var taken []span
	for range 5000 {
		if n := r.Uint32N(200) + 1; r.IntN(3) == 0 {
			at := r.Uint32N(1100)
			free := slices.ContainsFunc(region.free, func(s span) bool { return s.first <= at && at+n <= s.first+s.count })
			if err := region.TakeAt(at, n); (err == nil) != free || err != nil && !errors.Is(err, ErrNoSlots) {
				t.Fatalf("take [%d, %d) of %v: %v", at, at+n, region.free, err)
			} else if err == nil {
				taken = append(taken, span{at, n})
			}
		} else if r.IntN(2) == 0 {
			if first, err := region.Take(n); err == nil {
				taken = append(taken, span{first, n})
			} else if !errors.Is(err, ErrNoSlots) {
				t.Fatal(err)
			}
		} else if len(taken) > 0 {
			i := r.IntN(len(taken))
			region.Give(taken[i].first, taken[i].count)
			taken = slices.Delete(taken, i, i+1)
		}
		var owned [1000]int
		for _, s := range append(slices.Clone(taken), region.free...) {
			for i := s.first; i < s.first+s.count; i++ {
				owned[i]++
			}
		}
		var free, largest uint32
		for _, s := range region.free {
			free, largest = free+s.count, max(largest, s.count)
		}
		if region.Free() != free || region.Largest() != largest {
			t.Fatalf("%d free, largest %d, of %v", region.Free(), region.Largest(), region.free)
		}
		for i, n := range owned {
			if n != 1 {
				t.Fatalf("slot %d is owned %d times; taken %v, free %v", i, n, taken, region.free)
			}
		}
	}
	for _, s := range taken {
		region.Give(s.first, s.count)
	}
	if want := []span{{0, 1000}}; !slices.Equal(region.free, want) {
		t.Errorf("after all came back: %v", region.free)
	}
	if err := NewAllocator(1000).TakeAt(1<<32-1, 2); !errors.Is(err, ErrNoSlots) {
		t.Errorf("take around the end of numbers: %v", err)
	}
	if _, err := NewAllocator(0).Take(1); !errors.Is(err, ErrNoSlots) {
		t.Errorf("take from an empty class: %v", err)
	}
}

func TestJobValidate(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Job)
	}{
		{"33 elements", func(j *Job) { j.Elements = 33 }},
		{"864 elements", func(j *Job) { j.Elements = 864 }},
		{"window 0", func(j *Job) { j.Window = 0 }},
		{"0 workers", func(j *Job) { j.Workers = 0 }},
		{"65 workers", func(j *Job) { j.Workers = 65 }},
		{"want at most 64 workers and a ToR", func(j *Job) {
			*j = torJob(64)
			j.Members = append(j.Members, Member{Addr: workerAddr(100), Bits: 3})
		}},
		{"copies go to 65 members", func(j *Job) {
			*j = torJob(64)
			for i := range j.Members {
				j.Members[i].Ifindex = 1
			}
		}},
		{"needs its MAC address and interface", func(j *Job) {
			*j = torJob(3)
			j.Group, j.Members = netip.Addr{}, j.Members[3:]
			j.Members[0].Ifindex = 1
		}},
		{"home", func(j *Job) { j.Home = netip.AddrPort{} }},
		{"3 home ports", func(j *Job) { j.HomePorts = 3 }},
		{"home ports 9700 to 9701", func(j *Job) { j.HomePorts = 2 }},
		{"listens on 9700", func(j *Job) { j.Home = netip.AddrPortFrom(homeAddr, 9699) }},
		{"no worker port", func(j *Job) { j.WorkerPort = 0 }},
		{"want an IPv4 multicast address", func(j *Job) { j.Group = homeAddr }},
		{"nobody may send bits 0x4", func(j *Job) { j.Members = j.Members[:2] }},
		{"is there twice", func(j *Job) { j.Members[1].Addr = j.Members[0].Addr }},
		{"is the home itself", func(j *Job) { j.Members[1].Addr = homeAddr }},
		{"bits 0x8 of a job of 3", func(j *Job) { j.Members[1].Bits = 8 }},
		{"needs its MAC address", func(j *Job) { j.Group = netip.Addr{} }},
		{"room for ids below 16", func(j *Job) { j.ID = 16 }},
		{"not enough free slots", func(j *Job) { j.Window = 1 << 20 }},
	} {
		j := testJob(3, 64)
		c.change(&j)
		free := slices.Clone(shared.regions[1].free)
		err := shared.AddJob(j)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		if !slices.Equal(free, shared.regions[1].free) || shared.jobs[j.ID] != nil {
			t.Errorf("%s: something of the job stayed", c.want)
		}
	}
}

func TestAddAndRemove(t *testing.T) {
	a := load(t)
	free := fmt.Sprint(a.regions[1].free)
	if err := a.RemoveJob(7); !errors.Is(err, ErrNoJob) {
		t.Errorf("remove what is not there: %v", err)
	}
	for range 3 {
		if err := a.AddJob(testJob(3, 64)); err != nil {
			t.Fatal(err)
		}
		if err := a.AddJob(testJob(3, 64)); !errors.Is(err, ErrJobExists) {
			t.Errorf("add twice: %v", err)
		}
		// What a job leaves behind, in slots and counters, the next one does not see.
		h, x := data(0, 3, 1)
		send(t, a, frame(0, h, x), Drop)
		if c := counters(t, a); c["claimed"] != 1 || c["data"] != 1 {
			t.Errorf("counters %v", c)
		}
		if err := a.RemoveJob(7); err != nil {
			t.Fatal(err)
		}
		before := allCounters(t, a, 7)
		send(t, a, frame(0, h, x), Drop)
		expectCounters(t, before, allCounters(t, a, 7), "unknown_job")
	}
	if diff := cmp.Diff(free, fmt.Sprint(a.regions[1].free)); diff != "" {
		t.Errorf("slots were lost:\n%s", diff)
	}
	var key aggregatorMemberKey
	var value aggregatorMember
	if entries := a.objects.Members.Iterate(); entries.Next(&key, &value) {
		t.Errorf("member %+v was left behind", key)
	}
}

// TestPlace: a job goes where it is told to, or nowhere.
func TestPlace(t *testing.T) {
	first, overlapping, beyond := uint32(100), uint32(107), DefaultSlots[1]-15
	j := testJob(3, 64)
	j.Place = &first
	a := load(t, j)
	first = 0 // the job that is there does not change with the caller's variable
	if jobs := a.Jobs(); len(jobs) != 1 || *jobs[0].Place != 100 {
		t.Fatalf("%+v", jobs)
	}
	var in aggregatorJob
	if err := a.objects.Jobs.Lookup(uint32(7), &in); err != nil || in.PayloadBase != 100 || in.SlotBase != DefaultSlots[0]+100 {
		t.Errorf("slots from %d, payload from %d: %v", in.SlotBase, in.PayloadBase, err)
	}
	for _, at := range []*uint32{&overlapping, &beyond} {
		j.ID, j.Place = 8, at
		if err := a.AddJob(j); !errors.Is(err, ErrNoSlots) {
			t.Errorf("at %d: %v", *at, err)
		}
	}
	// The copies that Jobs gives are the caller's.
	a.Jobs()[0].Members[0].Bits = 99
	if got := a.Jobs()[0].Members[0].Bits; got != 1 {
		t.Errorf("bits %d", got)
	}
}

// TestFullJob: 64 workers and a ToR fit, with a multicast group and without; the ToR is sent no copies.
func TestFullJob(t *testing.T) {
	for _, unicast := range []bool{false, true} {
		j := torJob(64)
		if unicast {
			j.Group = netip.Addr{}
			for i := range 64 {
				j.Members[i].MAC, j.Members[i].Ifindex = workerMAC(i), 1
			}
			j.Members[0], j.Members[64] = j.Members[64], j.Members[0] // the order does not matter
		}
		a := load(t, j)
		var in aggregatorJob
		if err := a.objects.Jobs.Lookup(uint32(j.ID), &in); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]uint8{true: 64}[unicast]; in.Replicas != want {
			t.Errorf("unicast %t: copies go to %d members, want %d", unicast, in.Replicas, want)
		}
		for i := range uint32(in.Replicas) {
			var to aggregatorReplica
			if err := a.objects.Replicas.Lookup(uint32(j.ID)*wire.MaxChildren+i, &to); err != nil || to.Addr == networkOrder(workerAddr(tor)) || to.Addr == 0 {
				t.Errorf("copy %d goes to %#x: %v", i, to.Addr, err)
			}
		}
		h, x := data(0, 3, 1)
		h.Bitmap = wire.FullBitmap(64) &^ (1 << 63)
		send(t, a, frame(tor, h, x), Drop)
		before := counters(t, a)
		h.Bitmap = 1 << 63
		f := frame(63, h, x)
		if unicast {
			if verdict, _, err := a.Process(f); verdict != Pass || err != nil {
				t.Errorf("verdict %d, error %v", verdict, err)
			}
		} else {
			send(t, a, f, Transmit)
		}
		expectCounters(t, before, counters(t, a), "data", "merged", "published")
		if err := a.RemoveJob(7); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{MaxJobs: 1 << 17}, "16 bits"},
		{Config{Ports: 3}, "power of two"},
		{Config{FirstPort: 65535, Ports: 2}, "below 65536"},
	} {
		if _, err := Load(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.config, err, c.want)
		}
	}
}
