package engine

import (
	"container/heap"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"spillway/wire"
	"spillway/worker/fixedpoint"
	"spillway/worker/internal/testhome"
)

var (
	seeds     = flag.Uint64("rack.seeds", 200, "seeds of TestRack")
	firstSeed = flag.Uint64("rack.first", 1, "first seed of TestRack")
)

// rack is a simulated network of engines around one reference home: everything is delayed at random, so reordered, and some of it
// lost or doubled.
type rack struct {
	r           *rand.Rand
	home        testhome.Home
	nodes       []*node
	now         int64
	events      events
	count       int
	loss, dup   float64
	spread      int64 // of delays, ns
	fullness    float64
	depth       int // collectives in flight
	forgets     int
	pendingSend []outgoing
}

type node struct {
	rack        *rack
	rank        int
	engine      *Engine
	collectives []*Collective
	submitted   int
	errs        []error
	wake        int64
	dead        bool
}

// event is a packet on its way (to == home: to the home), or a node's alarm.
type event struct {
	at     int64
	order  int
	to     int
	from   int
	packet []byte
}

const home = -1

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (k *rack) schedule(e event) {
	k.count++
	e.order = k.count
	heap.Push(&k.events, e)
}

// send puts a packet on the network.
func (k *rack) send(from, to int, packet []byte) {
	if k.r.Float64() < k.loss {
		return
	}
	copies := 1
	if k.r.Float64() < k.dup {
		copies = 2
	}
	for range copies {
		delay := 20_000 + k.r.Int64N(k.spread)
		if k.r.IntN(200) == 0 {
			delay += k.r.Int64N(3_000_000)
		}
		k.schedule(event{at: k.now + delay, to: to, from: from, packet: packet})
	}
}

// Packet makes a node the Output of its engine.
func (n *node) Packet(_ uint16, size int) []byte {
	if n.rack.r.Float64() < n.rack.fullness {
		return nil
	}
	b := make([]byte, size)
	n.rack.pendingSend = append(n.rack.pendingSend, outgoing{n.rank, b})
	return b
}

func (n *node) poll() {
	k := n.rack
	if n.dead {
		return
	}
	for n.submitted < len(n.collectives) && n.submitted-len(n.errs) < k.depth {
		if err := n.engine.Submit(k.now, n.collectives[n.submitted]); err != nil {
			n.errs = append(n.errs, err)
		}
		n.submitted++
	}
	wake := n.engine.Poll(k.now, n)
	for _, o := range k.pendingSend {
		k.send(o.from, home, o.packet)
	}
	k.pendingSend = k.pendingSend[:0]
	again := false
	for c := n.engine.Completed(); c != nil; c = n.engine.Completed() {
		if c != n.collectives[len(n.errs)] {
			panic("collectives complete out of order")
		}
		n.errs = append(n.errs, c.Err())
		again = true
	}
	if wake <= k.now || again {
		wake = k.now + 1000
	}
	if wake != Never && wake != n.wake {
		n.wake = wake
		k.schedule(event{at: wake, to: n.rank})
	}
}

// run goes on until every node has every outcome; it returns an error for a hang.
func (k *rack) run(limit time.Duration) error {
	for _, n := range k.nodes {
		k.schedule(event{at: k.r.Int64N(5_000_000), to: n.rank})
	}
	for {
		done := true
		for _, n := range k.nodes {
			done = done && (n.dead || len(n.errs) == len(n.collectives))
		}
		if done {
			return nil
		}
		if k.events.Len() == 0 {
			return fmt.Errorf("nothing is scheduled at %d ns, and not all is done", k.now)
		}
		e := heap.Pop(&k.events).(event)
		k.now = e.at
		if k.now > int64(limit) {
			return fmt.Errorf("not done after %s", limit)
		}
		switch {
		case e.to == home:
			if k.forgets > 0 && k.r.IntN(300) == 0 {
				k.forgets--
				k.home.Forget()
			}
			for _, reply := range k.home.Handle(e.from, e.packet, false) {
				if reply.To != testhome.Everybody {
					k.send(home, reply.To, reply.Packet)
					continue
				}
				for rank := range k.nodes {
					k.send(home, rank, reply.Packet)
				}
			}
		case e.packet != nil:
			if n := k.nodes[e.to]; !n.dead {
				n.engine.Receive(k.now, e.packet, false)
				n.poll()
			}
		default:
			k.nodes[e.to].poll()
		}
	}
}

type outgoing struct {
	from   int
	packet []byte
}

// reference is the outcome of a collective computed from all contributions by the definition, element by element.
func reference(inputs []*Collective, elements int) (f32 []float32, i32 []int32, err error) {
	n := len(inputs)
	for _, c := range inputs[1:] {
		if len(c.F32) != len(inputs[0].F32) || len(c.I32) != len(inputs[0].I32) || c.Op != inputs[0].Op {
			return nil, nil, &DisagreementError{}
		}
	}
	if inputs[0].I32 != nil {
		out := make([]int32, len(inputs[0].I32))
		for i := range out {
			sum := int64(inputs[0].I32[i])
			for _, c := range inputs[1:] {
				v := int64(c.I32[i])
				switch c.Op {
				case wire.Sum:
					sum += v
				case wire.Max:
					sum = max(sum, v)
				case wire.Min:
					sum = min(sum, v)
				}
			}
			if sum != int64(int32(sum)) {
				return nil, nil, &SaturatedError{First: i / elements * elements}
			}
			out[i] = int32(sum)
		}
		return nil, out, nil
	}
	out := make([]float32, len(inputs[0].F32))
	for from := 0; from < len(out); from += elements {
		to := min(from+elements, len(out))
		e := int32(fixedpoint.Zero)
		for rank := n - 1; rank >= 0; rank-- {
			own := fixedpoint.Exponent(inputs[rank].F32[from:to])
			if own == fixedpoint.NonFinite {
				return nil, nil, &NonFiniteError{Rank: rank, First: from, Last: to}
			}
			e = max(e, own)
		}
		for i := from; i < to && e != fixedpoint.Zero; i++ {
			sum := 0.0
			for _, c := range inputs {
				sum += math.RoundToEven(math.Ldexp(float64(c.F32[i]), fixedpoint.Bits(n)-int(e)))
			}
			out[i] = float32(math.Ldexp(sum, int(e)-fixedpoint.Bits(n)))
		}
	}
	return out, nil, nil
}

// randomCollectives are the same kinds and lengths for every rank, with different values.
func randomCollectives(r *rand.Rand, workers, elements, count int) (perRank [][]*Collective) {
	perRank = make([][]*Collective, workers)
	for range count {
		length := 1 + r.IntN(elements*60)
		if r.IntN(3) == 0 {
			length = 1 + r.IntN(elements*3)
		}
		op, float := wire.Op(r.IntN(3)), r.IntN(3) > 0
		poison, saturate := r.IntN(10) == 0, r.IntN(10) == 0
		for rank := range workers {
			c := &Collective{Op: op}
			if float {
				c.Op, c.F32 = wire.Sum, make([]float32, length)
				for i := range c.F32 {
					c.F32[i] = float32(r.NormFloat64() * math.Ldexp(1, r.IntN(4)*10-20))
				}
				if r.IntN(4) == 0 {
					clear(c.F32[:min(length, elements)])
				}
				if poison && r.IntN(2) == 0 {
					c.F32[r.IntN(length)] = float32(math.Inf(r.IntN(2) - 1))
				}
			} else {
				c.I32 = make([]int32, length)
				for i := range c.I32 {
					c.I32[i] = int32(r.Uint32()) / int32(workers)
				}
				if saturate {
					c.I32[length/2] = math.MaxInt32 / int32(1+r.IntN(2))
				}
			}
			perRank[rank] = append(perRank[rank], c)
		}
	}
	return perRank
}

func clone(c *Collective) *Collective {
	return &Collective{F32: append([]float32(nil), c.F32...), I32: append([]int32(nil), c.I32...), Op: c.Op}
}

func newRack(t testing.TB, r *rand.Rand, workers, elements, window int, firstSeq uint32, perRank [][]*Collective) *rack {
	k := &rack{r: r, spread: 100_000, depth: 1 + r.IntN(4),
		home: testhome.Home{Job: 7, Generation: 3, Cookie: 0xfeedface, Workers: workers, Elements: elements, Window: window}}
	for rank := range workers {
		e, err := New(Config{Job: 7, Generation: 3, Cookie: 0xfeedface, Rank: rank, Workers: workers, Elements: elements, Window: window,
			HomePorts: 1 << r.IntN(4), MinRTO: 1e6, MaxRTO: 50e6, Silence: 20e9, FirstSeq: firstSeq})
		if err != nil {
			t.Fatal(err)
		}
		k.nodes = append(k.nodes, &node{rack: k, rank: rank, engine: e, collectives: perRank[rank]})
	}
	return k
}

// TestRack runs many seeds: every rank must end with the same, bit-exact, right result for every collective, or the same error.
func TestRack(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		if err := runSeed(t, seed); err != nil {
			t.Fatalf("seed %d: %v (run with -rack.first %d -rack.seeds 1)", seed, err, seed)
		}
	}
}

func runSeed(t *testing.T, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0))
	workers, elements, window := 1+r.IntN(6), 32*(1+r.IntN(2)), 1+r.IntN(100)
	if r.IntN(20) == 0 {
		workers = 64
		window = 1 + r.IntN(10)
	}
	if r.IntN(4) == 0 {
		window = 1 + r.IntN(4)
	}
	perRank := randomCollectives(r, workers, elements, 1+r.IntN(6))
	inputs := make([][]*Collective, len(perRank[0]))
	for i := range inputs {
		for rank := range workers {
			inputs[i] = append(inputs[i], clone(perRank[rank][i]))
		}
	}
	firstSeq := []uint32{0, math.MaxUint32 - uint32(r.IntN(300)), 1<<31 - uint32(r.IntN(300)), r.Uint32()}[r.IntN(4)]
	k := newRack(t, r, workers, elements, window, firstSeq, perRank)
	k.loss, k.dup = []float64{0, 0.001, 0.01, 0.1, 0.3}[r.IntN(5)], []float64{0, 0.01, 0.2}[r.IntN(3)]
	k.fullness = []float64{0, 0.01, 0.3}[r.IntN(3)]
	k.forgets = r.IntN(3)
	if workers == 64 {
		k.loss = min(k.loss, 0.01)
	}
	if err := k.run(100 * time.Second); err != nil {
		return err
	}
	for i := range inputs {
		f32, i32, want := reference(inputs[i], elements)
		for rank, n := range k.nodes {
			if err := compare(n.collectives[i], n.errs[i], f32, i32, want); err != nil {
				return fmt.Errorf("rank %d of %d, collective %d: %w", rank, workers, i, err)
			}
		}
	}
	return nil
}

// compare holds one rank's outcome to the reference.
func compare(got *Collective, gotErr error, f32 []float32, i32 []int32, want error) error {
	var nonFinite, wantNonFinite *NonFiniteError
	var saturated, wantSaturated *SaturatedError
	switch {
	case errors.As(want, &wantNonFinite):
		if !errors.As(gotErr, &nonFinite) || *nonFinite != *wantNonFinite {
			return fmt.Errorf("error %v, want %v", gotErr, want)
		}
	case errors.As(want, &wantSaturated):
		if !errors.As(gotErr, &saturated) {
			// A sum that leaves the range and comes back saturates in some orders only; the reference sums in no order.
			return fmt.Errorf("error %v, want saturation", gotErr)
		}
	case gotErr != nil:
		if errors.As(gotErr, &saturated) && got.I32 != nil {
			return nil // left the range on the way, see above
		}
		return gotErr
	default:
		for i, v := range f32 {
			if math.Float32bits(got.F32[i]) != math.Float32bits(v) {
				return fmt.Errorf("element %d is %g, want %g", i, got.F32[i], v)
			}
		}
		for i, v := range i32 {
			if got.I32[i] != v {
				return fmt.Errorf("element %d is %d, want %d", i, got.I32[i], v)
			}
		}
	}
	return nil
}

// TestRackDisagreement: ranks that disagree all see it, and nothing that was issued before suffers.
func TestRackDisagreement(t *testing.T) {
	for seed := uint64(1); seed <= 60; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		workers := 2 + r.IntN(4)
		good := make([][]*Collective, workers)
		odd := r.IntN(workers)
		for rank := range workers {
			bad := &Collective{F32: make([]float32, 5000)}
			if rank == odd {
				switch seed % 4 {
				case 0:
					bad.F32 = bad.F32[:1]
				case 1:
					bad = &Collective{I32: make([]int32, 5000)}
				case 2:
					bad = &Collective{I32: make([]int32, 17), Op: wire.Min}
				case 3:
					bad.F32 = make([]float32, 5033)
				}
			}
			good[rank] = []*Collective{{F32: make([]float32, 3000)}, bad, {I32: make([]int32, 10)}}
		}
		k := newRack(t, r, workers, 32, 1+r.IntN(64), 0, good)
		k.loss = 0.02
		if err := k.run(100 * time.Second); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for rank, n := range k.nodes {
			var disagreement *DisagreementError
			if n.errs[0] != nil || !errors.As(n.errs[1], &disagreement) || !errors.Is(n.errs[1], ErrBroken) || !errors.Is(n.errs[2], ErrBroken) {
				t.Fatalf("seed %d, rank %d: outcomes %v", seed, rank, n.errs)
			}
		}
	}
}

// TestRackDeadRank: when a rank dies, every other one names it and nobody else.
func TestRackDeadRank(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		r := rand.New(rand.NewPCG(seed, 2))
		workers := 2 + r.IntN(5)
		k := newRack(t, r, workers, 32, 16, 0, randomCollectives(r, workers, 32, 2))
		k.loss = 0.02
		dead := r.IntN(workers)
		k.nodes[dead].dead = true
		if err := k.run(100 * time.Second); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for rank, n := range k.nodes {
			if rank == dead {
				continue
			}
			var missing *MissingRanksError
			if !errors.As(n.errs[0], &missing) || len(missing.Ranks) != 1 || missing.Ranks[0] != dead || missing.For < 20*time.Second {
				t.Fatalf("seed %d, rank %d: %v, want rank %d missing", seed, rank, n.errs[0], dead)
			}
		}
	}
}
