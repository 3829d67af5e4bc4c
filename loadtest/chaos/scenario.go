package chaos

import (
	"context"
	"slices"
)

// A Scenario is a kind of fault.
type Scenario struct {
	Name string
	// Summary says what is broken, in a line. Story says what happens in full, and what must hold.
	Summary, Story string
	// Clock says from when to when the time of recovery is.
	Clock string
	// Simulated says by what command the same is shown in the simulated network, if it is.
	Simulated string
	needs     needs
	// restarts says that a daemon is started anew.
	restarts bool
	// workers are how many there are unless somebody says otherwise; 0 is 4.
	workers int
	// prepare is called once the workers reduce, before the first fault; nil: nothing.
	prepare func(context.Context, *stage) error
	// strike makes one fault, and undoes it as far as it is somebody else's business to undo it.
	strike func(context.Context, *stage) (incident, error)
	// measure takes the place of it all in a scenario that compares rather than strikes.
	measure func(context.Context, *campaign) error
}

// needs are what a rack must have for a scenario.
type needs struct {
	tor        bool // a software ToR, with memory for a quarter of what is in flight
	appliances int  // 0 is 1
	hooks      bool // for faults on the workers' links
	outsider   bool // a worker's host that takes no part in the job
	training   bool // the workload is the demo's training
	impatient  bool // workers give up after a second without a result
	quorum     bool // of all but one
}

// inRack is how many appliances the rack has: one, or where several are needed, as many as are asked for and at least those.
func (n needs) inRack(o *Options) int {
	if n.appliances == 0 {
		return 1
	}
	return max(n.appliances, o.Appliances, 1)
}

// An incident is one fault, in ns of the monotonic clock.
type incident struct {
	// at is when the clock of the recovery starts, and until when all was undone that is for others to undo.
	at, until int64
	// recovered is when the job went on, where the scenario knows better than the rule: then a new crew began.
	recovered int64
}

// Scenarios are all there are, in the order of the documentation.
func Scenarios() []Scenario {
	return slices.Concat(switchScenarios(), daemonScenarios(), linkScenarios(), memoryScenarios(), hostileScenarios(), workerScenarios(), homeScenarios(), stragglerScenarios(), soakScenarios())
}

// clockRule is what most scenarios' clocks are.
const clockRule = "from the fault to the end, at its last worker, of the collective that took longest among those in flight from the fault until all was repaired; less the undisturbed median"

// DefaultWorkers is how many workers the scenario has unless somebody says otherwise.
func (s *Scenario) DefaultWorkers() int {
	if s.workers != 0 {
		return s.workers
	}
	return 4
}

// DefaultCount is how many faults are made unless somebody says otherwise; 0, of a scenario that lasts, as many as there is time for.
func (s *Scenario) DefaultCount() int {
	if s.Lasts() {
		return 0
	}
	return 5
}

// Lasts reports whether the scenario is as long as Options.Duration.
func (s *Scenario) Lasts() bool { return s.Name == soakName }
