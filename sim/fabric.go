package sim

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"
)

// Node is something with an address on the fabric. Frames are whole Ethernet
// frames with correct headers. Times are nanoseconds since the run began.
type Node interface {
	Addr() netip.Addr
	// Receive takes a frame and returns the frames to send for it.
	Receive(now int64, frame []byte) ([][]byte, error)
	// Wake does what is due at now, and says when to be called again (never: math.MaxInt64)
	// if nothing arrives before.
	Wake(now int64) (frames [][]byte, next int64, err error)
}

// Faults are the chances, from 0 to 1, that something happens to a frame on a
// link. A frame crosses two links: to the switch, and from it to each receiver.
type Faults struct {
	Loss, Duplicate, Reorder, Mark float64
	// Delay of a link: at least Base, up to Jitter more; a reordered frame gets up
	// to Late on top. Nanoseconds.
	Base, Jitter, Late int64
}

// Switch is what stands between the links.
type Switch interface {
	// Forward takes a frame that arrived on a node's link and says what leaves on which.
	Forward(from netip.Addr, frame []byte) ([]Departure, error)
}

// Departure is a frame that a switch sends to a node.
type Departure struct {
	To    netip.Addr
	Frame []byte
}

// Fabric is a switch with a link to each node. Unless it has another Switch, it
// forwards, and multicast goes to every node that joined the group, but not
// back to its sender.
type Fabric struct {
	Faults Faults
	Switch Switch
	Longer map[netip.Addr]int64 // nanoseconds that a node's link takes beyond Faults.Base
	rand   *rand.Rand
	now    int64
	events events
	order  uint64
	nodes  map[netip.Addr]Node
	groups map[netip.Addr][]netip.Addr
	wakes  map[netip.Addr]int64 // when each node is to be woken

	Frames, Lost, Duplicated, Reordered, Marked int
}

// NewFabric makes an empty fabric whose dice come from r.
func NewFabric(r *rand.Rand, faults Faults) *Fabric {
	return &Fabric{Faults: faults, rand: r, nodes: make(map[netip.Addr]Node), groups: make(map[netip.Addr][]netip.Addr), wakes: make(map[netip.Addr]int64)}
}

// Add puts a node on the fabric and in the groups.
func (f *Fabric) Add(n Node, groups ...netip.Addr) {
	f.nodes[n.Addr()] = n
	for _, g := range groups {
		f.groups[g] = append(f.groups[g], n.Addr())
	}
	f.Kick(n.Addr(), 0)
}

// At runs do at a time, in order with everything else.
func (f *Fabric) At(when int64, do func(now int64) error) {
	f.order++
	heap.Push(&f.events, event{when: max(when, f.now), order: f.order, do: do})
}

// Kick wakes a node at a time, if it would not be woken before.
func (f *Fabric) Kick(addr netip.Addr, when int64) {
	if planned, ok := f.wakes[addr]; ok && planned <= when {
		return
	}
	f.wakes[addr] = when
	f.At(when, func(now int64) error {
		if f.wakes[addr] != when {
			return nil // another wake came before
		}
		delete(f.wakes, addr)
		frames, next, err := f.nodes[addr].Wake(now)
		if err != nil {
			return err
		}
		f.send(addr, frames)
		if next < never {
			f.Kick(addr, max(next, now+1))
		}
		return nil
	})
}

const never = 1<<63 - 1

// mostEvents ends a run that goes round in circles. The longest honest ones have
// some hundred thousand.
const mostEvents = 10_000_000

// Run goes on until done, and fails when there is nothing left to do, after
// limit of simulated time, or after mostEvents.
func (f *Fabric) Run(limit time.Duration, done func() bool) error {
	for n := 0; !done(); n++ {
		switch {
		case len(f.events) == 0:
			return fmt.Errorf("nothing left to do at %v", time.Duration(f.now))
		case n == mostEvents:
			return fmt.Errorf("not done after %d events, at %v", n, time.Duration(f.now))
		}
		e := heap.Pop(&f.events).(event)
		if f.now = e.when; f.now > int64(limit) {
			return fmt.Errorf("not done after %v", limit)
		}
		if err := e.do(f.now); err != nil {
			return fmt.Errorf("at %v: %w", time.Duration(f.now), err)
		}
	}
	return nil
}

// send puts frames on the sender's link.
func (f *Fabric) send(from netip.Addr, frames [][]byte) {
	for _, frame := range frames {
		f.Frames++
		f.cross(from, frame, func(frame []byte) error { return f.forward(from, frame) })
	}
}

// forward is what the switch does: from the sender's link to the receivers'.
func (f *Fabric) forward(from netip.Addr, frame []byte) error {
	through := f.Switch
	if through == nil {
		through = plain{f.groups}
	}
	departures, err := through.Forward(from, frame)
	for _, d := range departures {
		if node, ok := f.nodes[d.To]; ok {
			f.cross(d.To, d.Frame, func(frame []byte) error {
				f.deliver(node, frame)
				return nil
			})
		}
	}
	return err
}

// plain is the switch that only forwards.
type plain struct{ groups map[netip.Addr][]netip.Addr }

func (p plain) Forward(from netip.Addr, frame []byte) (out []Departure, err error) {
	to := netip.AddrFrom4([4]byte(frame[30:34]))
	if !to.IsMulticast() {
		return []Departure{{to, frame}}, nil
	}
	for _, addr := range p.groups[to] {
		if addr != from {
			out = append(out, Departure{addr, frame})
		}
	}
	return out, nil
}

func (f *Fabric) deliver(node Node, frame []byte) {
	f.At(f.now, func(now int64) error {
		frames, err := node.Receive(now, frame)
		if err != nil {
			return err
		}
		f.send(node.Addr(), frames)
		f.Kick(node.Addr(), now)
		return nil
	})
}

// cross takes a frame over a node's link, if it survives, and hands copies on.
func (f *Fabric) cross(link netip.Addr, frame []byte, arrive func([]byte) error) {
	if f.rand.Float64() < f.Faults.Loss {
		f.Lost++
		return
	}
	copies := 1
	if f.rand.Float64() < f.Faults.Duplicate {
		f.Duplicated++
		copies = 2
	}
	for range copies {
		own := append([]byte(nil), frame...)
		delay := f.Faults.Base + f.Longer[link]
		if f.Faults.Jitter > 0 {
			delay += f.rand.Int64N(f.Faults.Jitter)
		}
		if f.rand.Float64() < f.Faults.Reorder {
			f.Reordered++
			delay += f.rand.Int64N(f.Faults.Late + 1)
		}
		if f.rand.Float64() < f.Faults.Mark {
			f.Marked++
			mark(own)
		}
		f.At(f.now+delay, func(int64) error { return arrive(own) })
	}
}

// mark sets CE in the IP header, as a switch whose queue is long does.
func mark(frame []byte) {
	ip := frame[14:34]
	ip[1] |= 3
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
}

type event struct {
	when  int64
	order uint64 // of the same time, first come first served
	do    func(now int64) error
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].when < e[j].when || e[i].when == e[j].when && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}
