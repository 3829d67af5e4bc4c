package vectors_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"spillway/p4/vectors"
	"spillway/p4/vectors/model"
	"spillway/wire"
)

var (
	seed    = flag.Uint64("seed", 0, "of TestAgainstModel; 0 takes the clock")
	packets = flag.Int("packets", 20000, "how many packets TestAgainstModel sends")
)

// random makes packets that meet: few slots, few seqs, and every field wrong now and then.
type random struct {
	*rand.Rand
	fixture *vectors.Fixture
}

func (r *random) one(in int) bool { return r.IntN(in) == 0 }

func pick[T any](r *random, of ...T) T { return of[r.IntN(len(of))] }

func pointer[T any](v T) *T { return &v }

func (r *random) number(of ...vectors.Number) *vectors.Number { return pointer(pick(r, of...)) }

func (r *random) packet() *vectors.Packet {
	p := &vectors.Packet{From: pick(r, "w0", "w1", "w2"), Job: pick(r, "A", "B", "C"), Type: pointer(vectors.Type(wire.Data))}
	job := r.fixture.Jobs[p.Job]
	if p.Job == "B" && p.From == "w2" {
		p.From = "w1"
	}
	seq := vectors.Number(r.IntN(3))
	if r.one(8) { // the id of the same seq in another job
		seq ^= job.Key ^ r.fixture.Jobs[pick(r, "A", "B", "C")].Key
	}
	p.Seq, p.Slot = &seq, pointer(vectors.Number(r.IntN(3)))
	// The ranks of a job agree on the operation of a chunk.
	p.Op = pointer([]vectors.Op{vectors.Op(wire.Sum), vectors.Op(wire.Max), vectors.Op(wire.Min)}[(uint64(seq)+uint64(job.ID))%3])
	p.Priority = r.number(1, 1, 1, 2, 2, 3)
	if !r.one(3) {
		p.Priority = r.number(1)
	}
	flags := vectors.Flags(0)
	if r.one(12) {
		flags |= vectors.Flags(wire.Resend)
	}
	if r.one(10) {
		flags |= vectors.Flags(wire.ECN)
	}
	if r.one(10) {
		p.TOS = r.number(0, 1, 3, 0xff)
	}
	p.Elements = make(vectors.Elements, wire.MinElements)
	for i := range p.Elements {
		p.Elements[i] = int32(r.Uint32() >> 2)
		if r.one(400) {
			p.Elements[i] = pick(r, int32(math.MaxInt32), math.MinInt32)
		}
	}
	p.Flags = &flags
	if r.one(6) {
		r.twist(p)
	}
	return p
}

// twist makes the packet one of those that are rare.
func (r *random) twist(p *vectors.Packet) {
	switch r.IntN(14) {
	case 0:
		p.Priority = r.number(0)
	case 1:
		p.Slot = r.number(8, 7, 0xfffe, noSlot)
	case 2:
		p.Elements = make(vectors.Elements, pick(r, 1, 31, 33, 64))
	case 3:
		*p.Flags |= pick(r, vectors.Flags(wire.Saturated), vectors.Flags(wire.Partial), vectors.Flags(0x40))
	case 4:
		p.Bitmap = r.number(0, 1, 3, 7, 1<<63)
	case 5:
		p.Generation = r.number(0, 1, 2, 3)
	case 6:
		p.Cookie = r.number(0, r.fixture.Jobs["A"].Cookie)
	case 7:
		p.Port = pick[uint16](r, 1, 2, 3, 64)
	case 8:
		p.Type, p.Elements = pointer(vectors.Type(r.IntN(7))), nil
	case 9:
		p.From, p.To = pick(r, "home", "homeB"), pick(r, "w0", "w1", "w2")
		p.Type, p.Elements = pointer(vectors.Type(pick(r, wire.Result, wire.Solicit, wire.Pending))), nil
	case 10:
		p.Type = pointer(vectors.Type(wire.Result))
	case 11:
		p.Elems = r.number(0, 31, 32, 64, 0xffff)
	case 12:
		p.Cut = 1 + r.IntN(150)
	case 13:
		p.JobID = r.number(0, 7, 9, 11)
	}
}

const noSlot = 0xffff

// normalised sorts emissions, and leaves out what means nothing: the elements of
// a saturated sum, and the checksum over them.
func normalised(emissions []vectors.Emission) []vectors.Emission {
	const flags, checksum, elements = 44, 40, 70
	out := slices.Clone(emissions)
	for i, e := range out {
		if len(e.Frame) > elements && wire.Flags(e.Frame[flags])&wire.Saturated != 0 {
			out[i].Frame = slices.Clone(e.Frame[:elements])
			clear(out[i].Frame[checksum : checksum+2])
			out[i].Frame = binary.BigEndian.AppendUint32(out[i].Frame, uint32(len(e.Frame)))
		}
	}
	slices.SortFunc(out, func(a, b vectors.Emission) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), bytes.Compare(a.Frame, b.Frame))
	})
	return out
}

// TestAgainstModel: the compiled program and the rules in Go do the same with packets that nobody thought of.
func TestAgainstModel(t *testing.T) {
	files, err := vectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	fixture := &files[slices.IndexFunc(files, func(f *vectors.File) bool { return f.Name == "contest" })].Fixture
	tor, rules := loadSoftTor(t, fixture.Elements), model.New()
	for _, target := range []vectors.Target{tor, rules} {
		if err := target.Configure(fixture); err != nil {
			t.Fatal(err)
		}
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	r := &random{rand.New(rand.NewPCG(*seed, 0)), fixture}
	for n := range *packets {
		port, frame, err := fixture.Frame(r.packet())
		if err != nil {
			t.Fatal(err)
		}
		want, err := rules.Inject(port, frame)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tor.Inject(port, frame)
		if err != nil {
			t.Fatal(err)
		}
		if w, g := normalised(want), normalised(got); fmt.Sprint(w) != fmt.Sprint(g) {
			t.Fatalf("-seed %d, packet %d by port %d:\n%x\nmodel\n%x\nprogram\n%x", *seed, n, port, frame, w, g)
		}
	}
	sums := map[string]uint64{}
	for _, j := range append([]*vectors.Job{{}}, fixture.Jobs["A"], fixture.Jobs["B"], fixture.Jobs["C"]) {
		compareCounters(t, tor, rules, j.Index, sums)
	}
	t.Logf("%d packets: %v", *packets, sums)
}

// compareCounters compares all counters of a job index, and adds them up.
func compareCounters(t *testing.T, tor, rules vectors.Target, index uint8, sums map[string]uint64) {
	t.Helper()
	counts := func(target vectors.Target) []uint64 {
		events, err := target.Events(index)
		if err != nil {
			t.Fatal(err)
		}
		preempted, err := target.Preempted(index)
		if err != nil {
			t.Fatal(err)
		}
		saturated, err := target.Saturated(index)
		if err != nil {
			t.Fatal(err)
		}
		return append(events, preempted, saturated)
	}
	want, got := counts(rules), counts(tor)
	names := append(vectors.EventNames(), "preempted", "saturated")
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("index %d, %s: the model counts %d, the program %d", index, names[i], want[i], got[i])
		}
		if names[i] != "" {
			sums[names[i]] += got[i]
		}
	}
}
