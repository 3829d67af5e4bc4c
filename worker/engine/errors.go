package engine

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"spillway/wire"
)

var (
	// ErrBroken is in the chain of every error after which this worker can take no further part in the job.
	ErrBroken = errors.New("the job is broken at this worker and must be joined again with a new generation")
	// ErrInconsistent means that a RESULT cannot have come from this rank's contribution: corrupted, or of an earlier life of
	// a generation that was used twice. It breaks the job.
	ErrInconsistent = errors.New("a result does not contain what this rank contributed")
)

// brokenError adds ErrBroken to an error. Its text is made when it is asked for, because the worker fills in what the engine cannot know.
type brokenError struct{ cause error }

func (e *brokenError) Error() string   { return e.cause.Error() + ": " + ErrBroken.Error() }
func (e *brokenError) Unwrap() []error { return []error{e.cause, ErrBroken} }

// MissingRanksError says that the home has waited too long for some ranks. It breaks the job.
type MissingRanksError struct {
	Ranks []int // who is missing from the oldest chunk, as the home said last
	Rank  int   // the rank that reports; among Ranks when its own packets do not reach the home
	Seq   uint32
	For   time.Duration // how long there has been no new RESULT
	Since time.Time     // when that began; the engine has no clock and leaves it zero
	// Gone is what the appliance said of some of Ranks, if it did; the engine does not hear it and leaves it nil.
	Gone []Gone
}

func (e *MissingRanksError) Error() string {
	text := fmt.Sprintf("no result for chunk %d for %s%s: missing %s", e.Seq, e.For, since(e.Since), describeRanks(e.Ranks, e.Rank))
	for _, g := range e.Gone {
		text += "; " + g.String()
	}
	return text
}

// Gone says why ranks are missing: their connections to the appliance were lost, or they have left.
type Gone struct {
	Ranks []int
	Text  string // in the appliance's words, like "rank 2 (10.0.0.3) lost its connection"
	Since time.Time
	For   time.Duration // from then until the error
}

func (g Gone) String() string {
	return fmt.Sprintf("%s %s ago", g.Text, g.For.Round(100*time.Millisecond))
}

// HomeSilentError says that the home did not answer, or that its RESULT did not arrive. It breaks the job.
type HomeSilentError struct {
	Home  netip.AddrPort // the engine knows no addresses and leaves it zero
	Seq   uint32
	For   time.Duration // how long there has been no new RESULT
	Since time.Time     // when that began; the engine has no clock and leaves it zero
	// ResultLost means that the home does answer, and says that it has the whole sum, but that the RESULT does not arrive.
	ResultLost bool
}

func (e *HomeSilentError) Error() string {
	home := "home"
	if e.Home.IsValid() {
		home += " " + e.Home.String()
	}
	if e.ResultLost {
		return fmt.Sprintf("no result for chunk %d for %s%s: %s has it, but large packets do not arrive from there", e.Seq, e.For, since(e.Since), home)
	}
	return fmt.Sprintf("no result for chunk %d for %s%s: %s does not answer", e.Seq, e.For, since(e.Since), home)
}

// DisagreementError says that ranks issued different collectives at the same place of their order. It breaks the job.
type DisagreementError struct {
	MinElements, MaxElements int // the shortest and the longest length of any rank
	MinKind, MaxKind         Kind
	Layout                   bool // they put tensors of other lengths together, or some of them none
}

func (e *DisagreementError) Error() string {
	if e.MinElements != e.MaxElements {
		return fmt.Sprintf("ranks disagree on the length: from %d to %d elements", e.MinElements, e.MaxElements)
	}
	if e.MinKind == e.MaxKind && e.Layout {
		return fmt.Sprintf("ranks disagree on the lengths of the tensors that are fused to %d elements", e.MaxElements)
	}
	return fmt.Sprintf("ranks disagree on the operation: %s and %s, at least", e.MinKind, e.MaxKind)
}

// NonFiniteError says that a rank contributed a NaN or an infinity. Every rank gets it; the job goes on.
type NonFiniteError struct {
	Rank        int // the highest one, if there are several for this chunk
	First, Last int // the elements of the chunk, [First, Last)
}

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("rank %d has a NaN or an infinity among elements %d to %d", e.Rank, e.First, e.Last-1)
}

// SaturatedError says that a sum left the range of int32. Every rank gets it; the job goes on.
type SaturatedError struct {
	First, Last int // the elements of the first such chunk, [First, Last)
}

func (e *SaturatedError) Error() string {
	return fmt.Sprintf("a sum among elements %d to %d is beyond the range of int32", e.First, e.Last-1)
}

// PartialError says that a sum was released without some ranks, which this worker did not ask for. Every rank gets it; the job goes on.
type PartialError struct {
	Ranks []int // who is not in the sum
	Rank  int   // the rank that reports
	Seq   uint32
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("the sum of chunk %d was released without %s", e.Seq, describeRanks(e.Ranks, e.Rank))
}

// Kind is dtype and operation of a collective as the descriptor has them: 16 * dtype + op, and 4 more if two elements share a word.
type Kind int32

// The element types of a Kind.
const (
	dtypeFloat32  = 1
	dtypeInt32    = 2
	dtypeFloat64  = 3
	dtypeFloat16  = 4
	dtypeBFloat16 = 5
)

// kindAverage is the operation of a Kind that is no operation of the network's.
const kindAverage = 3

// kindPaired is set in the operation of a Kind whose elements have 16 bits on the wire.
const kindPaired = 4

func (k Kind) String() string {
	name := map[Kind]string{
		dtypeFloat32: "float32", dtypeInt32: "int32", dtypeFloat64: "float64", dtypeFloat16: "float16", dtypeBFloat16: "bfloat16",
	}[k>>4]
	if name == "" {
		name = fmt.Sprintf("dtype %d", k>>4)
	}
	op, bits := k&15, ""
	if op&kindPaired != 0 {
		op, bits = op&^kindPaired, " in 16 bits"
	}
	if op == kindAverage {
		return name + " AVG" + bits
	}
	return name + " " + wire.Op(op).String() + bits
}

// ranksOf lists the bits of a bitmap.
func ranksOf(bitmap uint64) []int {
	var ranks []int
	for ; bitmap != 0; bitmap &= bitmap - 1 {
		ranks = append(ranks, bits.TrailingZeros64(bitmap))
	}
	return ranks
}

func describeRanks(ranks []int, own int) string {
	names := make([]string, len(ranks))
	for i, r := range ranks {
		names[i] = strconv.Itoa(r)
		if r == own {
			names[i] += " (this one: its packets do not reach the home)"
		}
	}
	if len(names) == 1 {
		return "rank " + names[0]
	}
	return "ranks " + strings.Join(names, ", ")
}

func since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " (since " + t.Format(time.RFC3339Nano) + ")"
}
