package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"spillway/wire"
	"spillway/worker/fixedpoint"
)

// Collective is one all-reduce: exactly one of the buffers is set. The result replaces the input in place, chunk by
// chunk; after an error the content is undefined. The caller leaves the buffer alone from Submit until Completed has returned it.
type Collective struct {
	F32  []float32
	I32  []int32
	F64  []float64 // SUM only
	F16  []fixedpoint.Float16
	BF16 []fixedpoint.BFloat16
	// Fused are several tensors as one.
	Fused *Fused
	Op    wire.Op
	// Average makes of a SUM of floats the sum divided by the number of ranks.
	Average bool
	// In a job whose Policy releases sums without everybody. Rescale multiplies a float32 sum that lacks ranks by the number of all over that of those in
	// it, so that its mean is over who contributed. ResidualF32 or ResidualI32, if set, is as long as the buffer, and gets this rank's own elements where the sum
	// lacks them, and zeros elsewhere: to be added to what is reduced next (error feedback). It must not overlap the buffer.
	Rescale     bool
	ResidualF32 []float32
	ResidualI32 []int32

	buffer    buffer // the one that is set
	pairs     pairs  // the same, if two elements share a word of its data chunks; else nil
	workers   int
	err       error
	following *Collective // in the order of issue

	elements, length int    // E, and N of this collective
	chunkLength      int    // elements of a full data chunk: E, or 2E
	first, end       uint64 // its positions, [first, end)
	chunks, groups   int    // C data chunks; exponent chunks after the descriptor

	// In block fixed point: for each data chunk this rank's exponent, once its group is scanned, and then the reduced one, once it is known.
	exponents []int32
	known     []bool // for each group: exponents are the reduced ones

	// Who is in what, if sums can lack ranks: each data chunk, and each group of exponents of float32. own is this rank's bit.
	own, everybody       uint64
	contributors, agreed []uint64

	// What failed this collective without breaking the job, by its first data chunk (its seq for partial), so that every rank
	// names the same whatever the order of arrival. Zero values: nothing did.
	failed       bool
	nonFinite    fault
	saturated    fault
	partial      fault
	disagreement *DisagreementError
	inconsistent error // why its RESULTs make no sense, unless the ranks disagree
}

// suspect keeps the first error for when it is known whether the ranks disagree; the collective's results are not used.
func (c *Collective) suspect(err error) {
	if c.inconsistent == nil {
		c.inconsistent = err
	}
	c.failed = true
}

// fault is the first place where something was found.
type fault struct {
	found bool
	place int
	what  uint64 // the rank of a non-finite value, the missing ranks of a partial sum
}

func (f *fault) note(place int, what uint64) {
	if !f.found || place < f.place {
		*f = fault{true, place, what}
	}
}

// Err is the outcome, nil for success; it is set when Completed has returned the collective.
func (c *Collective) Err() error { return c.err }

// The lanes of the descriptor (docs/protocol.md section 5).
const (
	descriptorElements = 32
	laneLength         = 0
	laneKind           = 2
	laneLayout         = 4
	laneExponents      = 8
	// descriptorGroup is how many exponents ride in the descriptor.
	descriptorGroup = descriptorElements - laneExponents
)

// chunkKind says what a seq of a collective is.
type chunkKind uint8

const (
	descriptorChunk chunkKind = iota
	exponentChunk
	dataChunk
)

// Validate says what is wrong with the buffer or the operation, if anything is.
func (c *Collective) Validate() error {
	b, err := c.find()
	switch {
	case err != nil:
		return err
	case b == nil || b.len() == 0:
		return errors.New("the buffer is empty")
	case b.len() > math.MaxInt32:
		return fmt.Errorf("a buffer of %d elements is longer than %d", b.len(), math.MaxInt32)
	case c.Op > wire.Min:
		return fmt.Errorf("%w: %d", wire.ErrOp, uint8(c.Op))
	case c.Average && c.Op != wire.Sum:
		return fmt.Errorf("an average of a %s is not defined", c.Op)
	case c.Average && b.dtype() == dtypeInt32:
		return errors.New("AVG is not defined for int32, which cannot hold a mean: use SUM and divide, or floats")
	case c.Op != wire.Sum && b.dtype() == dtypeFloat64:
		return fmt.Errorf("%s is not defined for float64, which does not fit the network's 32 bits: use float32", c.Op)
	case c.ResidualF32 != nil && len(c.ResidualF32) != len(c.F32), c.ResidualI32 != nil && len(c.ResidualI32) != len(c.I32):
		return fmt.Errorf("a residual of %d elements for a buffer of %d", len(c.ResidualF32)+len(c.ResidualI32), b.len())
	case c.Rescale && (c.F32 == nil || c.Op != wire.Sum):
		return errors.New("only float32 sums can be rescaled")
	case c.ResidualF32 != nil && c.Op != wire.Sum:
		return fmt.Errorf("a %s of floats leaves no residual", c.Op)
	}
	return nil
}

// prepare checks the collective and lays out its seqs from position first.
func (c *Collective) prepare(first uint64, cfg *Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	*c = Collective{
		F32: c.F32, I32: c.I32, F64: c.F64, F16: c.F16, BF16: c.BF16, Fused: c.Fused, Op: c.Op, Average: c.Average,
		Rescale: c.Rescale, ResidualF32: c.ResidualF32, ResidualI32: c.ResidualI32,
		workers: cfg.Workers, elements: cfg.Elements, chunkLength: cfg.Elements, first: first, exponents: c.exponents[:0], known: c.known[:0],
	}
	c.buffer, _ = c.find() // Validate has seen that there is one
	if cfg.paired() && c.scaled() {
		if c.pairs, _ = c.buffer.(pairs); c.pairs != nil {
			c.chunkLength = 2 * c.elements
		}
	}
	c.length = c.buffer.len()
	c.chunks = (c.length + c.chunkLength - 1) / c.chunkLength
	if c.scaled() && c.chunks > descriptorGroup {
		c.groups = (c.chunks - descriptorGroup + c.elements - 1) / c.elements
	}
	c.end = first + uint64(1+c.groups+c.chunks)
	return nil
}

// scaled reports whether the data chunks are in block fixed point and have exponents.
func (c *Collective) scaled() bool { return c.Op == wire.Sum && c.buffer.dtype() != dtypeInt32 }

// kind is the collective's own, as the descriptor says it.
func (c *Collective) kind() Kind {
	k := c.buffer.dtype()<<4 | Kind(c.Op)
	if c.Average {
		k |= kindAverage
	}
	if c.pairs != nil {
		k |= kindPaired
	}
	return k
}

// layout tells the ranks' ways to put tensors together apart: 0 for a single one.
func (c *Collective) layout() int32 {
	if c.Fused == nil {
		return 0
	}
	return int32(c.Fused.layout)
}

// at says what the chunk at an offset from first is: for an exponent chunk index is its group; for a data chunk index is its
// number, and group that of its exponent.
func (c *Collective) at(offset int) (kind chunkKind, index, group int) {
	switch {
	case offset == 0:
		return descriptorChunk, 0, 0
	case c.groups == 0:
		return dataChunk, offset - 1, 0
	case offset == 1:
		return exponentChunk, 1, 0
	case offset < 2+descriptorGroup:
		return dataChunk, offset - 2, 0
	}
	// From here on blocks of one exponent chunk and the data of the group before it; the last block has data only.
	t := offset - 2 - descriptorGroup
	block := min(t/(c.elements+1)+1, c.groups)
	t -= (block - 1) * (c.elements + 1)
	if block < c.groups {
		if t == 0 {
			return exponentChunk, block + 1, 0
		}
		t--
	}
	return dataChunk, descriptorGroup + (block-1)*c.elements + t, block
}

// members are the data chunks of a group, [from, to).
func (c *Collective) members(group int) (from, to int) {
	if group == 0 {
		return 0, min(c.chunks, descriptorGroup)
	}
	from = descriptorGroup + (group-1)*c.elements
	return from, min(c.chunks, from+c.elements)
}

// dataOffset is the offset from first of the first data chunk of a group; the others follow it.
func (c *Collective) dataOffset(group int) int {
	switch {
	case c.groups == 0:
		return 1
	case group == 0:
		return 2
	case group < c.groups:
		return 2 + descriptorGroup + (group-1)*(c.elements+1) + 1
	default:
		return 2 + descriptorGroup + (group-1)*(c.elements+1)
	}
}

// extent is the range of elements of a data chunk.
func (c *Collective) extent(chunk int) (from, to int) {
	from = chunk * c.chunkLength
	return from, min(c.length, from+c.chunkLength)
}

// words is how many of a packet a data chunk takes.
func (c *Collective) words(chunk int) int {
	from, to := c.extent(chunk)
	if c.pairs != nil {
		return fixedpoint.PairWords(to - from)
	}
	return to - from
}

// size is the number of a packet's elements that a chunk has before it is padded, and op what combines them.
func (c *Collective) size(kind chunkKind, index int) (elems int, op wire.Op) {
	switch kind {
	case descriptorChunk:
		return descriptorElements, wire.Max
	case exponentChunk:
		from, to := c.members(index)
		return to - from, wire.Max
	default:
		return c.words(index), c.Op
	}
}

// scan finds this rank's exponents of a group.
func (c *Collective) scan(group, rank int) {
	from, to := c.members(group)
	for chunk := from; chunk < to; chunk++ {
		lo, hi := c.extent(chunk)
		e := c.exponent(lo, hi)
		if e == fixedpoint.NonFinite {
			e += int32(rank)
		}
		c.exponents[chunk] = e
	}
}

// contribute writes this rank's elements of a chunk, and zeros behind them.
func (c *Collective) contribute(b []byte, ch *chunk) {
	elems, _ := c.size(ch.kind, int(ch.index))
	clear(b[elems*wire.ElementSize:])
	b = b[:elems*wire.ElementSize]
	switch ch.kind {
	case descriptorChunk:
		clear(b)
		putLane(b, laneLength, int32(c.length))
		putLane(b, laneLength+1, -int32(c.length))
		putLane(b, laneKind, int32(c.kind()))
		putLane(b, laneKind+1, -int32(c.kind()))
		putLane(b, laneLayout, c.layout())
		putLane(b, laneLayout+1, -c.layout())
		if c.scaled() {
			_, to := c.members(0)
			fixedpoint.EncodeInt32(b[laneExponents*wire.ElementSize:], c.exponents[:to])
		}
	case exponentChunk:
		from, to := c.members(int(ch.index))
		fixedpoint.EncodeInt32(b, c.exponents[from:to])
	case dataChunk:
		from, to := c.extent(int(ch.index))
		switch {
		case c.failed:
			// Its result is not used; it is exchanged so that the job goes on in step.
			clear(b)
		case c.scaled() && !c.quantises(ch.group):
			clear(b)
		case c.scaled():
			c.quantise(b, from, to, c.exponents[ch.index])
		default:
			c.buffer.encode(b, from, to, c.Op)
		}
	}
}

// readDescriptor checks what the ranks agreed on and takes the exponents of the first group. whole is false for the result of a
// partial sum, which need not contain this rank.
func (c *Collective) readDescriptor(b []byte, workers int, whole bool) error {
	longest, shortest := lane(b, laneLength), -lane(b, laneLength+1)
	largest, smallest := Kind(lane(b, laneKind)), Kind(-lane(b, laneKind+1))
	most, least := lane(b, laneLayout), -lane(b, laneLayout+1)
	own := c.kind()
	if whole && (most < c.layout() || least > c.layout()) {
		return fmt.Errorf("%w: the descriptor says a layout of %#x, this rank said %#x", ErrInconsistent, most, c.layout())
	}
	if whole && (longest < int32(c.length) || shortest > int32(c.length) || largest < own || smallest > own) {
		return fmt.Errorf("%w: the descriptor says %d elements of %s, this rank said %d of %s", ErrInconsistent, longest, largest, c.length, own)
	}
	if longest != shortest || largest != smallest || most != least {
		c.disagreement = &DisagreementError{MinElements: int(shortest), MaxElements: int(longest), MinKind: smallest, MaxKind: largest, Layout: most != least}
		return nil
	}
	if !c.scaled() {
		return nil
	}
	return c.readExponents(0, b[laneExponents*wire.ElementSize:], workers, whole)
}

// readExponents takes the reduced exponents of a group.
func (c *Collective) readExponents(group int, b []byte, workers int, whole bool) error {
	from, to := c.members(group)
	for chunk := from; chunk < to; chunk++ {
		e, own := lane(b, chunk-from), c.exponents[chunk]
		if rank := int(e - fixedpoint.NonFinite); rank >= 0 && rank < workers {
			c.nonFinite.note(chunk, uint64(rank))
			c.failed = true
		} else if !c.valid(e) {
			return fmt.Errorf("%w: %d is not an exponent", ErrInconsistent, e)
		}
		if whole && e < own {
			return fmt.Errorf("%w: the exponent of data chunk %d is %d, this rank said %d", ErrInconsistent, chunk, e, own)
		}
		c.exponents[chunk] = e
	}
	c.known[group] = true
	return nil
}

// take puts the sum of a data chunk into the buffer, without its padding.
func (c *Collective) take(b []byte, index int) {
	if c.failed {
		return
	}
	from, to := c.extent(index)
	b = b[:c.words(index)*wire.ElementSize]
	switch {
	case !c.scaled():
		c.buffer.decode(b, from, to)
	case c.Average:
		c.dequantise(b, from, to, c.exponents[index], c.workers)
	default:
		c.dequantise(b, from, to, c.exponents[index], 1)
	}
}

// outcome is the error of a collective whose chunks are all there.
func (c *Collective) outcome(rank int) error {
	switch {
	case c.nonFinite.found:
		from, to := c.extent(c.nonFinite.place)
		return &NonFiniteError{Rank: int(c.nonFinite.what), First: from, Last: to}
	case c.partial.found:
		return &PartialError{Ranks: ranksOf(c.partial.what), Rank: rank, Seq: uint32(c.first) + uint32(c.partial.place)}
	case c.saturated.found:
		from, to := c.extent(c.saturated.place)
		return &SaturatedError{First: from, Last: to}
	}
	return nil
}

func lane(b []byte, i int) int32 { return int32(binary.BigEndian.Uint32(b[i*wire.ElementSize:])) }

func putLane(b []byte, i int, v int32) { binary.BigEndian.PutUint32(b[i*wire.ElementSize:], uint32(v)) }
