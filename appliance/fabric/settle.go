package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/p4/client"
	"spillway/p4/pipeline"
)

// maxBatch is how many updates are written in one call: some 200 kB, which every server takes.
const maxBatch = 1024

// errNotAsBelieved is that the ToR did not take what it should have, if it has what it is thought to.
var errNotAsBelieved = errors.New("the ToR is not as it was thought to be")

// check compares all of the ToR with what is wanted, the pipeline first, and brings it there.
func (f *Fabric) check(ctx context.Context, c *client.Client) error {
	pushed, err := f.ensurePipeline(ctx, c)
	if err != nil {
		return err
	}
	if err := f.inquire(ctx, c, pushed); err != nil {
		return err
	}
	found, err := f.read(ctx, c)
	if err != nil {
		return err
	}
	if err := f.look(ctx, c); err != nil {
		if c.Err() != nil {
			return err
		}
		f.log.Warn("the ToR's counters cannot be read", "error", err) // that is no reason to leave it as it is
	}
	f.mu.Lock()
	believed := f.have
	f.have = found
	if pushed {
		believed = nil
	}
	f.release()
	p := f.plan(true, believed)
	f.mu.Unlock()
	return f.carryOut(ctx, c, p, true)
}

// apply writes what is wanted and was not when the ToR was last looked at. Of that nothing is read.
func (f *Fabric) apply(ctx context.Context, c *client.Client) error {
	f.mu.Lock()
	p := f.plan(false, nil)
	f.mu.Unlock()
	return f.carryOut(ctx, c, p, false)
}

// ensurePipeline pushes the pipeline if the ToR has another or none. Entries stay if the target can do that, and otherwise go.
func (f *Fabric) ensurePipeline(ctx context.Context, c *client.Client) (pushed bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pushing, fmt.Errorf("no answer within %v", pushing))
	defer cancel()
	pushed, err = c.EnsurePipeline(ctx, f.config.Program, true)
	if err != nil && c.Err() == nil && ctx.Err() == nil && status.Code(err) != codes.PermissionDenied {
		f.log.Info("the ToR cannot keep its entries with the new pipeline", "error", err)
		pushed, err = c.EnsurePipeline(ctx, f.config.Program, false)
	}
	if err != nil {
		return false, fmt.Errorf("the ToR does not take the pipeline: %w", err)
	}
	if pushed {
		f.mu.Lock()
		f.totals.pushes++
		f.target.cookie = f.config.Program.Cookie
		f.mu.Unlock()
		f.event(v1.EventLevel_EVENT_LEVEL_INFO, "pipeline-pushed",
			"the ToR at %s had no pipeline or another one; the pipeline with cookie %016x was pushed", f.config.Target, f.config.Program.Cookie)
	}
	return pushed, nil
}

// inquire asks what a session need know only once, and after a push.
func (f *Fabric) inquire(ctx context.Context, c *client.Client, again bool) error {
	f.mu.Lock()
	known := f.target.version != ""
	f.mu.Unlock()
	if known && !again {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	limits, err := pipeline.ReadLimits(ctx, c, f.info)
	if err != nil {
		return err
	}
	version, err := c.Capabilities(ctx)
	if err != nil {
		version = "unknown" // servers before 1.1 have no such call
	}
	readable, err := f.registersReadable(ctx, c)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limits = &limits
	f.target.version, f.target.cookie, f.target.readable = version, f.config.Program.Cookie, readable
	return nil
}

// read is all that the ToR has.
func (f *Fabric) read(ctx context.Context, c *client.Client) (map[pipeline.Key]pipeline.Item, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	items, err := pipeline.ReadItems(ctx, c, f.info)
	if err != nil {
		return nil, err
	}
	found := make(map[pipeline.Key]pipeline.Item, len(items))
	for _, item := range items {
		found[item.Key] = item
	}
	return found, nil
}

// carryOut makes the changes of a plan, and says what came of it. A job of which something was refused is not let in, but what the ToR has of
// it stays: packets of one that is running find their way home.
func (f *Fabric) carryOut(ctx context.Context, c *client.Client, p plan, checked bool) error {
	asBelieved := true
	var repaired []change
	for step, changes := range p.steps {
		if step == openDoors {
			changes = slices.DeleteFunc(changes, func(c change) bool { return c.job != nil && p.trouble[c.job] != "" })
		}
		unset := map[*account]bool{}
		for batch := range slices.Chunk(changes, maxBatch) {
			refused, err := f.write(ctx, c, batch)
			if err != nil {
				return err
			}
			for n, change := range batch {
				switch why := refused[n]; {
				case change.account != nil:
					unset[change.account] = unset[change.account] || why != ""
				case why != "":
					p.trouble.add(change.job, why)
					asBelieved = false
				case change.repair != "":
					repaired = append(repaired, change)
				}
			}
		}
		if err := f.begun(ctx, c, unset); err != nil {
			return err
		}
	}
	f.tell(repaired)
	if !checked && !asBelieved {
		return errNotAsBelieved
	}
	f.conclude(p.jobs, p.trouble, checked)
	return nil
}

// write writes a batch, and notes what the ToR acknowledged. refused has the reasons of what it did not take.
func (f *Fabric) write(ctx context.Context, c *client.Client, batch []change) (refused map[int]string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	updates := make([]*p4v1.Update, len(batch))
	for n, change := range batch {
		updates[n] = change.Update
	}
	err = c.Write(ctx, updates...)
	var each *client.BatchError
	if err != nil && !errors.As(err, &each) {
		return nil, err
	}
	refused = map[int]string{}
	if each != nil {
		for _, e := range each.Errors {
			if change := batch[e.Index]; change.kind != p4v1.Update_DELETE || e.Code != codes.NotFound { // it is gone, that is all
				refused[e.Index] = fmt.Sprintf("%s: %s (%s)", change, e.Message, e.Code)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, change := range batch {
		switch {
		case change.account != nil || refused[n] != "":
		case change.kind == p4v1.Update_DELETE:
			delete(f.have, change.item.Key)
		default:
			f.have[change.item.Key] = change.item
		}
	}
	return refused, nil
}

// tell says what others had done to the ToR and is undone.
func (f *Fabric) tell(repaired []change) {
	if len(repaired) == 0 {
		return
	}
	f.mu.Lock()
	f.totals.repairs += uint64(len(repaired))
	f.mu.Unlock()
	count := map[string]int{}
	var names []string
	for _, change := range repaired {
		count[change.repair]++
		if len(names) < 3 {
			names = append(names, change.String())
		}
	}
	if len(repaired) > len(names) {
		names = append(names, "…")
	}
	var kinds []string
	for _, kind := range []string{"missing", "changed", "foreign"} {
		if count[kind] > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", count[kind], kind))
		}
	}
	f.event(v1.EventLevel_EVENT_LEVEL_WARNING, "switch-repaired",
		"entries of the ToR were not as they should be, and are now: %s (%s)", strings.Join(kinds, ", "), strings.Join(names, "; "))
}

// conclude notes which jobs are in the ToR, and how it stands.
func (f *Fabric) conclude(jobs []*job, trouble troubles, checked bool) {
	var refused []*job
	f.mu.Lock()
	for _, j := range jobs {
		if why := trouble[j]; why != "" {
			if j.refused != why {
				refused = append(refused, j)
			}
			j.refused, j.in, j.held = why, false, true
		} else {
			j.refused, j.in = "", true
		}
	}
	if checked {
		f.target.checked = time.Now()
	}
	reason := trouble[nil]
	for _, j := range f.inOrder() {
		if j.refused != "" && reason == "" {
			reason = fmt.Sprintf("job %d is refused: %s", j.ID, j.refused)
		}
	}
	f.move()
	f.mu.Unlock()
	for _, j := range refused {
		f.event(v1.EventLevel_EVENT_LEVEL_WARNING, "switch-refused",
			"the ToR at %s does not take job %d, generation %d: %s", f.config.Target, j.ID, j.Generation, trouble[j])
	}
	if reason != "" {
		f.become(syncing, reason)
		return
	}
	f.become(inSync, "")
}
