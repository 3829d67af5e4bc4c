package dataplane

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"spillway/wire"
	"spillway/wire/hostile"
)

// contents are the slots and their elements, read whole, for there are many packets.
type contents struct {
	slots    []torSlot
	payloads [][32]int32
}

func (r tor) contents() contents {
	r.Helper()
	c := contents{allSlots(r), make([][32]int32, torSlots)}
	var cursor ebpf.MapBatchCursor
	_, err := r.objects.Payloads.BatchLookup(&cursor, make([]uint32, torSlots), c.payloads, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		r.Fatal(err)
	}
	return c
}

// refusal is docs/protocol.md, section 6, "Admission", in other words than the program's: whether the frame is Spillway's, and the event under which
// it is dropped, if it is, with the job's index.
func refusal(port Port, f []byte) (mine bool, event string, index uint8) {
	if len(f) < 42 || binary.BigEndian.Uint16(f[12:]) != 0x0800 || f[14] != 0x45 || f[23] != 17 || binary.BigEndian.Uint16(f[20:])&0x3fff != 0 {
		return false, "", 0
	}
	if s, d := binary.BigEndian.Uint16(f[34:])>>5, binary.BigEndian.Uint16(f[36:])>>5; s != 9696>>5 && d != 9696>>5 {
		return false, "", 0
	}
	if len(f) < 70 {
		return true, "bad_header", 0
	}
	h := wire.Header{
		Version: f[42], Type: wire.Type(f[43]), Flags: wire.Flags(f[44]), Op: wire.Op(f[45]), Job: binary.BigEndian.Uint16(f[46:]), Generation: f[48],
		Cookie: binary.BigEndian.Uint32(f[50:]), Bitmap: binary.BigEndian.Uint64(f[58:]), Elems: binary.BigEndian.Uint16(f[66:]),
	}
	carries := h.Type == wire.Data || h.Type == wire.Result
	if h.Version != wire.Version || h.Type < wire.Data || h.Type > wire.Probe || h.Flags > 15 || h.Op > wire.Min || carries != (h.Elems != 0) ||
		h.Elems > wire.MaxElements || len(f) != 70+4*int(h.Elems) || int(binary.BigEndian.Uint16(f[38:])) != len(f)-34 ||
		int(binary.BigEndian.Uint16(f[16:])) != len(f)-14 {
		return true, "bad_header", 0
	}
	jobs := []job{jobA, jobB}
	i := slices.IndexFunc(jobs, func(j job) bool { return j.id == h.Job })
	if i < 0 {
		return true, "unknown_job", 0
	}
	j, src := jobs[i], netip.AddrFrom4([4]byte(f[26:30]))
	worker := int(port) - 1
	isWorker := worker >= 0 && worker < j.workers && src == workerAddr(worker)
	bits := uint64(1) << (worker & 63)
	if j == jobA && worker == subtree && src == workerAddr(subtree) {
		isWorker, bits = true, subtreeBits
	}
	isHome := port == homePort && src == homeAddr
	switch {
	case h.Generation != j.generation:
		event = "stale"
	case h.Cookie != j.cookie:
		event = "bad_cookie"
	case !isWorker && !isHome:
		event = "not_member"
	case isWorker && !slices.Contains([]wire.Type{wire.Data, wire.Result, wire.Probe}, h.Type),
		isHome && !slices.Contains([]wire.Type{wire.Result, wire.Solicit, wire.Pending}, h.Type):
		event = "bad_direction"
	case h.Type != wire.Solicit && h.Type != wire.Pending && h.Bitmap == 0,
		(h.Type == wire.Data || h.Type == wire.Probe) && h.Bitmap&^bits != 0:
		event = "bad_bitmap"
	}
	return true, event, j.index
}

// In the first job a fourth worker has the bits of two others, as a tree below might: nothing else makes packets that overlap a slot.
const (
	subtree     = 3
	subtreeBits = 6
)

// honest is a valid packet of somebody, for one of the chunks from base on.
func honest(rng *rand.Rand, base uint32) packet {
	j := []job{jobA, jobB}[rng.IntN(2)]
	p := j.data(rng.IntN(j.workers), base+uint32(rng.IntN(3)), 32)
	switch rng.IntN(12) {
	case 0:
		p = p.resend()
		if j == jobA && rng.IntN(2) == 0 {
			p = jobA.data(subtree, p.header.Seq, 32).resend()
			p.header.Bitmap = subtreeBits
		}
	case 1:
		p.header.Type, p.header.Elems, p.elements = wire.Probe, 0, nil
	case 2:
		p.header.Type, p.header.Bitmap = wire.Result, j.full()
	case 3: // of the home
		p.port, p.srcMAC, p.src, p.dst = homePort, homeMAC, withPort(homeAddr, firstPort), withPort(j.groupAddr(), workerPort)
		p.header.Type, p.header.Bitmap = wire.Result, j.full()
		if rng.IntN(2) == 0 {
			p.header.Type, p.header.Elems, p.elements = wire.Solicit, 0, nil
		}
	}
	return p
}

// hit sends a frame and checks all that the protocol promises of whatever may arrive. It returns the events that were counted.
func (r tor) hit(port Port, f []byte) []string {
	r.Helper()
	counters, before := r.counters(), r.contents()
	out, err := r.Process(port, f)
	r.must(err)
	after := r.contents()
	grown := map[string]uint64{}
	for name, n := range r.counters() {
		if n > counters[name] {
			grown[name] = n - counters[name]
		}
	}
	var touched []int
	for i := range after.slots {
		if after.slots[i] != before.slots[i] || after.payloads[i] != before.payloads[i] {
			touched = append(touched, i)
		}
	}
	for _, e := range out {
		if len(e.Frame) != len(f) {
			r.Fatalf("a frame of %d bytes for one of %d\n%x", len(e.Frame), len(f), f)
		}
	}
	mine, event, index := refusal(port, f)
	switch {
	case !mine:
		if len(grown) != 0 || len(touched) != 0 {
			r.Fatalf("a packet of others counted %v and changed slots %v\n%x", grown, touched, f)
		}
	case event != "":
		want := map[string]uint64{job{index: index}.at(event): 1}
		if diff := cmp.Diff(want, grown); diff != "" || len(touched) != 0 || len(out) != 0 {
			r.Fatalf("a packet by port %d to drop for %s: %d frames leave, slots %v, counted (-want +got)\n%s\n%x", port, event, len(out), touched, diff, f)
		}
	default:
		slot := int(binary.BigEndian.Uint16(f[68:]))
		shared := slot >= int(jobA.base) && slot < int(jobA.base+jobA.size)
		if len(touched) > 1 || len(touched) == 1 && (touched[0] != slot || !shared) {
			r.Fatalf("a packet for slot %d changed %v\n%x", slot, touched, f)
		}
		for name := range grown {
			event, _, _ := strings.Cut(name, "[")
			if !slices.Contains([]string{"duplicate", "forwarded", "bad_slot"}, event) || len(touched) == 0 {
				continue
			}
			// A duplicate may make the chunk more urgent, and nothing else.
			was, is := before.slots[slot], after.slots[slot]
			was.Urgency = is.Urgency
			if event != "duplicate" || was != is || after.payloads[slot] != before.payloads[slot] {
				r.Fatalf("a packet counted as %v changed its slot\n%x", grown, f)
			}
		}
	}
	var events []string
	for name := range grown {
		event, _, _ := strings.Cut(name, "[")
		events = append(events, event)
	}
	return events
}

// TestHostileInput: of thousands of packets that are wrong in one way or several, among those of honest members and of members that lie, each that
// is not admitted is dropped under its event and changes nothing else, no other changes any slot but its own, and every event is met.
func TestHostileInput(t *testing.T) {
	const packets = 6000
	r := setUp(t, 32, jobA, jobB)
	r.must(r.SetMember(MemberKey{subtree + 1, workerAddr(subtree), jobA.id}, &Member{Role: Worker, Bits: subtreeBits, Rest: 1}))
	world := hostile.World{
		Addrs: []netip.Addr{homeAddr, torAddr, upper, jobA.groupAddr(), netip.MustParseAddr("10.77.0.77"), netip.MustParseAddr("0.0.0.0")},
		Ports: []uint16{firstPort, firstPort + 3, 9695, 9696, 9727, 9728, workerPort, 0, 0xffff},
		Jobs:  []uint16{0, jobA.id, jobB.id, 8, 0xffff}, Generations: []uint8{0, 2, 3, 4, 0xfe, 0xff}, Cookies: []uint32{0, jobA.cookie, jobB.cookie, 2},
		Bitmaps: []uint64{0, 1, 2, 3, 4, 7, 8, 15, 16, 1 << 63, ^uint64(0)}, Slots: []uint16{0, 63, 64, 65, 66, 127, 128, 255, 256, 0xfffe, 0xffff},
		Ring: uint32(jobA.size), Elements: []int{0, 1, 31, 32, 33, 64, 96, 832, 833},
	}
	for i := range 5 {
		world.Addrs = append(world.Addrs, workerAddr(i))
	}
	met := map[string]int{}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := range packets / 3 {
			p := honest(rng, uint32(i/60)-5) // serial arithmetic wraps on the way
			port, f := p.port, p.frame()
			switch rng.IntN(4) {
			case 0: // as it is
			case 1:
				port = []Port{0, 1, 2, 3, 4, homePort, parentPort, MaxPort}[rng.IntN(8)]
				if rng.IntN(10) == 0 {
					f = hostile.Garbage(rng, 400)
				}
			default:
				f, _ = world.Mutate(rng, f)
			}
			for _, event := range r.hit(port, f) {
				met[event]++
			}
		}
	}
	for _, event := range r.names {
		if event != "" && met[event] == 0 {
			t.Errorf("no packet of %d was met by %s", packets, event)
		}
	}
	t.Logf("events met: %v", met)
}
