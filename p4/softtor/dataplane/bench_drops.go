package dataplane

import (
	"encoding/binary"
	"fmt"
	"slices"

	"spillway/wire"
)

// DropCost is what a packet costs that ends in the ToR, on one core, by the kernel's own clock over many runs of the compiled program.
type DropCost struct {
	Reason string  `json:"reason"` // an event's name; Foreign for packets that are not Spillway's
	NS     float64 `json:"ns"`     // a packet; the median over the rounds
}

// Foreign stands for no reason: the packet is forwarded.
const Foreign = "(not Spillway's)"

// dropElements is the length of the packets. None of it is read of a packet that is dropped.
const dropElements = 32

// dropCase is a packet that is dropped for a reason, made of DATA of the first worker, whose slot has it already.
type dropCase struct {
	reason string
	make   func(frame []byte) []byte
}

// dropCases are in the order in which the program looks.
func dropCases() []dropCase {
	set := func(at int, value ...byte) func([]byte) []byte {
		return func(frame []byte) []byte {
			copy(frame[at:], value)
			return frame
		}
	}
	return []dropCase{
		{Foreign, set(36, 0, 53)},
		{"bad_header", set(42, 9)},
		{"unknown_job", set(46, 0xff)},
		{"stale", set(48, 9)},
		{"bad_cookie", set(50, 9)},
		{"not_member", set(26, 10, 77, 0, 99)},
		{"bad_direction", func(frame []byte) []byte {
			frame = frame[:benchHeaders]
			frame[43] = byte(wire.Pending)
			binary.BigEndian.PutUint16(frame[66:], 0)
			binary.BigEndian.PutUint16(frame[16:], uint16(len(frame)-14))
			binary.BigEndian.PutUint16(frame[38:], uint16(len(frame)-34))
			return frame
		}},
		{"bad_bitmap", set(65, 2)},
		{"duplicate", set(65, 1)},
	}
}

// RunDropBench measures what packets cost that are dropped, in rounds interleaved so that a noisy moment touches all reasons alike.
func RunDropBench(rounds int) ([]DropCost, error) { return benchDrops(rounds, benchRuns) }

func benchDrops(rounds, runs int) (costs []DropCost, err error) {
	names, err := EventNames()
	if err != nil {
		return nil, err
	}
	d, err := Load(Config{Slots: benchSlots, Elements: dropElements})
	if err != nil {
		return nil, err
	}
	defer d.Close() // nothing is attached, there is nothing to report
	if err := d.installBench(); err != nil {
		return nil, err
	}
	valid := benchFrame(dropElements, 0)
	if _, err := d.Process(1, valid); err != nil {
		return nil, err
	}
	cases := dropCases()
	times := make([][]float64, len(cases))
	for range rounds {
		for i, c := range cases {
			ns, err := d.timeDrop(c, slices.Index(names, c.reason), valid, runs)
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

// timeDrop is the mean time of so many packets, which must all be dropped for the reason, an event.
func (d *Dataplane) timeDrop(c dropCase, event int, valid []byte, runs int) (ns float64, err error) {
	frame := c.make(slices.Clone(valid))
	before, err := d.dropped(event)
	if err != nil {
		return 0, err
	}
	d.runMu.Lock()
	defer d.runMu.Unlock()
	if err := d.objects.RunPort.Set(uint32(1)); err != nil {
		return 0, fmt.Errorf("set the port of the frame: %w", err)
	}
	decision, mean, err := d.objects.TorRun.Benchmark(frame, runs, nil)
	if err != nil {
		return 0, fmt.Errorf("run the ToR: %w", err)
	}
	after, err := d.dropped(event)
	if err != nil {
		return 0, err
	}
	want := torKindKIND_DROP
	if c.reason == Foreign {
		want = torKindKIND_PORT
	}
	switch {
	case torKind(decision>>16) != want:
		return 0, fmt.Errorf("decision %#x, want %d", decision, want)
	case event >= 0 && after-before < uint64(runs):
		return 0, fmt.Errorf("%d packets of %d were counted", after-before, runs)
	}
	return float64(mean.Nanoseconds()), nil
}

// dropped counts packets of an event, of the bench's job and of none. There is no event -1.
func (d *Dataplane) dropped(event int) (packets uint64, err error) {
	if event < 0 {
		return 0, nil
	}
	for _, index := range []uint8{0, benchJob} {
		n, err := d.EventCount(index, event)
		if err != nil {
			return 0, err
		}
		packets += n
	}
	return packets, nil
}
