package ledger

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/wire"
	"spillway/xdp"
)

const (
	none    = v1.TorUse_TOR_USE_NONE
	private = v1.TorUse_TOR_USE_PRIVATE
	shared  = v1.TorUse_TOR_USE_SHARED
)

// node is the one that there is.
const node = "a"

// small is a node on which everything is scarce.
func small() Config {
	return Config{
		Slots: xdp.Slots{64, 64, 128, 32}, MaxJobs: 8, Groups: netip.MustParsePrefix("239.77.0.0/30"),
		FirstWorkerPort: 9800, LastWorkerPort: 9804, SharedSlots: 16,
	}
}

func newLedger(t testing.TB, config Config, torSlots uint32) *Ledger {
	t.Helper()
	l, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	l.SetTorSlots(torSlots)
	l.SetNode(node, xdp.Slots{}, 0)
	return l
}

func TestReserve(t *testing.T) {
	l := newLedger(t, small(), 64)
	got, err := l.Reserve(Request{Name: "a", Workers: 4, Elements: 96, Window: 7, Tor: private, TorSlots: 8, Multicast: true}, node)
	if err != nil {
		t.Fatal(err)
	}
	want := Allocation{
		ID: 1, Places: []Place{{node, 0}}, Slots: 16, ClassElements: 256, WorkerPort: 9800, Group: netip.MustParseAddr("239.77.0.0"),
		Region: &Region{Base: 16, Slots: 8, Period: 8},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	capacity := l.Capacity(node)
	if c := capacity.SlotClasses[2]; c.Elements != 256 || c.Slots.Used != 16 || c.LargestFree != 112 {
		t.Errorf("class of 256 elements: %v", c)
	}
	if capacity.TorSlots.Used != 8 || capacity.Jobs.Used != 1 || capacity.Jobs.Total != 7 || capacity.Groups.Total != 4 || capacity.MemoryBytes.Used != got.Bytes() {
		t.Errorf("capacity: %v", capacity)
	}
}

// TestShortage holds that a refusal names everything that is lacking, with what was asked for and what is free, and leaves nothing behind.
func TestShortage(t *testing.T) {
	config := small()
	config.LastWorkerPort = 9800
	config.Groups = netip.MustParsePrefix("239.77.0.0/32")
	l := newLedger(t, config, 64)
	if _, err := l.Reserve(Request{Name: "first", Workers: 2, Elements: 256, Window: 40, Tor: private, TorSlots: 32, Multicast: true}, node); err != nil {
		t.Fatal(err)
	}
	before := describe(l)
	_, err := l.Reserve(Request{Name: "second", Workers: 2, Elements: 256, Window: 40, Tor: private, TorSlots: 32, Multicast: true}, node)
	refused := refusal.Of(err)
	if refused == nil || refused.Code != codes.ResourceExhausted || refused.Reason != refusal.NoRoom {
		t.Fatalf("%v", err)
	}
	want := map[string]string{
		"job": "second", "asked_slots": "128", "free_slots": "0", "asked_worker_ports": "1", "free_worker_ports": "0",
		"asked_groups": "1", "free_groups": "0", "asked_tor_slots": "32", "free_tor_slots": "16",
	}
	if diff := cmp.Diff(want, refused.Metadata); diff != "" {
		t.Error(diff)
	}
	for _, part := range []string{`job "second" does not fit`, "needs 128 slots of 256 elements in one run, and the longest free run has 0", "multicast group", "worker port", "the largest that is free has 16", "delete a job"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the text lacks %q: %s", part, err)
		}
	}
	if diff := cmp.Diff(before, describe(l)); diff != "" {
		t.Errorf("the refusal left something behind: %s", diff)
	}
}

func TestQuota(t *testing.T) {
	config := small()
	config.Quota = Quota{Workers: 2, Window: 5, Memory: 1 << 12, TorSlots: 4, Jobs: 1}
	l := newLedger(t, config, 64)
	_, err := l.Reserve(Request{Name: "a", Workers: 3, Elements: 256, Window: 6, Tor: private, TorSlots: 8}, node)
	refused := refusal.Of(err)
	if refused == nil || refused.Reason != refusal.OverQuota || refused.Code != codes.ResourceExhausted {
		t.Fatal(err)
	}
	want := map[string]string{"job": "a", "asked_workers": "3", "quota_workers": "2", "asked_window": "6", "quota_window": "5",
		"asked_memory": fmt.Sprint(16 * xdp.SlotBytes(2)), "quota_memory": "4096", "asked_tor_slots": "8", "quota_tor_slots": "4"}
	if diff := cmp.Diff(want, refused.Metadata); diff != "" {
		t.Error(diff)
	}
	if _, err := l.Reserve(Request{Name: "b", Workers: 2, Elements: 32, Window: 5}, node); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Reserve(Request{Name: "c", Workers: 2, Elements: 32, Window: 5}, node); refusal.Of(err) == nil || !strings.Contains(err.Error(), "there may be 1 jobs, and there are 1") {
		t.Error(err)
	}
}

func TestTorNotKnown(t *testing.T) {
	l := newLedger(t, small(), 0)
	for _, tor := range []v1.TorUse{private, shared} {
		if _, err := l.Reserve(Request{Name: "a", Workers: 2, Elements: 32, Window: 1, Tor: tor, TorSlots: 2}, node); refusal.Of(err) == nil || refusal.Of(err).Metadata["free_tor_slots"] != "0" {
			t.Errorf("%v of a ToR that nobody knows: %v", tor, err)
		}
	}
	if l.Capacity(node).TorSlots != nil {
		t.Error("the capacity has slots of a ToR that nobody knows")
	}
}

func TestRestoreRefuses(t *testing.T) {
	l := newLedger(t, small(), 64)
	good, err := l.Reserve(Request{Name: "a", Workers: 2, Elements: 32, Window: 7, Tor: private, TorSlots: 8, Multicast: true}, node)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Allocation)
		text   string
	}{
		"id":          {func(a *Allocation) { a.ID = 200 }, "id 200"},
		"no id":       {func(a *Allocation) { a.ID = 0 }, "id 0"},
		"slots":       {func(a *Allocation) { a.Places = []Place{{node, 60}} }, "slots 60 to 75"},
		"ring":        {func(a *Allocation) { a.Slots = 0 }, "no slots"},
		"class":       {func(a *Allocation) { a.ClassElements = 100 }, "100 elements"},
		"port":        {func(a *Allocation) { a.WorkerPort = 80 }, "worker port 80"},
		"group":       {func(a *Allocation) { a.Group = netip.MustParseAddr("239.78.0.0") }, "group 239.78.0.0"},
		"shared slot": {func(a *Allocation) { a.Region = &Region{Base: 8, Slots: 8, Period: 8} }, "are shared"},
		"unaligned":   {func(a *Allocation) { a.Region = &Region{Base: 20, Slots: 8, Period: 8} }, "cannot be a region"},
		"other share": {func(a *Allocation) { a.Region = &Region{Slots: 8, Period: 8, Shared: true} }, "shared_slots is 16"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, small(), 64)
			before := describe(l)
			bad := good
			c.change(&bad)
			if err := l.Restore(bad); err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("want %q, got %v", c.text, err)
			}
			if diff := cmp.Diff(before, describe(l)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if err := l.Restore(good); err == nil {
		t.Error("what is taken was restored")
	}
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no job":       func(c *Config) { c.MaxJobs = 1 },
		"no port":      func(c *Config) { c.FirstWorkerPort = 0 },
		"ports turned": func(c *Config) { c.LastWorkerPort = 9000 },
		"unicast":      func(c *Config) { c.Groups = netip.MustParsePrefix("10.0.0.0/8") },
		"IPv6":         func(c *Config) { c.Groups = netip.MustParsePrefix("ff02::/16") },
	} {
		config := small()
		change(&config)
		if _, err := New(config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// describe is everything in the account that can be compared.
func describe(l *Ledger) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
		for class, runs := range l.nodes[name].runs {
			fmt.Fprintln(&b, name, class, runs.Free(), runs.Largest())
		}
		fmt.Fprintln(&b, l.nodes[name].held)
	}
	fmt.Fprintln(&b, l.ids, l.groups, l.ports, l.regions, l.held)
	return b.String()
}

// check finds overlaps and leaks: what is held must be what the account says is taken.
func check(l *Ledger, held map[uint16]Allocation) error {
	type thing struct {
		what   string
		number any
	}
	owners := map[thing]uint16{}
	claim := func(id uint16, what string, number any) error {
		t := thing{what, number}
		if other, ok := owners[t]; ok {
			return fmt.Errorf("%s %v is held by %d and %d", what, number, other, id)
		}
		owners[t] = id
		return nil
	}
	var errs []error
	var bytes, inClass [4]uint64
	for id, a := range held {
		class, _ := xdp.ClassOf(a.ClassElements)
		for i := range a.Slots {
			errs = append(errs, claim(id, "slot, as class and number", [2]uint32{uint32(class), a.Places[0].First + i}))
		}
		bytes[0] += a.Bytes()
		inClass[class] += uint64(a.Slots)
		if a.Places[0].First+a.Slots > l.config.Slots[class] {
			errs = append(errs, fmt.Errorf("%d holds slots that are not there", id))
		}
		errs = append(errs, claim(id, "id", a.ID), claim(id, "port", a.WorkerPort))
		if a.Group.IsValid() {
			errs = append(errs, claim(id, "group", a.Group))
		}
		if r := a.Region; r != nil && !r.Shared {
			for i := range r.Slots {
				errs = append(errs, claim(id, "slot of the ToR", r.Base+i))
			}
			if r.Base%r.Slots != 0 || r.Base < l.regions.shared || r.Base+r.Slots > wire.NoSlot {
				errs = append(errs, fmt.Errorf("region %+v", r))
			}
		}
	}
	c := l.Capacity(node)
	if c.Jobs.Used != uint64(len(held)) || c.MemoryBytes.Used != bytes[0] {
		errs = append(errs, fmt.Errorf("%d jobs with %d bytes are held, and the account says %v", len(held), bytes[0], c))
	}
	for class := range c.SlotClasses {
		if c.SlotClasses[class].Slots.Used != inClass[class] {
			errs = append(errs, fmt.Errorf("%d slots of class %d are held, and the account says %v", inClass[class], class, c.SlotClasses[class]))
		}
	}
	return errors.Join(errs...)
}

// exercise plays a sequence of operations that the numbers choose.
func exercise(t *testing.T, next func(n int) int, operations int) {
	config := small()
	l := newLedger(t, config, 64)
	empty := describe(l)
	held, lost := map[uint16]Allocation{}, []Allocation{}
	for range operations {
		before := describe(l)
		switch next(4) {
		case 0, 1:
			r := Request{Name: "x", Workers: 2, Elements: uint32(32 * (1 + next(26))), Window: uint32(1 + next(20)), Tor: v1.TorUse(1 + next(3)), TorSlots: 1 << next(6), Multicast: next(2) == 0}
			a, err := l.Reserve(r, node)
			if err != nil {
				if refusal.Of(err) == nil || describe(l) != before {
					t.Fatalf("%+v: %v, or something was left behind", r, err)
				}
				continue
			}
			if held[a.ID].ID != 0 || int(a.Slots) < 2*int(r.Window)+2 || a.ClassElements < int(r.Elements) || a.Group.IsValid() != r.Multicast || (a.Region != nil) != (r.Tor != none) {
				t.Fatalf("%+v got %+v", r, a)
			}
			held[a.ID] = a
		case 2:
			id := uint16(next(9))
			a, ok := held[id]
			if l.Release(id) != ok {
				t.Fatalf("release of %d, held %v", id, ok)
			}
			if delete(held, id); ok {
				lost = append(lost, a)
			}
		case 3:
			if len(lost) == 0 {
				continue
			}
			a := lost[next(len(lost))]
			if err := l.Restore(a); err != nil {
				if describe(l) != before {
					t.Fatalf("restore of %+v: %v, and something was left behind", a, err)
				}
				continue
			}
			held[a.ID] = a
		}
		if err := check(l, held); err != nil {
			t.Fatal(err)
		}
	}
	// The same jobs in a new account, as after a restart: the same places, whatever the order.
	again := newLedger(t, config, 64)
	for _, a := range held {
		if err := again.Restore(a); err != nil {
			t.Fatalf("restart: %v", err)
		}
	}
	if want, got := describe(l), describe(again); want != got {
		t.Fatalf("restart: %s", cmp.Diff(want, got))
	}
	for id := range held {
		l.Release(id)
	}
	if got := describe(l); got != empty {
		t.Fatalf("after all was given back: %s", cmp.Diff(empty, got))
	}
}

func TestRandomSequences(t *testing.T) {
	for range 30 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { exercise(t, rand.New(rand.NewPCG(seed, 0)).IntN, 200) })
	}
}

func FuzzSequences(f *testing.F) {
	f.Add([]byte{0, 3, 2, 1, 4, 1, 2, 1, 3, 0, 0, 9, 9, 2, 5, 1, 2, 2, 3, 0})
	f.Fuzz(func(t *testing.T, numbers []byte) {
		operations := len(numbers)
		exercise(t, func(n int) int {
			if len(numbers) == 0 {
				return 0
			}
			b := numbers[0]
			numbers = numbers[1:]
			return int(b) % n
		}, min(operations, 24))
	})
}
