package hostile

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"spillway/wire"
)

// World is what an attacker knows of whom he attacks, or guesses: values that matter to somebody are better guesses than random ones.
type World struct {
	Addrs       []netip.Addr // IPv4: members, homes, ToRs, strangers
	Ports       []uint16
	Jobs        []uint16
	Generations []uint8
	Cookies     []uint32
	Bitmaps     []uint64
	Slots       []uint16
	Ring        uint32 // R of the jobs: distances of seq are multiples of it, or one beside
	Elements    []int  // of a chunk
}

// A Mutation is one way to spoil a packet.
type Mutation struct {
	Name  string
	apply func(w *World, rng *rand.Rand, frame []byte) []byte
}

// Mutate returns a frame that differs from a valid one by one mutation, or more seldom two or three, and their names. Checksums stay as they were: no
// level verifies them.
func (w *World) Mutate(rng *rand.Rand, valid []byte) (mutant []byte, how []string) {
	mutant = slices.Clone(valid)
	for more := true; more && len(how) < 3; more = rng.IntN(3) == 0 {
		m := mutations[rng.IntN(len(mutations))]
		mutant = m.apply(w, rng, mutant)
		how = append(how, m.Name)
	}
	return mutant, how
}

// Mutations are the names of all there are.
func Mutations() []string {
	var names []string
	for _, m := range mutations {
		names = append(names, m.Name)
	}
	return names
}

// Garbage is a frame of random bytes, of at most so many.
func Garbage(rng *rand.Rand, most int) []byte {
	frame := make([]byte, 14+rng.IntN(most-13))
	for i := range frame {
		frame[i] = byte(rng.Uint32())
	}
	return frame
}

// mutations come in the order of the headers.
var mutations = []Mutation{
	{"flip a bit", func(_ *World, rng *rand.Rand, f []byte) []byte {
		f[rng.IntN(len(f))] ^= 1 << rng.IntN(8)
		return f
	}},
	{"flip a bit of the header", func(_ *World, rng *rand.Rand, f []byte) []byte {
		f[rng.IntN(min(len(f), elementsAt))] ^= 1 << rng.IntN(8)
		return f
	}},
	{"cut", func(_ *World, rng *rand.Rand, f []byte) []byte { return f[:14+rng.IntN(len(f)-13)] }},
	{"cut a few bytes", func(_ *World, rng *rand.Rand, f []byte) []byte { return f[:max(14, len(f)-1-rng.IntN(8))] }},
	{"append", func(_ *World, rng *rand.Rand, f []byte) []byte { return append(f, make([]byte, 1+rng.IntN(8))...) }},
	{"another protocol", func(_ *World, rng *rand.Rand, f []byte) []byte {
		return put16(f, etherTypeAt, pick(rng, []uint16{0x0806, 0x86dd, 0x8100, 0}))
	}},
	{"IP version or options", func(_ *World, rng *rand.Rand, f []byte) []byte {
		return put(f, versionAt, pick(rng, []byte{0x46, 0x44, 0x65, 0x4f, 0x05}))
	}},
	{"congestion", func(_ *World, rng *rand.Rand, f []byte) []byte { return put(f, tosAt, byte(rng.IntN(4))) }},
	{"IP length", func(_ *World, rng *rand.Rand, f []byte) []byte { return put16(f, ipLengthAt, edge16(rng)) }},
	{"fragment", func(_ *World, rng *rand.Rand, f []byte) []byte {
		return put16(f, fragmentAt, pick(rng, []uint16{0x2000, 0x2001, 0x0001, 0x1fff, 0xffff, 0x8000}))
	}},
	{"transport", func(_ *World, rng *rand.Rand, f []byte) []byte { return put(f, protocolAt, byte(rng.Uint32())) }},
	{"source", func(w *World, rng *rand.Rand, f []byte) []byte {
		return put(f, sourceAt, pick(rng, w.Addrs).AsSlice()...)
	}},
	{"target", func(w *World, rng *rand.Rand, f []byte) []byte {
		return put(f, targetAt, pick(rng, w.Addrs).AsSlice()...)
	}},
	{"source port", func(w *World, rng *rand.Rand, f []byte) []byte { return put16(f, sourcePortAt, pick(rng, w.Ports)) }},
	{"target port", func(w *World, rng *rand.Rand, f []byte) []byte { return put16(f, targetPortAt, pick(rng, w.Ports)) }},
	{"UDP length", func(_ *World, rng *rand.Rand, f []byte) []byte { return put16(f, udpLengthAt, edge16(rng)) }},
	{"version", func(_ *World, rng *rand.Rand, f []byte) []byte { return put(f, wireAt, edge8(rng)) }},
	{"type", func(_ *World, rng *rand.Rand, f []byte) []byte { return put(f, typeAt, byte(rng.IntN(7))) }},
	{"type without elements", func(_ *World, rng *rand.Rand, f []byte) []byte {
		t := pick(rng, []wire.Type{wire.Solicit, wire.Pending, wire.Probe, wire.Data, wire.Result})
		return put(resize(rng, f, 0), typeAt, byte(t))
	}},
	{"known flags", func(_ *World, rng *rand.Rand, f []byte) []byte { return put(f, flagsAt, byte(rng.IntN(16))) }},
	{"flags", func(_ *World, rng *rand.Rand, f []byte) []byte { return put(f, flagsAt, edge8(rng)) }},
	{"known op", func(_ *World, rng *rand.Rand, f []byte) []byte { return put(f, opAt, byte(rng.IntN(3))) }},
	{"op", func(_ *World, rng *rand.Rand, f []byte) []byte { return put(f, opAt, edge8(rng)) }},
	{"known job", func(w *World, rng *rand.Rand, f []byte) []byte { return put16(f, jobAt, pick(rng, w.Jobs)) }},
	{"job", func(_ *World, rng *rand.Rand, f []byte) []byte { return put16(f, jobAt, edge16(rng)) }},
	{"generation", func(w *World, rng *rand.Rand, f []byte) []byte {
		return put(f, generationAt, pick(rng, w.Generations))
	}},
	{"priority", func(_ *World, rng *rand.Rand, f []byte) []byte { return put(f, priorityAt, edge8(rng)) }},
	{"known cookie", func(w *World, rng *rand.Rand, f []byte) []byte { return put32(f, cookieAt, pick(rng, w.Cookies)) }},
	{"cookie", func(_ *World, rng *rand.Rand, f []byte) []byte { return put32(f, cookieAt, rng.Uint32()) }},
	{"seq beside", func(_ *World, rng *rand.Rand, f []byte) []byte {
		return put32(f, seqAt, get32(f, seqAt)+uint32(rng.IntN(5))-2)
	}},
	{"seq rings away", func(w *World, rng *rand.Rand, f []byte) []byte {
		return put32(f, seqAt, get32(f, seqAt)+w.Ring*(uint32(rng.IntN(7))-3))
	}},
	{"seq half the world away", func(_ *World, rng *rand.Rand, f []byte) []byte {
		return put32(f, seqAt, get32(f, seqAt)+1<<31-uint32(rng.IntN(3))+1)
	}},
	{"bitmap", func(w *World, rng *rand.Rand, f []byte) []byte { return put64(f, bitmapAt, pick(rng, w.Bitmaps)) }},
	{"random bitmap", func(_ *World, rng *rand.Rand, f []byte) []byte { return put64(f, bitmapAt, rng.Uint64()) }},
	{"elems", func(_ *World, rng *rand.Rand, f []byte) []byte { return put16(f, elemsAt, edge16(rng)) }},
	{"more or fewer elements", func(w *World, rng *rand.Rand, f []byte) []byte { return resize(rng, f, pick(rng, w.Elements)) }},
	{"slot", func(w *World, rng *rand.Rand, f []byte) []byte { return put16(f, slotAt, pick(rng, w.Slots)) }},
	{"extreme elements", func(_ *World, rng *rand.Rand, f []byte) []byte {
		extreme := pick(rng, []uint32{0x7fffffff, 0x80000000, 0xffffffff, 0})
		for at := elementsAt; at < len(f); at += wire.ElementSize {
			put32(f, at, extreme)
		}
		return f
	}},
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// edge8 and edge16 are numbers at which something might begin or end, and random ones.
func edge8(rng *rand.Rand) byte {
	return pick(rng, []byte{0, 1, 2, 3, 15, 16, 127, 128, 255, byte(rng.Uint32())})
}

func edge16(rng *rand.Rand) uint16 {
	return pick(rng, []uint16{0, 1, 7, 8, 28, 35, 36, 37, 832, 833, 0x7fff, 0x8000, 0xffff, uint16(rng.Uint32())})
}
