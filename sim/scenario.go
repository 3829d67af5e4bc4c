package sim

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"spillway/p4/softtor/dataplane"
	"spillway/xdp"
)

// Scenario is everything that a seed decides before the run: the jobs, the
// faults, what is reduced, and what happens meanwhile.
type Scenario struct {
	Seed   uint64
	Faults Faults
	Burst  int
	Jobs   []*Job
	// Wipes are the times at which the home forgets everything.
	Wipes  []int64
	Pauses []Pause
	Tor    *TorPlan  // nil: the switch only forwards
	Plan   *MovePlan // nil: there is one home, and nothing moves

	watch func(after int64) // is told how long each worker took to its first RESULT in a new generation
}

// TorPlan is what happens to the ToR.
type TorPlan struct {
	Elements int   // limit of what rests in it: one of TorElements
	Longer   int64 // how much longer the home's link takes than the others
	Reboots  []Reboot
}

// Reboot is when a ToR forgets its sums, and if Back is not 0 its tables too, which are written again that much later.
type Reboot struct{ At, Back int64 }

// TorElements are the limits of the ToRs that scenarios run on.
var TorElements = []int{64, 832}

// Kit are the programs that scenarios run on, one run at a time.
type Kit struct {
	Aggregator *xdp.Aggregator              // the first home's
	Others     []*xdp.Aggregator            // of further homes
	Planes     map[int]*dataplane.Dataplane // by limit: a ToR each
	Job        uint16                       // the lower of the two ids that a run may use
	// Tree is the aggregator of all nodes of a Tree, where the job of a run has mostNodes ids from TreeJob on: the nodes' addresses and ports keep them apart.
	Tree    *xdp.Aggregator
	TreeJob uint16
}

// NewKit loads ToRs for runs with aggregators that others may use at the same time with other ids; a scenario with several homes needs one for each.
func NewKit(job uint16, a *xdp.Aggregator, others ...*xdp.Aggregator) (*Kit, error) {
	k := &Kit{Aggregator: a, Others: others, Planes: make(map[int]*dataplane.Dataplane), Job: job}
	for _, elements := range TorElements {
		plane, err := dataplane.Load(dataplane.Config{Slots: torSlots, Elements: elements})
		if err != nil {
			return nil, errors.Join(err, k.Close())
		}
		k.Planes[elements] = plane
	}
	return k, nil
}

// torSlots is the memory of a ToR.
const torSlots = 256

// Close unloads the ToRs.
func (k *Kit) Close() error {
	var errs []error
	for _, plane := range k.Planes {
		errs = append(errs, plane.Close())
	}
	return errors.Join(errs...)
}

// limits of a run: simulated time, far beyond what any scenario needs.
const timeLimit = 10 * time.Minute

// Outcome is what a run had to go through.
type Outcome struct {
	Frames, Lost, Duplicated, Reordered, Marked, Wipes, Moves, Reboots int
	Chunks, TorChunks                                                  uint64 // RESULTs of workers, and those of them that the ToR summed
	Resends, Probes, SolicitAnswers                                    uint64
	Partial, Early                                                     uint64 // of Chunks: without everybody; and kept for a chunk that was not sent yet
	PastTor                                                            uint64 // chunks that went past the ToR while a rank was missing
	Time                                                               time.Duration
	Events, HomeEvents                                                 map[string]uint64 // of the ToR, nil without one; of the home
}

// Pause is when a worker stops for a while: what arrives meanwhile waits in its sockets, as far as there is room.
type Pause struct {
	Job, Rank int
	At, For   int64
}

// run is a scenario on the fabric.
type run struct {
	*Scenario
	fabric  *Fabric
	homes   []*Home
	placed  []placement // by job
	tor     *Tor
	workers [][]*Worker // by job and rank

	unavailable map[int]bool // homes that are not to be given shards
	moves       int
}

// Run plays the scenario, and returns an error if any worker ends with anything but the right result.
func (s *Scenario) Run(k *Kit) (o Outcome, err error) {
	r, err := s.build(k)
	if err != nil {
		return o, errors.Join(err, r.close())
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for n, j := range s.Jobs {
		for rank, w := range r.workers[n] {
			for i, c := range j.Collectives {
				r.fabric.At(j.Start[rank][i], func(now int64) error {
					if err := w.Submit(now, c.issue(j, rank)); err != nil {
						return err
					}
					r.fabric.Kick(w.Addr(), now)
					return nil
				})
			}
		}
	}
	err = r.fabric.Run(timeLimit, r.done)
	if o, err = r.outcome(err); err != nil {
		return o, err
	}
	for n, j := range s.Jobs {
		for i, c := range j.Collectives {
			check := c.check
			if j.Policy.Quorum != 0 {
				check = r.released(n, c)
			}
			if err := check(r.workers[n], i, j); err != nil {
				return o, fmt.Errorf("job %d: %w", n, err)
			}
		}
	}
	return o, nil
}

// build puts all nodes on a fabric. What is there of it is returned with an error, too.
func (s *Scenario) build(k *Kit) (*run, error) {
	r := &run{Scenario: s, fabric: NewFabric(rand.New(rand.NewPCG(s.Seed, 0xfab)), s.Faults)}
	if err := r.addHomes(k); err != nil {
		return r, err
	}
	if s.Tor != nil {
		var addrs []netip.Addr
		r.fabric.Longer = make(map[netip.Addr]int64)
		for _, home := range r.homes {
			addrs = append(addrs, home.Addr())
			r.fabric.Longer[home.Addr()] = s.Tor.Longer
		}
		tor, err := NewTor(k.Planes[s.Tor.Elements], addrs...)
		if err != nil {
			return r, err
		}
		r.tor, r.fabric.Switch = tor, tor
	}
	for n, j := range s.Jobs {
		p := &r.placed[n]
		if r.tor != nil {
			r.tor.Serve(p.job, j.Share)
		}
		var workers []*Worker
		results := make(taken)
		for rank := range j.Workers {
			cfg := j.config(&p.job, len(p.places), p.direct)
			cfg.Rank = rank
			w, err := NewWorker(workerAddr(n, rank), workerPort, p.homes(), j.HomePorts, s.Burst, cfg)
			if err != nil {
				return r, err
			}
			w.wanders, w.taken, w.recovered = s.Plan != nil, results, s.watch
			if r.tor != nil {
				r.tor.Link(w.Addr())
			}
			r.fabric.Add(w, p.job.Group)
			workers = append(workers, w)
		}
		r.workers = append(r.workers, workers)
	}
	for _, p := range s.Pauses {
		r.fabric.At(p.At, func(int64) error {
			r.workers[p.Job][p.Rank].Pause(p.At + p.For)
			return nil
		})
	}
	for _, at := range s.Wipes {
		r.fabric.At(at, r.wipe)
	}
	r.scheduleMoves()
	if r.tor == nil {
		return r, nil
	}
	for _, b := range s.Tor.Reboots {
		r.fabric.At(b.At, func(int64) error { return r.tor.Reboot(b.Back > 0) })
		r.fabric.At(b.At+b.Back, func(int64) error { return r.tor.Push() })
	}
	return r, r.tor.Push()
}

// addHomes makes the homes, with the jobs that they have.
func (r *run) addHomes(k *Kit) error {
	aggregators := append([]*xdp.Aggregator{k.Aggregator}, k.Others...)
	homes := 1
	if r.Plan != nil {
		homes = r.Plan.Homes
	}
	for n := range homes {
		home := NewHome(aggregators[n], homeAddr(n))
		r.homes = append(r.homes, home)
		r.fabric.Add(home)
	}
	for n, j := range r.Jobs {
		places := r.placesOf(n)
		job := sharded(j.identity(r.Seed, n, k.Job+uint16(n)), len(places))
		job.Home = netip.AddrPortFrom(homeAddr(places[0]), job.Home.Port())
		r.placed = append(r.placed, placement{job: job, places: places, direct: len(places) > 1})
		for _, place := range places {
			if err := r.homes[place].Serve(job); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) close() error {
	var errs []error
	if r.tor != nil {
		errs = append(errs, r.tor.Close())
	}
	for _, home := range r.homes {
		errs = append(errs, home.Close())
	}
	return errors.Join(errs...)
}

func (r *run) done() bool {
	for n, j := range r.Jobs {
		if slices.ContainsFunc(r.workers[n], func(w *Worker) bool { return len(w.Finished) < len(j.Collectives) }) {
			return false
		}
	}
	return true
}

// outcome counts, and puts how far everybody came into the error of a run that did not end.
func (r *run) outcome(failure error) (Outcome, error) {
	f := r.fabric
	o := Outcome{
		Frames: f.Frames, Lost: f.Lost, Duplicated: f.Duplicated, Reordered: f.Reordered,
		Marked: f.Marked, Moves: r.moves, Time: time.Duration(f.now),
	}
	for _, workers := range r.workers {
		for _, w := range workers {
			stats := w.engine.Stats()
			o.Chunks += stats.Results
			o.TorChunks += stats.TorResults
			o.Partial += stats.PartialResults
			o.Early += stats.EarlyResults
			o.PastTor += stats.PastTor
			o.Resends += stats.Resends
			o.Probes += stats.Probes
			o.SolicitAnswers += stats.SolicitAnswers
		}
	}
	var counters []map[string]uint64
	for _, home := range r.homes {
		events, err := home.Events()
		all, err2 := home.Counters()
		if err := errors.Join(err, err2); err != nil {
			return o, errors.Join(failure, err)
		}
		o.Wipes += home.Wipes
		o.HomeEvents = added(o.HomeEvents, events)
		counters = append(counters, all...)
	}
	if r.tor != nil {
		events, err := r.tor.Events()
		if err != nil {
			return o, errors.Join(failure, err)
		}
		o.Reboots, o.Events = r.tor.Reboots, events
	}
	if failure == nil {
		return o, nil
	}
	var text string
	for n, workers := range r.workers {
		text += fmt.Sprintf(" job %d, of %d collectives:", n, len(r.Jobs[n].Collectives))
		for rank, w := range workers {
			text += fmt.Sprintf(" rank %d finished %d %+v;", rank, len(w.Finished), *w.engine.Stats())
		}
	}
	return o, fmt.Errorf("%w;%s%s homes %v; tor %v", failure, text, r.describe(), counters, o.Events)
}

// Add sums outcomes up; Time is the longest.
func (o *Outcome) Add(p Outcome) {
	o.Frames += p.Frames
	o.Lost += p.Lost
	o.Duplicated += p.Duplicated
	o.Reordered += p.Reordered
	o.Marked += p.Marked
	o.Wipes += p.Wipes
	o.Moves += p.Moves
	o.Reboots += p.Reboots
	o.Chunks += p.Chunks
	o.TorChunks += p.TorChunks
	o.Partial += p.Partial
	o.Early += p.Early
	o.PastTor += p.PastTor
	o.Resends += p.Resends
	o.Probes += p.Probes
	o.SolicitAnswers += p.SolicitAnswers
	o.Time = max(o.Time, p.Time)
	o.Events, o.HomeEvents = added(o.Events, p.Events), added(o.HomeEvents, p.HomeEvents)
}

func added(to, events map[string]uint64) map[string]uint64 {
	if to == nil && events != nil {
		to = make(map[string]uint64)
	}
	for name, n := range events {
		to[name] += n
	}
	return to
}

// Equal compares outcomes.
func (o Outcome) Equal(p Outcome) bool {
	if !maps.Equal(o.Events, p.Events) || !maps.Equal(o.HomeEvents, p.HomeEvents) {
		return false
	}
	o.Events, p.Events, o.HomeEvents, p.HomeEvents = nil, nil, nil, nil
	return fmt.Sprint(o) == fmt.Sprint(p)
}
