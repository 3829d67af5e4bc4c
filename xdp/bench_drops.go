package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"spillway/wire"
)

// DropCost is what a packet costs that is dropped for a reason, on one core, by the kernel's own clock over many runs of the compiled program.
type DropCost struct {
	Reason string  `json:"reason"` // a counter's name; Foreign for packets that are not Spillway's
	NS     float64 `json:"ns"`     // a packet; the median over the rounds
}

// Foreign stands for no reason: the packet is let through to the kernel.
const Foreign = "(not Spillway's)"

// dropElements is the length of the packets. None of it is read of a packet that is dropped.
const dropElements = 32

// dropCase is a packet that is dropped for a reason, made of DATA of member 0 for chunk 5, of which the slot has bits 0 and 1. Chunk 6 is
// complete, chunk 7 is not there.
type dropCase struct {
	reason string
	make   func(frame []byte)
}

// set makes a packet different in one place.
func set(at int, value ...byte) func([]byte) { return func(frame []byte) { copy(frame[at:], value) } }

// dropCases are in the order in which the program looks, as the counters are.
func dropCases() []dropCase {
	const ring = 16
	result := func(seq byte) func([]byte) {
		return func(frame []byte) {
			frame[43], frame[57] = byte(wire.Result), seq
			binary.BigEndian.PutUint64(frame[58:], wire.FullBitmap(4))
		}
	}
	return []dropCase{
		{Foreign, set(36, 0, 53)},
		{"bad_length", set(38, 0xff)},
		{"bad_version", set(42, 9)},
		{"bad_type", set(43, byte(wire.Solicit))},
		{"bad_flags", set(44, 0x80)},
		{"bad_op", set(45, 9)},
		{"bad_elems", set(66, 0, 0)},
		{"unknown_job", set(46, 0, 1)},
		{"bad_generation", set(48, 9)},
		{"bad_cookie", set(50, 9)},
		{"not_member", set(26, 10, 77, 0, 99)},
		{"bad_bitmap", set(65, 0x10)},
		{"stale", func(frame []byte) { binary.BigEndian.PutUint32(frame[54:], (5-ring)&(1<<32-1)) }},
		{"mismatch", set(45, byte(wire.Max))},
		{"overlap", set(65, 6)},
		{"duplicate_result", result(6)},
		{"unsolicited", result(7)},
	}
}

// RunDropBench measures what packets cost that are dropped, in rounds interleaved so that a noisy moment touches all reasons alike.
func RunDropBench(rounds int) ([]DropCost, error) { return benchDrops(rounds, benchRuns) }

func benchDrops(rounds, runs int) (costs []DropCost, err error) {
	a, err := Load(Config{MaxJobs: 2, Slots: Slots{32, 1, 1, 1}})
	if err != nil {
		return nil, err
	}
	defer a.Close() // nothing is attached, there is nothing to report
	job := Job{
		Elements: dropElements, Window: 7, Workers: 4, Home: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, 0, 254}), wire.BasePort), HomePorts: 1,
		Group: netip.MustParseAddr("239.77.0.1"), WorkerPort: 9701,
		Members: []Member{{Addr: netip.AddrFrom4([4]byte{10, 77, 0, 1}), Bits: wire.FullBitmap(4)}},
	}
	if err := a.AddJob(job); err != nil {
		return nil, err
	}
	valid := benchFrame(job)
	for seq, bitmap := range map[byte]byte{5: 3, 6: 15} {
		valid[57], valid[65] = seq, bitmap
		if _, _, err := a.Process(valid); err != nil {
			return nil, err
		}
	}
	valid[57], valid[65] = 5, 1
	cases := dropCases()
	times := make([][]float64, len(cases))
	for range rounds {
		for i, c := range cases {
			ns, err := a.timeDrop(c, valid, runs)
			if err != nil {
				return nil, fmt.Errorf("bench of %s: %w", c.reason, err)
			}
			times[i] = append(times[i], ns)
		}
	}
	for i, c := range cases {
		costs = append(costs, DropCost{c.reason, median(times[i])})
	}
	return costs, nil
}

// timeDrop is the mean time of so many packets, which must all be dropped for the reason.
func (a *Aggregator) timeDrop(c dropCase, valid []byte, runs int) (ns float64, err error) {
	frame := append([]byte(nil), valid...)
	c.make(frame)
	before, err := a.dropped(c.reason)
	if err != nil {
		return 0, err
	}
	ret, mean, err := a.objects.Aggregator.Benchmark(frame, runs, nil)
	if err != nil {
		return 0, fmt.Errorf("run the aggregator: %w", err)
	}
	after, err := a.dropped(c.reason)
	if err != nil {
		return 0, err
	}
	want := Drop
	if c.reason == Foreign {
		want = Pass
	}
	switch {
	case Verdict(ret) != want:
		return 0, fmt.Errorf("verdict %d, want %d", ret, want)
	case c.reason != Foreign && after-before < uint64(runs):
		return 0, fmt.Errorf("%d packets of %d were counted", after-before, runs)
	}
	return float64(mean.Nanoseconds()), nil
}

// dropped counts packets dropped for a reason, of the bench's job and of none.
func (a *Aggregator) dropped(reason string) (uint64, error) {
	of, err := a.Counters(0)
	none, noneErr := a.UnknownJobCounters()
	return of[reason] + none[reason], errors.Join(err, noneErr)
}
