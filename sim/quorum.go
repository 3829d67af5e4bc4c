package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"spillway/loadtest/reference"
	"spillway/wire"
	"spillway/worker/engine"
	"spillway/xdp"
)

// DrawQuorum makes the scenario of a seed in which the jobs go on without stragglers, and have some.
func DrawQuorum(seed uint64) *Scenario {
	s := Draw(seed)
	r := rand.New(rand.NewPCG(seed, 0x9057))
	for n, j := range s.Jobs {
		if j.Workers == 1 || len(s.Jobs) > 1 && r.IntN(4) == 0 {
			continue
		}
		j.Policy = xdp.Policy{Quorum: 1 + r.IntN(j.Workers-1), After: time.Duration(50+r.IntN(4000)) * time.Microsecond}
		if r.IntN(2) == 0 {
			j.Policy.Quorum = j.Workers - 1
		}
		if r.IntN(4) > 0 {
			j.Policy.MaxLag = r.IntN(60)
		}
		for i := range j.Collectives {
			for j.Collectives[i].Floats != nil { // sums that lack ranks are expected of float32 and int32
				j.Collectives[i] = j.drawCollective(r)
			}
			j.Collectives[i].Rescale = j.Collectives[i].F32 != nil && r.IntN(2) == 0
		}
		if r.IntN(3) == 0 {
			for range 1 + r.IntN(3) {
				s.Wipes = append(s.Wipes, r.Int64N(60_000_000))
			}
		}
		for range r.IntN(6) {
			s.Pauses = append(s.Pauses, Pause{Job: n, Rank: r.IntN(j.Workers), At: r.Int64N(10_000_000), For: r.Int64N(1 + r.Int64N(60_000_000))})
		}
	}
	return s
}

// wipe is Home.Wipe, after which the ToR and the workers of the jobs that go on in a new generation are told so, each in its time.
func (r *run) wipe(now int64) error {
	renewed, err := r.homes[0].Wipe()
	if err != nil {
		return err
	}
	for _, job := range renewed {
		n := slices.IndexFunc(r.placed, func(p placement) bool { return p.job.ID == job.ID })
		r.placed[n].job = job
		if r.tor != nil {
			r.fabric.At(now+r.fabric.rand.Int64N(3_000_000), func(int64) error { return r.tor.Renew(job) })
		}
		for _, w := range r.workers[n] {
			w.Resume(r.fabric, now+r.fabric.rand.Int64N(3_000_000), r.Jobs[n].config(&job, 1, false), w.homes)
		}
	}
	return nil
}

// issue is the collective as one rank of a job issues it, on a copy of its input; with room for a residual if sums can lack it.
func (c *Collective) issue(j *Job, rank int) *engine.Collective {
	own := c.of(rank)
	if j.Policy.Quorum != 0 {
		// What is there before must not be there afterwards.
		own.Rescale = c.Rescale
		for range own.F32 {
			own.ResidualF32 = append(own.ResidualF32, 77)
		}
		for range own.I32 {
			own.ResidualI32 = append(own.ResidualI32, 77)
		}
	}
	return own
}

// part is one seq of a collective by docs/protocol.md section 5, written down apart from the engine.
type part struct {
	group, chunk int // chunk -1: the exponents of the group, for int32 the descriptor
}

func (c *Collective) parts(length int, job *Job) []part {
	elements, chunkLength := job.Elements, c.chunkLength(job)
	chunks := (length + chunkLength - 1) / chunkLength
	all := []part{{0, -1}}
	if c.F32 == nil {
		for i := range chunks {
			all = append(all, part{0, i})
		}
		return all
	}
	const inDescriptor = 24
	groups := 1
	for reach := inDescriptor; reach < chunks; reach += elements {
		groups++
	}
	from := 0
	for g := range groups {
		if g+1 < groups {
			all = append(all, part{g + 1, -1})
		}
		to := min(chunks, inDescriptor+g*elements)
		for ; from < to; from++ {
			all = append(all, part{g, from})
		}
	}
	return all
}

// chunkLength is how many of its elements a full data chunk has.
func (c *Collective) chunkLength(job *Job) int {
	if job.WireBits == 16 && c.F32 != nil {
		return 2 * job.Elements
	}
	return job.Elements
}

// released is check for a job whose sums may lack ranks: every one must be that of exactly those who are in its bitmap, the same at every rank,
// and what a sum lacks of a rank must be in that rank's residual.
func (r *run) released(n int, c Collective) func(workers []*Worker, i int, j *Job) error {
	return func(workers []*Worker, i int, j *Job) error {
		seq := j.FirstSeq
		for _, before := range j.Collectives[:i] {
			seq += uint32(len(before.parts(before.length(), j)))
		}
		x := expectation{Collective: &c, full: wire.FullBitmap(j.Workers), quorum: j.Policy.Quorum, job: j, chunkLength: c.chunkLength(j)}
		if err := x.build(r.workers[n][0].taken, seq); err != nil {
			return fmt.Errorf("collective %d: %w", i, err)
		}
		for rank, w := range workers {
			if err := x.compare(w.Finished[i], rank); err != nil {
				return fmt.Errorf("collective %d, rank %d: %w", i, rank, err)
			}
		}
		return nil
	}
}

func (c *Collective) length() int {
	if c.F32 != nil {
		return len(c.F32[0])
	}
	return len(c.I32[0])
}

// expectation is what a collective must give, from the inputs and from who was in which chunk.
type expectation struct {
	*Collective
	full        uint64
	quorum      int
	job         *Job
	chunkLength int
	who         []uint64 // by data chunk
	f32         []float32
	i32         []int32
	fails       error // what kind of error every rank must get
}

func (x *expectation) build(results taken, seq uint32) error {
	length := x.length()
	agreed := make(map[int]uint64)
	x.who = make([]uint64, (length+x.chunkLength-1)/x.chunkLength)
	x.f32, x.i32 = make([]float32, length), make([]int32, length)
	parts := x.parts(length, x.job)
	// The exponents first: those of a group are before its data.
	for at, p := range parts {
		result, ok := results[seq+uint32(at)]
		if !ok {
			return fmt.Errorf("chunk %d was never taken", seq+uint32(at))
		}
		if bits.OnesCount64(result.bitmap) < x.quorum {
			return fmt.Errorf("chunk %d was published with %#x, which is less than %d", seq+uint32(at), result.bitmap, x.quorum)
		}
		if p.chunk < 0 {
			agreed[p.group] = result.bitmap
			continue
		}
		who := result.bitmap
		if x.F32 != nil {
			who &= agreed[p.group]
		}
		x.who[p.chunk] = who
		from, to := p.chunk*x.chunkLength, min((p.chunk+1)*x.chunkLength, length)
		if x.F32 != nil {
			x.sumF32(result.elements, agreed[p.group], who, from, to)
		} else {
			x.reduceI32(result.elements, who, from, to)
		}
	}
	return nil
}

// sumF32 sums the elements [from, to) over some ranks, with the exponent of those who agreed on it.
func (x *expectation) sumF32(wireElements []byte, agreed, who uint64, from, to int) {
	exponent, k, exponentOf := -1000, reference.FractionBits(len(x.F32)), reference.Exponent
	paired := x.job.WireBits == 16
	if paired {
		k = reference.FractionBits16(len(x.F32))
		exponentOf = func(v float32) (int, error) { return reference.Exponent16(v, k) }
	}
	for _, rank := range ranks(agreed) {
		for _, v := range x.F32[rank][from:to] {
			e, err := exponentOf(v)
			if err != nil {
				x.fails = &engine.NonFiniteError{}
				return
			}
			exponent = max(exponent, e)
		}
	}
	var upper int64 // of a word with two elements
	for i := from; i < to; i++ {
		var sum int64
		for _, rank := range ranks(who) {
			if exponent > -1000 {
				sum += int64(math.RoundToEven(math.Ldexp(float64(x.F32[rank][i]), k-exponent)))
			}
		}
		word, place, ends := sum, i-from, true
		if paired && place%2 == 0 {
			word, upper, ends = sum<<16, sum, i == to-1
		} else if paired {
			word = upper<<16 + sum
		}
		if paired {
			place /= 2
		}
		if got := int64(int32(binary.BigEndian.Uint32(wireElements[4*place:]))); ends && got != word && x.fails == nil && !x.NonFinite {
			x.fails = fmt.Errorf("element %d was published as %d, which the sum of %#x is not: %d", i, got, who, word)
		}
		x.f32[i] = float32(math.Ldexp(float64(sum), exponent-k))
		if x.Rescale && who != 0 && who != x.full {
			x.f32[i] = float32(float64(x.f32[i]) * (float64(bits.OnesCount64(x.full)) / float64(bits.OnesCount64(who))))
		}
	}
}

func (x *expectation) reduceI32(wireElements []byte, who uint64, from, to int) {
	for i := from; i < to; i++ {
		var total int64
		for n, rank := range ranks(who) {
			v := int64(x.I32[rank][i])
			switch {
			case n == 0:
				total = v
			case x.Op == wire.Sum:
				total += v
			case x.Op == wire.Max:
				total = max(total, v)
			default:
				total = min(total, v)
			}
		}
		if total != int64(int32(total)) {
			x.fails = &engine.SaturatedError{}
			return
		}
		x.i32[i] = int32(total)
		if got := int32(binary.BigEndian.Uint32(wireElements[4*(i-from):])); got != x.i32[i] && x.fails == nil && !x.Saturates {
			x.fails = fmt.Errorf("element %d was published as %d, which the result of %#x is not: %d", i, got, who, x.i32[i])
		}
	}
}

func ranks(bitmap uint64) (all []int) {
	for ; bitmap != 0; bitmap &= bitmap - 1 {
		all = append(all, bits.TrailingZeros64(bitmap))
	}
	return all
}

// compare holds what a rank got to the expectation.
func (x *expectation) compare(got *engine.Collective, rank int) error {
	var nonFinite *engine.NonFiniteError
	var saturated *engine.SaturatedError
	switch x.fails.(type) {
	case nil:
		if got.Err() != nil {
			return got.Err()
		}
	case *engine.NonFiniteError:
		if !errors.As(got.Err(), &nonFinite) {
			return fmt.Errorf("got %v, want a NonFiniteError", got.Err())
		}
		return nil
	case *engine.SaturatedError:
		if !errors.As(got.Err(), &saturated) {
			return fmt.Errorf("got %v, want a SaturatedError", got.Err())
		}
		return nil
	default:
		return x.fails
	}
	missed, partial, everywhere := 0, false, x.full
	var spans []engine.Span
	for chunk, who := range x.who {
		from, to := chunk*x.chunkLength, min((chunk+1)*x.chunkLength, x.length())
		without := who>>rank&1 == 0
		if without {
			missed += to - from
		}
		partial, everywhere = partial || who != x.full, everywhere&who
		if last := len(spans) - 1; last >= 0 && spans[last].Contributors == who {
			spans[last].Last = to
		} else {
			spans = append(spans, engine.Span{First: from, Last: to, Contributors: who})
		}
		for i := from; i < to; i++ {
			if err := x.element(got, rank, i, without); err != nil {
				return err
			}
		}
	}
	o := got.Outcome()
	if o.Missed != missed || o.Partial != partial || o.Contributors != everywhere || !slices.Equal(o.Spans, spans) {
		return fmt.Errorf("outcome %+v; want %d missed, partial %v, %#x in all, %+v", o, missed, partial, everywhere, spans)
	}
	return nil
}

func (x *expectation) element(got *engine.Collective, rank, i int, without bool) error {
	if x.F32 != nil {
		var residual float32
		if without {
			residual = x.F32[rank][i]
		}
		if math.Float32bits(got.F32[i]) != math.Float32bits(x.f32[i]) || math.Float32bits(got.ResidualF32[i]) != math.Float32bits(residual) {
			return fmt.Errorf("element %d: %v and residual %v, want %v and %v", i, got.F32[i], got.ResidualF32[i], x.f32[i], residual)
		}
		return nil
	}
	var residual int32
	if without {
		residual = x.I32[rank][i]
	}
	if got.I32[i] != x.i32[i] || got.ResidualI32[i] != residual {
		return fmt.Errorf("element %d: %d and residual %d, want %d and %d", i, got.I32[i], got.ResidualI32[i], x.i32[i], residual)
	}
	return nil
}
