package dataplane

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/wire"
)

// The tests' rack: worker i has port i+1 and address 10.77.0.(i+1); the home of
// all jobs is at port 64.
const (
	homePort   Port = 64
	parentPort Port = 65
	floodGroup      = 99
	workerPort      = 9999
	firstPort       = 9700
	torSlots        = 256
)

var (
	homeAddr  = netip.MustParseAddr("10.77.0.254")
	torAddr   = netip.MustParseAddr("10.77.0.253")
	upper     = netip.MustParseAddr("10.78.0.254")
	homeMAC   = MAC{2, 0, 0, 0, 0, 254}
	torMAC    = MAC{2, 0, 0, 0, 0, 253}
	parentMAC = MAC{2, 0, 0, 0, 1, 254}
)

func workerAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}) }

// withPort saves a long name.
func withPort(addr netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(addr, port) }

func workerMAC(i int) MAC { return MAC{2, 0, 0, 0, 0, byte(i + 1)} }

// job is one of the tests' jobs: its workers are the rack's first.
type job struct {
	id         uint16
	index      uint8
	generation uint8
	cookie     uint32
	key        uint32
	workers    int
	group      uint16
	mode       RegionMode
	base, size uint16
	priority   uint8
}

// Two jobs that share slots 64 to 127.
var (
	jobA = job{id: 7, index: 1, generation: 3, cookie: 0xfeedbeef, key: 0x1111_0000, workers: 3, group: 10, mode: SharedSlots, base: 64, size: 64, priority: 2}
	jobB = job{id: 0xff08, index: 255, generation: 0xfe, cookie: 1, key: 0x2222_0000, workers: 4, group: 11, mode: SharedSlots, base: 64, size: 64, priority: 1}
)

func (j job) full() uint64 { return wire.FullBitmap(j.workers) }

func (j job) groupAddr() netip.Addr { return netip.AddrFrom4([4]byte{239, 77, 0, byte(j.index)}) }

func (j job) groupMAC() MAC { return MAC{1, 0, 0x5e, 77, 0, j.index} }

// shared have elements a slot of 32 and 832; they are loaded once: the verifier takes a while.
var shared = map[int]*Dataplane{}

func TestMain(m *testing.M) {
	code := 1
	for _, elements := range []int{32, 832} {
		d, err := Load(Config{Slots: torSlots, Elements: elements})
		if err != nil {
			fmt.Fprintf(os.Stderr, "%+v\n", err)
			os.Exit(code)
		}
		shared[elements] = d
	}
	code = m.Run()
	for _, d := range shared {
		if err := d.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// tor is a data plane under test.
type tor struct {
	testing.TB
	*Dataplane
	names []string
}

// setUp wipes the shared data plane of that many elements and installs the jobs.
func setUp(t testing.TB, elements int, jobs ...job) tor {
	t.Helper()
	names, err := EventNames()
	if err != nil {
		t.Fatal(err)
	}
	r := tor{t, shared[elements], names}
	r.must(r.Wipe())
	for i := range 4 {
		r.must(r.SetForward(netip.PrefixFrom(workerAddr(i), 32), &ToPort{Port: Port(i + 1), MAC: workerMAC(i)}))
		r.must(r.SetBridge(workerMAC(i), &BridgeTo{Port: Port(i + 1)}))
	}
	r.must(r.SetForward(netip.PrefixFrom(homeAddr, 32), &ToPort{Port: homePort, MAC: homeMAC}))
	r.must(r.SetForward(netip.MustParsePrefix("10.78.0.0/16"), &ToPort{Port: parentPort, MAC: parentMAC}))
	r.must(r.SetBridge(MAC{255, 255, 255, 255, 255, 255}, &BridgeTo{Flood: true, Group: floodGroup}))
	r.must(r.SetMulticast(floodGroup, []Port{1, 2, 3, 4, homePort}))
	for _, j := range jobs {
		r.install(j)
	}
	return r
}

func (r tor) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r tor) install(j job) {
	r.Helper()
	r.must(r.SetJob(j.id, &JobParams{Index: j.index, Generation: j.generation, Cookie: j.cookie, Key: j.key}))
	var ports []Port
	for i := range j.workers {
		bit := uint64(1) << i
		r.must(r.SetMember(MemberKey{Port(i + 1), workerAddr(i), j.id}, &Member{Role: Worker, Bits: bit, Rest: j.full() &^ bit}))
		ports = append(ports, Port(i+1))
	}
	r.must(r.SetMember(MemberKey{homePort, homeAddr, j.id}, &Member{Role: Home}))
	r.must(r.SetMulticast(j.group, ports))
	r.must(r.SetGroupRoute(j.groupAddr(), &j.group))
	if j.size > 0 {
		r.must(r.SetRegion(RegionKey{j.id, j.base, ^(j.size - 1)}, &j.mode))
	}
	r.must(r.SetUplink(j.id, &Uplink{
		Index: j.index, Port: homePort, MAC: homeMAC, Src: torAddr, Dst: homeAddr,
		FirstPort: firstPort, PortMask: 3, Cookie: j.cookie, Key: j.key,
	}))
	r.must(r.SetPublish(j.id, &Publish{ToWorkers: &ToWorkers{
		Group: j.group, SrcMAC: torMAC, DstMAC: j.groupMAC(), Src: torAddr, Dst: j.groupAddr(), SrcPort: firstPort, DstPort: workerPort,
	}}))
}

// data is DATA of a worker for slot base + seq mod size, so that a job's seqs 0
// and size contend. Elements are a function of worker and seq, see value.
func (j job) data(worker int, seq uint32, elems int) packet {
	p := packet{
		port: Port(worker + 1), srcMAC: workerMAC(worker), dstMAC: torMAC,
		src: netip.AddrPortFrom(workerAddr(worker), workerPort), dst: netip.AddrPortFrom(homeAddr, firstPort+wire.HomePort(seq, 4)),
		tos: 2,
		header: wire.Header{
			Version: wire.Version, Type: wire.Data, Job: j.id, Generation: j.generation, Priority: j.priority,
			Cookie: j.cookie, Seq: seq, Bitmap: 1 << worker, Elems: uint16(elems), Slot: 0xffff,
		},
	}
	if j.size > 0 {
		p.header.Slot = j.base + uint16(seq)&(j.size-1)
	}
	for i := range elems {
		p.elements = append(p.elements, value(worker, seq, i))
	}
	return p
}

// value is of either sign, and four of them add up to an int32.
func value(worker int, seq uint32, i int) int32 {
	return int32(uint32(worker+1)*0x9e3779b9*uint32(i+1)+seq*0x85ebca6b) >> 3
}

// sum is what the workers' elements of a chunk add up to.
func sum(seq uint32, elems int, workers ...int) []int32 {
	s := make([]int32, elems)
	for i := range s {
		for _, w := range workers {
			s[i] += value(w, seq, i)
		}
	}
	return s
}

// packet is a Spillway packet and where it is.
type packet struct {
	port           Port // it came in by, or leaves by
	srcMAC, dstMAC MAC
	src, dst       netip.AddrPort
	tos            byte
	header         wire.Header
	elements       []int32
	noChecksum     bool // UDP
}

func (p packet) with(change func(*packet)) packet {
	p.elements = append([]int32(nil), p.elements...)
	change(&p)
	return p
}

// resend is p as a worker sends it after a timeout.
func (p packet) resend() packet {
	return p.with(func(p *packet) { p.header.Flags |= wire.Resend })
}

// frame is the packet with correct checksums.
func (p packet) frame() []byte {
	b := make([]byte, 42+wire.HeaderSize+4*len(p.elements))
	copy(b, p.dstMAC[:])
	copy(b[6:], p.srcMAC[:])
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip, udp := b[14:34], b[34:]
	ip[0], ip[1] = 0x45, p.tos
	binary.BigEndian.PutUint16(ip[2:], uint16(len(b)-14))
	binary.BigEndian.PutUint16(ip[4:], 0x1234)
	binary.BigEndian.PutUint16(ip[6:], 0x4000)
	ip[8], ip[9] = 64, 17
	copy(ip[12:], p.src.Addr().AsSlice())
	copy(ip[16:], p.dst.Addr().AsSlice())
	binary.BigEndian.PutUint16(ip[10:], checksum(ip, 0))
	binary.BigEndian.PutUint16(udp, p.src.Port())
	binary.BigEndian.PutUint16(udp[2:], p.dst.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	p.header.Encode(udp[8:])
	for i, e := range p.elements {
		binary.BigEndian.PutUint32(udp[8+wire.HeaderSize+4*i:], uint32(e))
	}
	if !p.noChecksum {
		c := checksum(udp, pseudo(ip, len(udp)))
		if c == 0 {
			c = 0xffff
		}
		binary.BigEndian.PutUint16(udp[6:], c)
	}
	return b
}

// pseudo is the sum of the UDP pseudo-header (RFC 768).
func pseudo(ip []byte, length int) uint32 {
	s := uint32(17) + uint32(length)
	for i := 12; i < 20; i += 2 {
		s += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	return s
}

// checksum is RFC 1071's, over an even number of bytes.
func checksum(b []byte, s uint32) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
		s = s&0xffff + s>>16
	}
	return ^uint16(s&0xffff + s>>16)
}

// state is all that packets change: the events and counters by name, and the slots.
type state struct {
	Counters map[string]uint64
	Slots    map[uint32]Slot // but for those that are free
}

func (r tor) state() state {
	r.Helper()
	s := state{r.counters(), map[uint32]Slot{}}
	for i := range uint32(torSlots) {
		slot, err := r.Slot(i)
		r.must(err)
		if slot.Urgency != 0 {
			s.Slots[i] = slot
		}
	}
	return s
}

// counters are the events of the tests' jobs, by name and index, but for zeros.
func (r tor) counters() map[string]uint64 {
	r.Helper()
	counters := map[string]uint64{}
	for _, index := range []uint8{0, jobA.index, jobB.index} {
		for event, name := range r.names {
			if name == "" {
				continue
			}
			n, err := r.EventCount(index, event)
			r.must(err)
			if n > 0 {
				counters[fmt.Sprintf("%s[%d]", name, index)] = n
			}
		}
		for name, read := range map[string]func(uint8) (uint64, error){"preempted": r.PreemptedCount, "saturated": r.SaturatedCount} {
			n, err := read(index)
			r.must(err)
			if n > 0 {
				counters[fmt.Sprintf("%s[%d]", name, index)] = n
			}
		}
	}
	return counters
}

// send sends a packet and checks what leaves, bit for bit, and which counters
// go up by one: names of events at the packet's job, or with "[index]".
func (r tor) send(what string, p packet, want []packet, counters ...string) {
	r.Helper()
	r.sendFrame(what, p.port, p.frame(), want, counters...)
}

func (r tor) sendFrame(what string, port Port, frame []byte, want []packet, counters ...string) {
	r.Helper()
	before := r.counters()
	got, err := r.Process(port, frame)
	r.must(err)
	if len(got) != len(want) {
		r.Fatalf("%s: %d packets leave, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if got[i].Port != w.port {
			r.Errorf("%s: leaves by port %d, want %d", what, got[i].Port, w.port)
		}
		if f := w.frame(); !bytes.Equal(got[i].Frame, f) {
			r.Errorf("%s: got\n%x, want\n%x", what, got[i].Frame, f)
		}
	}
	expected := maps.Clone(before)
	for _, c := range counters {
		expected[c]++
	}
	if diff := cmp.Diff(expected, r.counters()); diff != "" {
		r.Errorf("%s: counters (-want +got)\n%s", what, diff)
	}
	if r.Failed() {
		r.FailNow()
	}
}

// passed is p as it leaves unchanged to its home.
func (p packet) passed() []packet {
	return []packet{p.with(func(p *packet) { p.port, p.dstMAC = homePort, homeMAC })}
}

// result is the RESULT that the ToR publishes when p completes a chunk of j.
func (j job) result(p packet, flags wire.Flags, elements []int32) []packet {
	var out []packet
	for i := range j.workers {
		out = append(out, p.with(func(p *packet) {
			p.port, p.srcMAC, p.dstMAC = Port(i+1), torMAC, j.groupMAC()
			p.src, p.dst = netip.AddrPortFrom(torAddr, firstPort), netip.AddrPortFrom(j.groupAddr(), workerPort)
			p.header.Type, p.header.Flags, p.header.Bitmap, p.elements = wire.Result, flags, j.full(), elements
		}))
	}
	return out
}

// partial is what leaves when content of chunk seq of j is evicted by p.
func (j job) partial(p packet, seq uint32, flags wire.Flags, bitmap uint64, elements []int32) []packet {
	return []packet{p.with(func(p *packet) {
		p.port, p.dstMAC, p.noChecksum = homePort, homeMAC, true
		p.src = netip.AddrPortFrom(torAddr, p.src.Port())
		p.dst = netip.AddrPortFrom(homeAddr, firstPort+wire.HomePort(seq, 4))
		p.header.Flags, p.header.Job, p.header.Generation, p.header.Cookie = flags, j.id, j.generation, j.cookie
		p.header.Seq, p.header.Bitmap, p.header.Priority, p.elements = seq, bitmap, 0, elements
	})}
}

// at names counters of the job: "claimed" becomes "claimed[1]".
func (j job) at(event string) string { return fmt.Sprintf("%s[%d]", event, j.index) }
