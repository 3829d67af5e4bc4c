package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"spillway/wire"
)

// The addresses of the tests' rack: rank i is 10.77.0.(i+1).
var (
	homeAddr  = netip.MustParseAddr("10.77.0.254")
	groupAddr = netip.MustParseAddr("239.77.0.1")
	homeMAC   = net.HardwareAddr{2, 0, 0, 0, 0, 254}
)

const workerPort = 9701

func workerAddr(rank int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, 0, byte(rank + 1)})
}
func workerMAC(rank int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, byte(rank + 1)} }

// testJob is a job of n workers with a multicast group.
func testJob(n, elements int) Job {
	j := Job{
		ID: 7, Generation: 3, Cookie: 0xfeedbeef, Elements: elements, Window: 7, Workers: n,
		Home: netip.AddrPortFrom(homeAddr, wire.BasePort), HomePorts: 1,
		Group: groupAddr, WorkerPort: workerPort,
	}
	for rank := range n {
		j.Members = append(j.Members, Member{Addr: workerAddr(rank), Bits: 1 << rank})
	}
	return j
}

// shared is loaded once: the verifier takes a while.
var shared *Aggregator

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var err error
	if shared, err = Load(Config{MaxJobs: 16}); err != nil {
		fmt.Fprintf(os.Stderr, "%+v\n", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// load gives the shared aggregator with the jobs, which leave with the test.
func load(t testing.TB, jobs ...Job) *Aggregator {
	t.Helper()
	for _, j := range jobs {
		if err := shared.AddJob(j); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := shared.RemoveJob(j.ID); err != nil && !errors.Is(err, ErrNoJob) {
				t.Error(err)
			}
		})
	}
	return shared
}

// header is a packet of rank for testJob.
func header(typ wire.Type, rank int, seq uint32, elems int) wire.Header {
	return wire.Header{
		Version: wire.Version, Type: typ, Job: 7, Generation: 3, Priority: 9, Cookie: 0xfeedbeef,
		Seq: seq, Bitmap: 1 << rank, Elems: uint16(elems), Slot: 0x1234,
	}
}

func data(rank int, seq uint32, elements ...int32) (wire.Header, []int32) {
	return header(wire.Data, rank, seq, len(elements)), elements
}

// frame wraps a header and elements as rank sends it, UDP checksum included.
func frame(rank int, h wire.Header, elements []int32) []byte {
	payload := make([]byte, wire.HeaderSize+4*len(elements))
	h.Encode(payload)
	for i, e := range elements {
		binary.BigEndian.PutUint32(payload[wire.HeaderSize+4*i:], uint32(e))
	}
	return udpFrame(workerMAC(rank), homeMAC, netip.AddrPortFrom(workerAddr(rank), workerPort),
		netip.AddrPortFrom(homeAddr, wire.BasePort), 2, payload)
}

// udpFrame builds an Ethernet frame with correct checksums.
func udpFrame(srcMAC, dstMAC net.HardwareAddr, src, dst netip.AddrPort, tos byte, payload []byte) []byte {
	b := make([]byte, 42+len(payload))
	copy(b, dstMAC)
	copy(b[6:], srcMAC)
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip := b[14:34]
	ip[0], ip[1] = 0x45, tos
	binary.BigEndian.PutUint16(ip[2:], uint16(28+len(payload)))
	binary.BigEndian.PutUint16(ip[6:], 0x4000)
	ip[8], ip[9] = 64, 17
	s, d := src.Addr().As4(), dst.Addr().As4()
	copy(ip[12:], s[:])
	copy(ip[16:], d[:])
	binary.BigEndian.PutUint16(ip[10:], checksum(ip, 0))
	udp := b[34:]
	binary.BigEndian.PutUint16(udp, src.Port())
	binary.BigEndian.PutUint16(udp[2:], dst.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(8+len(payload)))
	copy(udp[8:], payload)
	binary.BigEndian.PutUint16(udp[6:], checksum(udp, pseudo(ip, len(udp))))
	return b
}

// pseudo is the sum of the UDP pseudo-header (RFC 768).
func pseudo(ip []byte, length int) uint32 {
	sum := uint32(17) + uint32(length)
	for i := 12; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	return sum
}

// checksum is RFC 1071's, over an even number of bytes.
func checksum(b []byte, sum uint32) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
		sum = sum&0xffff + sum>>16
	}
	sum = sum&0xffff + sum>>16
	return ^uint16(sum)
}

// answer is a frame of the aggregator, taken apart and checked.
type answer struct {
	header   wire.Header
	elements []int32
	dstMAC   net.HardwareAddr
	srcMAC   net.HardwareAddr
	src, dst netip.AddrPort
	tos      byte
}

func parseAnswer(t testing.TB, b []byte) answer {
	t.Helper()
	if len(b) < 70 {
		t.Fatalf("frame of %d bytes", len(b))
	}
	ip, udp := b[14:34], b[34:]
	if got := int(binary.BigEndian.Uint16(ip[2:])); got != len(b)-14 {
		t.Fatalf("IP length %d in a frame of %d", got, len(b))
	}
	if got := int(binary.BigEndian.Uint16(udp[4:])); got != len(udp) {
		t.Fatalf("UDP length %d of %d", got, len(udp))
	}
	if c := checksum(ip, 0); c != 0 {
		t.Fatalf("IP checksum is off by %#x", c)
	}
	var a answer
	payload, err := a.header.Decode(udp[8:])
	if err != nil {
		t.Fatalf("answer: %v", err)
	}
	ascends := netip.AddrFrom4([4]byte(ip[16:20])) == parentAddr // what a child gave goes on as it is
	if a.header.Type == wire.Result && !ascends || binary.BigEndian.Uint16(udp[6:]) != 0 {
		if c := checksum(udp, pseudo(ip, len(udp))); c != 0 && c != 0xffff {
			t.Fatalf("UDP checksum is off by %#x", c)
		}
		if a.header.Type == wire.Result && binary.BigEndian.Uint16(udp[6:]) == 0 {
			t.Fatal("RESULT without a UDP checksum")
		}
	}
	for i := 0; i < len(payload); i += 4 {
		a.elements = append(a.elements, int32(binary.BigEndian.Uint32(payload[i:])))
	}
	a.dstMAC, a.srcMAC, a.tos = b[0:6], b[6:12], ip[1]
	a.src = netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[12:16])), binary.BigEndian.Uint16(udp))
	a.dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[16:20])), binary.BigEndian.Uint16(udp[2:]))
	return a
}

// send runs a frame and checks the verdict; the answer is zero after a Drop.
func send(t testing.TB, a *Aggregator, f []byte, want Verdict) answer {
	t.Helper()
	got, out, err := a.Process(f)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("verdict %d, want %d", got, want)
	}
	if got == Drop {
		return answer{}
	}
	return parseAnswer(t, out)
}

func counters(t testing.TB, a *Aggregator) map[string]uint64 {
	t.Helper()
	c, err := a.Counters(7)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
