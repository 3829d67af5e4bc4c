package xdp

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/wire"
	"spillway/wire/hostile"
)

// dropReasons are the counters that bpf/counters.h has below "why a packet was dropped".
func dropReasons(a *Aggregator) []string { return a.names[slices.Index(a.names, "bad_length"):] }

// slotReasons are those of packets that are dropped because of what their slot holds.
var slotReasons = []string{"stale", "mismatch", "overlap", "duplicate_result", "unsolicited", "needless"}

// hit sends a frame and checks all that the protocol promises of whatever may arrive. It returns the reason for which it was dropped, if it was.
func (at *attack) hit(f []byte) string {
	at.Helper()
	verdict, out, err := at.a.Process(f)
	if err != nil {
		at.Fatal(err)
	}
	before, after := at.before, at.content()
	at.before = after
	mine, reason, counted, job := at.refusal(f)
	grown := map[int]map[string]uint64{}
	for id, counters := range after.counters {
		for name, n := range counters {
			if n != before.counters[id][name] {
				if grown[id] == nil {
					grown[id] = map[string]uint64{}
				}
				grown[id][name] = n - before.counters[id][name]
			}
		}
	}
	var touched []int
	for i := range after.slots {
		if after.slots[i] != before.slots[i] {
			touched = append(touched, i)
		}
	}
	switch {
	case !mine:
		if verdict != Pass || !bytes.Equal(f, out) || len(grown) != 0 || len(touched) != 0 {
			at.Fatalf("a packet of others: verdict %d, counted %v, slots %v\n%x", verdict, grown, touched, f)
		}
		return ""
	case reason != "":
		if diff := cmp.Diff(map[int]map[string]uint64{counted: {reason: 1}}, grown); verdict != Drop || diff != "" || len(touched) != 0 {
			at.Fatalf("a packet to drop for %s: verdict %d, slots %v, counted (-want +got)\n%s\n%x", reason, verdict, touched, diff, f)
		}
		return reason
	}
	reason = at.admitted(f, job, verdict, out, before, after, grown, touched)
	if at.behind.torn() {
		at.renew()
	}
	return reason
}

// admitted checks what came of a packet that a member may send, whatever it says about its slot.
func (at *attack) admitted(f []byte, job *Job, verdict Verdict, out []byte, before, after content, grown map[int]map[string]uint64, touched []int) (reason string) {
	at.Helper()
	seq := binary.BigEndian.Uint32(f[54:])
	mine := int(*at.a.jobs[job.ID].job.Place) + int(seq%attackedRing)
	was, is := before.slots[mine], after.slots[mine]
	counted := grown[int(job.ID)]
	for _, r := range slotReasons {
		if counted[r] != 0 {
			reason = r
		}
	}
	tenant := tenantOf(job.ID, job.Generation)
	parents := job.Parent != nil && at.below(f) == job
	header := 1 // packets that are counted by their type
	if parents && wire.Type(f[43]) != wire.Result {
		header = 0
	}
	if job.Policy.Quorum != 0 {
		var h wire.Header
		if _, err := h.Decode(f[42:]); err != nil {
			at.Fatal(err)
		}
		at.quorum(&h, job, was, is, counted)
		for _, name := range []string{"released", "late", "lagging"} {
			at.met[name] += counted[name]
		}
	}
	final := was.Tenant == tenant && was.Complete != 0 && int32(seq-was.Seq) <= 0
	switch {
	case len(grown) != 1 || counted["data"]+counted["result"]+counted["probe"] != uint64(header) || counted["internal"] != 0:
		at.Fatalf("a packet of job %d counted as %v\n%x", job.ID, grown, f)
	case len(touched) > 1 || len(touched) == 1 && touched[0] != mine:
		at.Fatalf("a packet for slot %d changed %v\n%x", mine, touched, f)
	case len(touched) == 1 && (reason != "" || final):
		at.Fatalf("a packet dropped for %q, with a final sum %t, changed its slot from %+v to %+v\n%x", reason, final, was, is, f)
	case is.Tenant == tenant && is.Bitmap&^wire.FullBitmap(job.Workers) != 0:
		at.Fatalf("a slot has bits %#x\n%x", is.Bitmap, f)
	case reason != "" && reason != "overlap" && verdict != Drop:
		at.Fatalf("verdict %d of a packet to drop for %s\n%x", verdict, reason, f)
	case verdict == Drop:
		return reason
	}
	answered := parseAnswer(at, out)
	if answered.dst.Addr() == parentAddr {
		at.ascends(f, job, is, verdict, out, answered)
		return reason
	}
	sender := netip.AddrPortFrom(netip.AddrFrom4([4]byte(f[26:30])), binary.BigEndian.Uint16(f[34:]))
	all := netip.AddrPortFrom(homeAddr, job.WorkerPort) // whence the replicator makes the copies
	toAll := Pass
	if job.Group.IsValid() {
		all, toAll = netip.AddrPortFrom(job.Group, job.WorkerPort), Transmit
	}
	if parents && (answered.dst != all || answered.header.Job != job.ID || answered.header.Cookie != job.Cookie) {
		at.Fatalf("the parent's packet was passed on as %+v", answered)
	}
	if len(out) > len(f) || answered.src.Addr() != homeAddr || (answered.dst != all || verdict != toAll) && (answered.dst != sender || verdict != Transmit) {
		at.Fatalf("%d bytes answered to %d bytes of %v: verdict %d, %+v", len(out), len(f), sender, verdict, answered)
	}
	if answered.header.Type == wire.Result && (is.Complete == 0 || answered.header.Bitmap != is.Bitmap) {
		at.Fatalf("a RESULT of %#x while the slot is %+v", answered.header.Bitmap, is)
	}
	return reason
}

// ascends checks what goes to a parent: a sum of all, a question about one, or a RESULT that a child gave.
func (at *attack) ascends(f []byte, job *Job, is slotContent, verdict Verdict, out []byte, got answer) {
	at.Helper()
	p, h, came := job.Parent, got.header, wire.Type(f[43])
	if p == nil || at.below(f) != nil || verdict != Transmit || len(out) > len(f) || got.src != p.Self || h.Job != p.Job || h.Generation != p.Generation || h.Cookie != p.Cookie || h.Type != came {
		at.Fatalf("up went %+v: verdict %d, for %x", got, verdict, f)
	}
	summed := is.Tenant == tenantOf(job.ID, job.Generation) && is.Complete == 0 && is.Bitmap == wire.FullBitmap(job.Workers) && is.Seq == h.Seq
	switch {
	case came == wire.Result && h.Bitmap == wire.FullBitmap(p.Children):
	case came != wire.Result && h.Bitmap == 1<<p.Rank && summed:
	default:
		at.Fatalf("up went %+v of a slot that is %+v", h, is)
	}
	at.met["sent up"]++
}

// TestHostileInput: of thousands of packets that are wrong in one way or several, among those of honest members and of members that lie, each is
// dropped for its reason and changes nothing else, and every reason there is, is met.
func TestHostileInput(t *testing.T) {
	const packets = 12_000
	at := underAttack(t)
	met := map[string]int{}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := range packets / 3 {
			if i%200 == 0 {
				at.renew() // or else all slots are soon taken by those who lie about seq
			}
			at.wait(time.Duration(rng.IntN(200)) * time.Microsecond)
			f := at.honest(rng, uint32(i%200/20)-5) // serial arithmetic wraps on the way
			switch rng.IntN(4) {
			case 0: // as it is
			case 1:
				if rng.IntN(10) == 0 {
					f = hostile.Garbage(rng, 400)
				}
			default:
				f, _ = at.world.Mutate(rng, f)
			}
			met[at.hit(f)]++
			if t.Failed() {
				t.Fatalf("packet %d of seed %d", i, seed)
			}
		}
	}
	for _, reason := range dropReasons(at.a) {
		switch {
		case reason == "internal", reason == "contended": // nothing that arrives leads there: TestInternal, TestContended
		case met[reason] == 0:
			t.Errorf("no packet of %d was dropped for %s", packets, reason)
		}
	}
	for _, name := range []string{"released", "late", "lagging", "sent up"} {
		if at.met[name] == 0 {
			t.Errorf("no packet of %d was counted as %s", packets, name)
		}
	}
	t.Logf("reasons met: %v", met)
}

// TestInternal: an entry of a map that is not as AddJob makes them costs packets, and no memory of others.
func TestInternal(t *testing.T) {
	at := underAttack(t)
	honest := at.honest(rand.New(rand.NewPCG(1, 1)), 0)
	id := uint32(binary.BigEndian.Uint16(honest[46:]))
	for name, spoil := range map[string]func(*aggregatorJob){
		"a slot that is not there":    func(j *aggregatorJob) { j.SlotBase = 1 << 20 },
		"elements that are not there": func(j *aggregatorJob) { j.PayloadBase = 1 << 20 },
		"a class too small":           func(j *aggregatorJob) { j.Class, j.PayloadBase = 0, 0; j.RingMask = 0 },
		"a class that does not exist": func(j *aggregatorJob) { j.Class = classes },
	} {
		var good, bad aggregatorJob
		if err := at.a.objects.Jobs.Lookup(id, &good); err != nil {
			t.Fatal(err)
		}
		bad = good
		spoil(&bad)
		if err := at.a.objects.Jobs.Put(id, bad); err != nil {
			t.Fatal(err)
		}
		before := at.content()
		verdict, _, err := at.a.Process(honest)
		after := at.content()
		if err != nil || verdict != Drop || after.counters[int(id)]["internal"] != before.counters[int(id)]["internal"]+1 || !slices.Equal(before.slots, after.slots) {
			t.Errorf("%s: verdict %d, %v, counted %v", name, verdict, err, after.counters[int(id)])
		}
		if err := at.a.objects.Jobs.Put(id, good); err != nil {
			t.Fatal(err)
		}
	}
}

// TestContended: a packet that does not get its slot is dropped, counted, and changes nothing; the next one that does goes on.
func TestContended(t *testing.T) {
	at := underAttack(t)
	honest := at.honest(rand.New(rand.NewPCG(1, 1)), 0)
	id := int(binary.BigEndian.Uint16(honest[46:]))
	in, err := at.a.find(uint16(id))
	if err != nil {
		t.Fatal(err)
	}
	index := at.a.config.Slots.base(in.class) + in.slots.first + binary.BigEndian.Uint32(honest[54:])&(in.slots.count-1)
	var slot aggregatorSlot
	if err := at.a.objects.Slots.Lookup(index, &slot); err != nil {
		t.Fatal(err)
	}
	for _, held := range []uint32{1, 0} {
		slot.Held = held
		if err := at.a.objects.Slots.Put(index, slot); err != nil {
			t.Fatal(err)
		}
		before, err := at.a.Counters(uint16(id))
		if err != nil {
			t.Fatal(err)
		}
		verdict, _, err := at.a.Process(honest)
		if err != nil {
			t.Fatal(err)
		}
		after, err := at.a.Counters(uint16(id))
		if err != nil {
			t.Fatal(err)
		}
		var found aggregatorSlot
		if err := at.a.objects.Slots.Lookup(index, &found); err != nil {
			t.Fatal(err)
		}
		dropped := after["contended"] - before["contended"]
		if held == 1 && (verdict != Drop || dropped != 1 || found != slot) {
			t.Errorf("held: verdict %d, %d counted as contended, the slot was %+v and is %+v", verdict, dropped, slot, found)
		}
		if held == 0 && (dropped != 0 || found.Held != 0 || found == slot) {
			t.Errorf("let go: verdict %d, %d counted as contended, the slot was %+v and is %+v", verdict, dropped, slot, found)
		}
	}
}

// TestLyingMember is what a member can do that does not keep to the window: take the slots of its own job, which waits from then on. Its bit alone
// is in them, so it can be named; the jobs beside do not notice.
func TestLyingMember(t *testing.T) {
	at := underAttack(t)
	liar, beside := at.jobs[0], at.jobs[1]
	packet := func(j Job, rank int, seq uint32) []byte {
		h := wire.Header{
			Version: wire.Version, Type: wire.Data, Job: j.ID, Generation: j.Generation, Cookie: j.Cookie, Seq: seq, Bitmap: 1 << rank, Elems: 1, Slot: 0xffff,
		}
		payload := make([]byte, wire.HeaderSize+wire.ElementSize)
		h.Encode(payload)
		home := netip.AddrPortFrom(homeAddr, j.Home.Port())
		return udpFrame(workerMAC(rank), homeMAC, netip.AddrPortFrom(workerAddr(rank), workerPort), home, 2, payload)
	}
	for rank := range beside.Workers - 1 {
		at.hit(packet(beside, rank, 5))
	}
	const far = 1 << 30
	for seq := range uint32(attackedRing) {
		at.hit(packet(liar, 1, far+seq))
	}
	if reason := at.hit(packet(liar, 0, 0)); reason != "stale" {
		t.Errorf("an honest member's contribution was dropped for %q, want stale", reason)
	}
	states, err := at.a.Slots(liar.ID)
	if err != nil || len(states) != attackedRing {
		t.Fatal(len(states), err)
	}
	for _, s := range states {
		if s.Bitmap != 1<<1 || s.Seq < far {
			t.Errorf("slot %+v does not tell who took it", s)
		}
	}
	at.hit(packet(beside, beside.Workers-1, 5))
	counters, err := at.a.Counters(beside.ID)
	if err != nil || counters["published"] != 1 {
		t.Errorf("the job beside: %v, %v", counters, err)
	}
}

// FuzzProcess is TestHostileInput with packets that a fuzzer makes; with as, they get past the secrets, which no fuzzer guesses.
func FuzzProcess(f *testing.F) {
	at := underAttack(f)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range uint32(30) {
		honest := at.honest(rng, i)
		mutant, _ := at.world.Mutate(rng, honest)
		f.Add(honest, uint8(0))
		f.Add(mutant, uint8(i))
	}
	f.Fuzz(func(t *testing.T, frame []byte, as uint8) {
		if len(frame) < 14 || len(frame) > 3514 {
			return // the kernel does not run those
		}
		if as > 0 && len(frame) >= 70 {
			frame = slices.Clone(frame)
			job := at.jobs[[]int{0, 1, 3}[int(as)%3]]
			who := job.Members[int(as/2)%len(job.Members)]
			copy(frame[26:30], who.Addr.AsSlice())
			binary.BigEndian.PutUint16(frame[46:], job.ID)
			frame[48] = job.Generation
			binary.BigEndian.PutUint32(frame[50:], job.Cookie)
		}
		at := *at
		at.TB = t
		at.before = at.content()
		at.hit(frame)
	})
}
