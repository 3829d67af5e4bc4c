package xdp

import (
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"testing"

	"spillway/wire"
)

type vector struct {
	Name   string       `json:"name"`
	Packet string       `json:"packet"`
	Header *wire.Header `json:"header"`
	Reason string       `json:"reason"`
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile("../wire/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(b, &vectors); err != nil {
		t.Fatal(err)
	}
	return vectors
}

// vectorJob is the job of the golden vectors, with one worker address that may
// send every bit.
func vectorJob() Job {
	return Job{
		ID: 0x0102, Generation: 0x03, Cookie: 0x05060708, Elements: 832, Window: 7, Workers: 64,
		Home: netip.AddrPortFrom(homeAddr, wire.BasePort), HomePorts: 1, Group: groupAddr, WorkerPort: workerPort,
		Members: []Member{{Addr: workerAddr(0), Bits: wire.FullBitmap(64)}},
	}
}

func vectorFrame(packet []byte) []byte {
	return udpFrame(workerMAC(0), homeMAC, netip.AddrPortFrom(workerAddr(0), workerPort),
		netip.AddrPortFrom(homeAddr, wire.BasePort), 2, packet)
}

// TestVectorsInC holds the C twin of the packet format to the golden vectors: it
// refuses what they refuse, for their reason, and reads and writes every field
// where they have it.
func TestVectorsInC(t *testing.T) {
	a, err := Load(Config{MaxJobs: 0x200})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer a.Close()
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			if err := a.AddJob(vectorJob()); err != nil {
				t.Fatal(err)
			}
			defer a.RemoveJob(0x0102)
			packet, err := hex.DecodeString(v.Packet)
			if err != nil {
				t.Fatal(err)
			}
			before := allCounters(t, a, 0x0102)
			switch {
			case v.Reason != "":
				send(t, a, vectorFrame(packet), Drop)
				expectCounters(t, before, allCounters(t, a, 0x0102), v.Reason)
			case v.Header.Type == wire.Solicit || v.Header.Type == wire.Pending:
				// An aggregator sends these and never takes them.
				send(t, a, vectorFrame(packet), Drop)
				expectCounters(t, before, allCounters(t, a, 0x0102), "bad_type")
			case v.Header.Type == wire.Probe:
				got := send(t, a, vectorFrame(packet), Transmit)
				want := *v.Header
				want.Type, want.Bitmap = wire.Pending, 0
				if got.header != want {
					t.Errorf("answer %+v, want %+v", got.header, want)
				}
			case v.Header.Type == wire.Data:
				checkData(t, a, *v.Header, packet)
			case v.Header.Type == wire.Result:
				// Nobody asked for it; TestRestore has the case where somebody did.
				send(t, a, vectorFrame(packet), Drop)
				expectCounters(t, before, allCounters(t, a, 0x0102), "result", "unsolicited")
			}
		})
	}
}

// checkData sends a golden DATA packet, completes it with everybody else's bits
// and neutral elements, and expects its own fields and elements back.
func checkData(t *testing.T, a *Aggregator, h wire.Header, packet []byte) {
	first := Drop
	if h.Flags&wire.Resend != 0 {
		first = Transmit // SOLICIT
	}
	got := send(t, a, vectorFrame(packet), first)
	if first == Transmit {
		want := h
		want.Type, want.Flags, want.Elems = wire.Solicit, 0, 0
		if got.header != want {
			t.Errorf("SOLICIT %+v, want %+v", got.header, want)
		}
	}
	rest := h
	rest.Flags, rest.Bitmap = 0, ^h.Bitmap
	neutral := map[wire.Op]uint32{wire.Sum: 0, wire.Max: 0x80000000, wire.Min: 0x7fffffff}[h.Op]
	other := make([]byte, len(packet))
	rest.Encode(other)
	for i := wire.HeaderSize; i < len(other); i += 4 {
		other[i], other[i+1], other[i+2], other[i+3] = byte(neutral>>24), byte(neutral>>16), byte(neutral>>8), byte(neutral)
	}
	got = send(t, a, vectorFrame(other), Transmit)
	want := rest
	want.Type, want.Bitmap, want.Flags, want.Priority = wire.Result, ^uint64(0), h.Flags&^wire.Resend, 0
	if got.header != want {
		t.Errorf("RESULT %+v, want %+v", got.header, want)
	}
	var decoded wire.Header
	payload, err := decoded.Decode(packet)
	if err != nil {
		t.Fatal(err)
	}
	var elements []int32
	for i := 0; i < len(payload); i += 4 {
		elements = append(elements, int32(uint32(payload[i])<<24|uint32(payload[i+1])<<16|uint32(payload[i+2])<<8|uint32(payload[i+3])))
	}
	if !slices.Equal(got.elements, elements) {
		t.Errorf("elements %v, want %v", got.elements, elements)
	}
}

// allCounters are the job's counters and those of packets without a job, in one.
func allCounters(t testing.TB, a *Aggregator, job uint16) map[string]uint64 {
	t.Helper()
	c, err := a.Counters(job)
	if err != nil {
		t.Fatal(err)
	}
	jobless, err := a.UnknownJobCounters()
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range jobless {
		c[name] += n
	}
	return c
}

// expectCounters wants exactly the named counters one higher than before.
func expectCounters(t testing.TB, before, after map[string]uint64, names ...string) {
	t.Helper()
	for name := range after {
		want := before[name]
		if slices.Contains(names, name) {
			want++
		}
		if after[name] != want {
			t.Errorf("counter %s: %d, want %d", name, after[name], want)
		}
	}
	for _, name := range names {
		if _, ok := after[name]; !ok {
			t.Errorf("there is no counter %s", name)
		}
	}
}

// FuzzFormat compares the C twin with the Go codec: both take a payload or both
// refuse it, and whatever the program answers, the codec can read.
func FuzzFormat(f *testing.F) {
	for _, v := range readVectors(f) {
		b, err := hex.DecodeString(v.Packet)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	a, err := Load(Config{MaxJobs: 0x200})
	if err != nil {
		f.Fatalf("%+v", err)
	}
	f.Cleanup(func() { a.Close() })
	if err := a.AddJob(vectorJob()); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > wire.MaxPacket+64 {
			return
		}
		var h wire.Header
		_, decodeErr := h.Decode(b)
		before := allCounters(t, a, 0x0102)
		verdict, out, err := a.Process(vectorFrame(b))
		if err != nil {
			t.Fatal(err)
		}
		after := allCounters(t, a, 0x0102)
		taken := after["data"] + after["result"] + after["probe"] - before["data"] - before["result"] - before["probe"]
		if decodeErr != nil && taken != 0 {
			t.Errorf("the program took %x, the codec says %v", b, decodeErr)
		}
		switch verdict {
		case Transmit:
			parseAnswer(t, out)
		case Drop:
			var events uint64
			for name := range after {
				events += after[name] - before[name]
			}
			if events == 0 {
				t.Errorf("%x was dropped without a counter", b)
			}
		default:
			t.Errorf("verdict %d", verdict)
		}
	})
}
