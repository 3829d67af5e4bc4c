package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"spillway/wire"
	"spillway/worker/engine"
	"spillway/xdp"
)

// MovePlan is where the shards of a scenario's jobs are at first, and what happens to the homes.
type MovePlan struct {
	Homes  int
	Places [][]int // by job: the home of each of its shards
	Moves  []Move
	// Spread is how long it takes at most until a home, the ToR, a worker has heard of a new generation, each for itself.
	Spread int64
	// Direct is the chance that a generation of a job with a share of the ToR goes past it.
	Direct float64
}

// Move is something that happens to a home and makes its shards go elsewhere, in a new generation of their jobs.
type Move struct {
	At   int64
	Home int
	// Busy has it happen to the home of some job's shard, whichever that is then, and not to Home.
	Busy bool
	Kind MoveKind
	// Notice is how long after that the jobs begin to move, and Back how long after that the home may be given shards again.
	Notice, Back int64
}

// MoveKind is what happens to a home.
type MoveKind int

// The kinds.
const (
	// Dies: its memory is gone, and it answers nobody until Back.
	Dies MoveKind = iota
	// Forgets: its memory is gone, and it may go on at once as the home that it is.
	Forgets
	// Drains: it goes on with the generation that it has for a while, perhaps for ever. That is also what a home does that is given up by mistake.
	Drains
	moveKinds
)

// homeAddr is where the n-th home is.
func homeAddr(n int) netip.Addr {
	if n == 0 {
		return netip.AddrFrom4([4]byte{10, 77, 255, 254})
	}
	return netip.AddrFrom4([4]byte{10, 77, 254, byte(n)})
}

// homePort is among those that a ToR takes for Spillway's, directPort is not.
const (
	homePort   = 9700
	directPort = 9736
)

// placement is a job where it is.
type placement struct {
	job    xdp.Job // of the present generation, as the home of its first shard has it
	places []int
	direct bool
}

func (p *placement) homes() []netip.AddrPort {
	homes := make([]netip.AddrPort, len(p.places))
	for shard, place := range p.places {
		homes[shard] = netip.AddrPortFrom(homeAddr(place), p.job.Home.Port())
	}
	return homes
}

// scheduleMoves makes the plan's events.
func (r *run) scheduleMoves() {
	if r.Plan == nil {
		return
	}
	r.unavailable = make(map[int]bool)
	for _, m := range r.Plan.Moves {
		r.fabric.At(m.At, func(now int64) error {
			m := m
			if m.Busy {
				places := r.placed[r.fabric.rand.IntN(len(r.placed))].places
				m.Home = places[r.fabric.rand.IntN(len(places))]
			}
			home := r.homes[m.Home]
			if r.unavailable[m.Home] {
				return nil // something happened to it already
			}
			r.moves++
			r.unavailable[m.Home] = m.Kind != Forgets
			if m.Kind != Drains {
				home.Wipes++
				if err := home.Close(); err != nil {
					return err
				}
				home.dead = m.Kind == Dies
			}
			r.fabric.At(now+m.Notice, func(now int64) error { return r.evacuate(now, m.Home) })
			r.fabric.At(now+m.Notice+m.Back, func(int64) error {
				home.dead = false
				delete(r.unavailable, m.Home)
				return nil
			})
			return nil
		})
	}
}

// evacuate has every job with a shard at a home go on in a new generation, with that shard at another home, or the same if it can be had again.
func (r *run) evacuate(now int64, from int) error {
	var able []int
	for n := range r.homes {
		if !r.unavailable[n] {
			able = append(able, n)
		}
	}
	for n := range r.placed {
		p := &r.placed[n]
		if !slices.Contains(p.places, from) {
			continue
		}
		if len(able) == 0 {
			r.fabric.At(now+1_000_000, func(now int64) error { return r.evacuate(now, from) })
			return nil
		}
		p.places = slices.Clone(p.places)
		for shard, place := range p.places {
			if place == from {
				p.places[shard] = able[r.fabric.rand.IntN(len(able))]
			}
		}
		if err := r.renew(now, n); err != nil {
			return err
		}
	}
	return nil
}

// renew begins a new generation of a job, of which everybody hears in their own time: the homes, the ToR, the workers.
func (r *run) renew(now int64, n int) error {
	p, dice := &r.placed[n], r.fabric.rand
	p.job.Generation++
	p.job.Cookie = dice.Uint32()
	p.job.Resumed = p.job.Policy.Quorum != 0
	p.direct = len(p.places) > 1 || r.Jobs[n].Share != nil && dice.Float64() < r.Plan.Direct
	port := uint16(homePort)
	if p.direct {
		port = directPort
	}
	p.job.Home = netip.AddrPortFrom(homeAddr(p.places[0]), port)
	job, places := p.job, p.places
	soon := func() int64 { return now + dice.Int64N(r.Plan.Spread+1) }
	for _, place := range slices.Compact(slices.Sorted(slices.Values(places))) {
		r.fabric.At(soon(), func(int64) error {
			home := r.homes[place]
			if r.placed[n].job.Generation != job.Generation || home.dead {
				return nil
			}
			return home.Serve(job)
		})
	}
	// Those that have it no more keep the generation before for a while, or until it is over.
	for place, home := range r.homes {
		if _, has := home.jobs[job.ID]; has && !slices.Contains(places, place) && dice.IntN(3) > 0 {
			before := home.jobs[job.ID].Generation
			r.fabric.At(soon()+r.Plan.Spread, func(int64) error {
				if home.jobs[job.ID].Generation != before {
					return nil
				}
				return home.Drop(job.ID)
			})
		}
	}
	if r.tor != nil {
		r.fabric.At(soon(), func(int64) error { return r.tor.Renew(job) })
	}
	next, homes := r.Jobs[n].config(&job, len(places), p.direct), p.homes()
	for _, w := range r.workers[n] {
		w.Resume(r.fabric, soon(), next, homes)
	}
	return nil
}

// config are the job's numbers as its workers see them, of rank 0.
func (j *Job) config(job *xdp.Job, shards int, direct bool) engine.Config {
	cfg := engine.Config{
		Job: job.ID, Generation: job.Generation, Cookie: job.Cookie,
		Workers: j.Workers, Elements: j.Elements, Window: j.Window, WireBits: j.WireBits, Shards: shards,
		Policy: engine.Policy{Quorum: j.Policy.Quorum, After: int64(j.Policy.After), MaxLag: j.Policy.MaxLag},
		MinRTO: 1e6, MaxRTO: 50e6, Silence: int64(timeLimit), FirstSeq: j.FirstSeq,
	}
	if j.Share != nil && !direct {
		cfg.Priority, cfg.Tor = j.Share.Priority, &j.Share.Region
	}
	return cfg
}

// placesOf are the homes that a job's shards have at first.
func (s *Scenario) placesOf(n int) []int {
	if s.Plan == nil {
		return []int{0}
	}
	return s.Plan.Places[n]
}

// sharded is the job as its homes have it when there are several: a home sees a worker only every so often.
func sharded(job xdp.Job, shards int) xdp.Job {
	if job.Policy.Quorum != 0 {
		job.Policy.MaxLag += wire.ShardLag(shards)
	}
	if shards > 1 {
		job.Home = netip.AddrPortFrom(job.Home.Addr(), directPort)
	}
	return job
}

// describe says where the jobs are, for a run that did not end.
func (r *run) describe() string {
	text := ""
	for n, p := range r.placed {
		text += fmt.Sprintf(" job %d in generation %d at %v, direct %v;", n, p.job.Generation, p.places, p.direct)
	}
	return text + fmt.Sprintf(" homes that are away: %v;", slices.Sorted(maps.Keys(r.unavailable)))
}
