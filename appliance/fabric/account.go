package fabric

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"

	"spillway/appliance/refusal"
	"spillway/p4/client"
	"spillway/p4/pipeline"
)

// Counters is what the ToR counted of a job.
type Counters struct {
	// Events are by name.
	Events map[string]uint64
	// Preempted counts the job's partial sums that were put out of their slot, Saturated its packets with a sum that left the int32 range.
	Preempted, Saturated uint64
}

// account is what is known of the counters at one index: a job's of one generation, or no job's at index 0. A generation's begin at 0: the
// ToR's counters are set to 0 when it is put there, so that a later daemon that finds it there counts from the same beginning. Guarded by Fabric.mu.
type account struct {
	job        uint16
	generation uint8
	cookie     uint32
	// begun tells that the ToR's counters are this generation's.
	begun bool
	// base is what they were at the beginning, on a target that does not let them be set; last is the latest look.
	base, last pipeline.Counts
	// before was counted before reboots, as far as it was looked at.
	before pipeline.Counts
	// looks tells a look that another one has overtaken.
	looks uint64
}

func (a *account) of(j *job) bool {
	return a.job == j.ID && a.generation == j.Generation && a.cookie == j.Cookie
}

// take is a look at the counters. Where one is less than it was, the ToR has begun again.
func (a *account) take(now pipeline.Counts) {
	a.looks++
	if !now.Follows(a.last) {
		a.before = a.before.Plus(a.last.Since(a.base))
		a.base = pipeline.Counts{}
	}
	a.last = now
}

func (a *account) total() pipeline.Counts { return a.before.Plus(a.last.Since(a.base)) }

// begin is what sets a job's counters to 0, unless they are its own already; f.mu is held. A job that the ToR had before anything was known of it
// was put there by a daemon before this one, and goes on.
func (f *Fabric) begin(j *job) []change {
	a := f.accounts[j.Index]
	if a == nil || !a.of(j) {
		a = &account{job: j.ID, generation: j.Generation, cookie: j.Cookie}
		f.accounts[j.Index] = a
		n := slices.IndexFunc(j.items, func(i pipeline.Item) bool { return i.Table == pipeline.TableJob })
		a.begun = f.have[j.items[n].Key].Value == j.items[n].Value
	}
	if a.begun {
		return nil
	}
	updates, err := pipeline.ZeroCounts(f.info, j.Index)
	if err != nil {
		f.log.Error("the counters cannot be set to 0", "error", err) // a program without counters
		return nil
	}
	changes := make([]change, len(updates))
	for n, u := range updates {
		changes[n] = change{Update: u, kind: u.GetType(), account: a}
	}
	return changes
}

// begun notes accounts that begin with a batch: at 0, or, where the target did not let a counter be set, with what it has counted so far as the base.
func (f *Fabric) begun(ctx context.Context, c *client.Client, unset map[*account]bool) error {
	if len(unset) == 0 {
		return nil
	}
	var indices []uint8
	f.mu.Lock()
	for index, a := range f.accounts {
		if refused, ok := unset[a]; ok && refused {
			indices = append(indices, index)
		}
	}
	f.mu.Unlock()
	var found map[uint8]pipeline.Counts
	if len(indices) > 0 {
		var err error
		if found, err = pipeline.ReadCounts(ctx, c, f.info, indices...); err != nil {
			if c.Err() != nil {
				return err
			}
			f.log.Warn("the ToR's counters can neither be set nor be read", "error", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for index, a := range f.accounts {
		if _, ok := unset[a]; ok {
			a.base, a.last, a.begun = found[index], found[index], true
		}
	}
	return nil
}

// Counters is what the ToR counted of the job with a counter index, or at index 0 of no job's packets: since the job's generation was put
// there, before reboots too, as far as it was looked at (at each check, and by this). While the ToR cannot be asked they are those of the last
// look, and the error, a *refusal.Error, says why.
func (f *Fabric) Counters(ctx context.Context, index uint8) (Counters, error) {
	f.mu.Lock()
	c := f.session
	var err error
	if c == nil {
		err = f.awayRefusal()
	}
	f.mu.Unlock()
	if c != nil {
		if err = f.look(ctx, c, index); err != nil {
			err = refusal.New(codes.Unavailable, refusal.SwitchAway, "the ToR at %s does not say what it counted: %w", f.config.Target, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var counts pipeline.Counts
	if a := f.accounts[index]; a != nil && !f.superseded(index, a) {
		counts = a.total()
	}
	out := Counters{Events: map[string]uint64{}, Preempted: counts.Preempted, Saturated: counts.Saturated}
	for _, e := range pipeline.Events() {
		out.Events[e.String()] = counts.Events[e]
	}
	return out, err
}

// superseded tells whether an account is of a generation before the one that is to have its index; f.mu is held.
func (f *Fabric) superseded(index uint8, a *account) bool {
	for _, j := range f.jobs {
		if j.Index == index && a.of(j) {
			return false
		}
	}
	for _, j := range f.jobs {
		if j.Index == index {
			return true
		}
	}
	return false
}

// look reads counters into their accounts, of all that have begun when no index is given.
func (f *Fabric) look(ctx context.Context, c *client.Client, indices ...uint8) error {
	type asked struct {
		*account
		looks uint64
	}
	accounts := map[uint8]asked{}
	f.mu.Lock()
	for index, a := range f.accounts {
		if a.begun {
			accounts[index] = asked{a, a.looks}
		}
	}
	f.mu.Unlock()
	if len(indices) == 0 {
		for index := range accounts {
			indices = append(indices, index)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	found, err := pipeline.ReadCounts(ctx, c, f.info, indices...)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for index, counts := range found {
		// A look that began later may have ended earlier. What it found is at least as new as this.
		if a, ok := accounts[index]; ok && a.account.looks == a.looks {
			a.take(counts)
		}
	}
	return nil
}
