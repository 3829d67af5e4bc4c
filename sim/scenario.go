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
	"spillway/worker/engine"
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
	Tor    *TorPlan // nil: the switch only forwards
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
	Aggregator *xdp.Aggregator
	Planes     map[int]*dataplane.Dataplane // by limit: a ToR each
	Job        uint16                       // the lower of the two ids that a run may use
}

// NewKit loads ToRs for runs with an aggregator that others may use at the same time with other ids.
func NewKit(a *xdp.Aggregator, job uint16) (*Kit, error) {
	k := &Kit{Aggregator: a, Planes: make(map[int]*dataplane.Dataplane), Job: job}
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
	Frames, Lost, Duplicated, Reordered, Marked, Wipes, Reboots int
	Chunks, TorChunks                                           uint64 // RESULTs of workers, and those of them that the ToR summed
	Resends, Probes, SolicitAnswers                             uint64
	Partial, Early                                              uint64 // of Chunks: without everybody; and kept for a chunk that was not sent yet
	Time                                                        time.Duration
	Events, HomeEvents                                          map[string]uint64 // of the ToR, nil without one; of the home
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
	home    *Home
	tor     *Tor
	workers [][]*Worker // by job and rank
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
			if err := check(r.workers[n], i, j.Elements); err != nil {
				return o, fmt.Errorf("job %d: %w", n, err)
			}
		}
	}
	return o, nil
}

// build puts all nodes on a fabric. What is there of it is returned with an error, too.
func (s *Scenario) build(k *Kit) (*run, error) {
	r := &run{Scenario: s, fabric: NewFabric(rand.New(rand.NewPCG(s.Seed, 0xfab)), s.Faults)}
	var jobs []xdp.Job
	for n, j := range s.Jobs {
		jobs = append(jobs, j.identity(s.Seed, n, k.Job+uint16(n)))
	}
	home, err := NewHome(k.Aggregator, jobs...)
	if err != nil {
		return r, err
	}
	r.home = home
	r.fabric.Add(home)
	if s.Tor != nil {
		if r.tor, err = NewTor(k.Planes[s.Tor.Elements], home.Addr()); err != nil {
			return r, err
		}
		r.fabric.Switch, r.fabric.Longer = r.tor, map[netip.Addr]int64{home.Addr(): s.Tor.Longer}
	}
	for n, j := range s.Jobs {
		if r.tor != nil {
			r.tor.Serve(jobs[n], j.Share)
		}
		var workers []*Worker
		for rank := range j.Workers {
			w, err := j.worker(&jobs[n], n, rank, s.Burst, timeLimit)
			if err != nil {
				return r, err
			}
			if r.tor != nil {
				r.tor.Link(w.Addr())
			}
			r.fabric.Add(w, jobs[n].Group)
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
	if r.tor == nil {
		return r, nil
	}
	for _, b := range s.Tor.Reboots {
		r.fabric.At(b.At, func(int64) error { return r.tor.Reboot(b.Back > 0) })
		r.fabric.At(b.At+b.Back, func(int64) error { return r.tor.Push() })
	}
	return r, r.tor.Push()
}

func (r *run) close() error {
	var errs []error
	if r.tor != nil {
		errs = append(errs, r.tor.Close())
	}
	if r.home != nil {
		errs = append(errs, r.home.Close())
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
		Marked: f.Marked, Wipes: r.home.Wipes, Time: time.Duration(f.now),
	}
	for _, workers := range r.workers {
		for _, w := range workers {
			stats := w.engine.Stats()
			o.Chunks += stats.Results
			o.TorChunks += stats.TorResults
			o.Partial += stats.PartialResults
			o.Early += stats.EarlyResults
			o.Resends += stats.Resends
			o.Probes += stats.Probes
			o.SolicitAnswers += stats.SolicitAnswers
		}
	}
	var err error
	if o.HomeEvents, err = r.home.Events(); err != nil {
		return o, errors.Join(failure, err)
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
	counters, err := r.home.Counters()
	return o, fmt.Errorf("%w;%s home %v %v; tor %v", failure, text, counters, err, o.Events)
}

// Add sums outcomes up; Time is the longest.
func (o *Outcome) Add(p Outcome) {
	o.Frames += p.Frames
	o.Lost += p.Lost
	o.Duplicated += p.Duplicated
	o.Reordered += p.Reordered
	o.Marked += p.Marked
	o.Wipes += p.Wipes
	o.Reboots += p.Reboots
	o.Chunks += p.Chunks
	o.TorChunks += p.TorChunks
	o.Partial += p.Partial
	o.Early += p.Early
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

// worker makes the engine of a rank of job n as a node.
func (j *Job) worker(job *xdp.Job, n, rank, burst int, silence time.Duration) (*Worker, error) {
	cfg := engine.Config{
		Job: job.ID, Generation: job.Generation, Cookie: job.Cookie,
		Rank: rank, Workers: j.Workers, Elements: j.Elements, Window: j.Window, Shards: 1,
		Policy: engine.Policy{Quorum: j.Policy.Quorum, After: int64(j.Policy.After), MaxLag: j.Policy.MaxLag},
		MinRTO: 1e6, MaxRTO: 50e6, Silence: int64(silence), FirstSeq: j.FirstSeq,
	}
	if j.Share != nil {
		cfg.Priority, cfg.Tor = j.Share.Priority, &j.Share.Region
	}
	return NewWorker(workerAddr(n, rank), workerPort, job.Home, job.HomePorts, burst, cfg)
}
