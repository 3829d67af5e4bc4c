package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	soakName = "soak"
	// DefaultSoak is how long a soak lasts unless somebody says otherwise.
	DefaultSoak = time.Minute
	// restartShare of a soak is the part in which daemons may be restarted: what one leaks must have time to show afterwards.
	restartShare = 4
	// quiet is how long a rack is left alone before stock is taken: connections time out meanwhile.
	quiet = 3 * time.Second
)

func soakScenarios() []Scenario {
	return []Scenario{{
		Name:    soakName,
		Summary: "random faults of all kinds for --duration, and then nothing may have leaked",
		Story: "One rack with all that the other scenarios need; faults of all kinds in random order, without a pause longer than it takes the job to go on. Daemons are restarted only in the first quarter. Before the\n" +
			"job is admitted and after it was deleted stock is taken: files, goroutines and resident memory of each daemon (its own metrics), BPF maps, programs and pins, and what the ledger has given away. At last the rack is taken\n" +
			"down, and this process must hold no more files, goroutines and namespaces than before. count in the report is the number of faults made; --count is the most there may be, 0 any number. figures: survived by kind, and the usage at the end.",
		Clock: clockRule + "; for each kind as its own scenario has it", needs: needs{tor: true, hooks: true, outsider: true}, measure: soak,
	}}
}

// soak runs until its time is over, or a fault was not survived.
func soak(ctx context.Context, c *campaign) (err error) {
	before, err := ownFootprint()
	if err != nil {
		return err
	}
	if err := c.soak(ctx); err != nil {
		return err
	}
	for range 50 { // goroutines that were told to end may take a moment
		var now footprint
		if now, err = ownFootprint(); err != nil {
			return err
		}
		leaks := now.leaks(before)
		if leaks == nil {
			return nil
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return errors.Join(err, errors.New(strings.Join(leaks, "; ")))
		}
	}
	now, err := ownFootprint()
	for _, leak := range now.leaks(before) {
		c.report.fail("%s", leak)
	}
	return err
}

// soak is one rack's life.
func (c *campaign) soak(ctx context.Context) (err error) {
	s, err := newBareStage(ctx, c.options, c.scenario.needs, c.rng)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.close())
		c.report.WrongSums += s.wrong
		c.report.Steps += s.complete
		if s.wrongAt != "" {
			c.report.fail("a wrong sum: %s", s.wrongAt)
		}
	}()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() { // ends with the stage
		select {
		case err := <-s.rack.Failed():
			fail(err)
		case <-ctx.Done():
		}
	}()
	start, err := takeStock(ctx, s.rack)
	if err != nil {
		return err
	}
	if err := s.admit(ctx); err != nil {
		return err
	}
	if err := c.begin(ctx, s); err != nil {
		return err
	}
	if s.attack, err = newAttack(ctx, s); err != nil {
		return err
	}
	most := c.options.Count
	c.report.Count = 0
	began := time.Now()
	var settled *usage // of the daemons as they are after the last restart
	for failed := false; !failed && (most == 0 || c.report.Count < most) && time.Since(began) < c.options.Duration; {
		restarts := time.Since(began) < c.options.Duration/restartShare
		if !restarts && settled == nil {
			u, err := takeStock(ctx, s.rack)
			if err != nil {
				return err
			}
			settled = &u
		}
		failed, err = c.soakOnce(ctx, s, restarts)
		if err != nil {
			return err
		}
	}
	return c.endSoak(ctx, s, &start, settled)
}

// soakOnce makes one fault of a random kind. failed: the job did not go on.
func (c *campaign) soakOnce(ctx context.Context, s *stage, restarts bool) (failed bool, err error) {
	kinds := c.soakKinds(restarts)
	kind := kinds[c.rng.IntN(len(kinds))]
	c.scenario = &kind
	c.report.Count++
	took, err := c.round(ctx, s, 0)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return true, cause
		}
		c.report.fail("fault %d, %s: %v", c.report.Count, kind.Name, err)
		c.options.progress("soak %d, %s: NOT survived: %v", c.report.Count, kind.Name, err)
		return true, nil
	}
	c.report.survive(took)
	c.report.figure("survived_"+strings.ReplaceAll(kind.Name, "-", "_"), c.report.Figures["survived_"+strings.ReplaceAll(kind.Name, "-", "_")]+1)
	c.options.progress("soak %d, %s: went on after %.1f ms", c.report.Count, kind.Name, milliseconds(took))
	return false, nil
}

// soakKinds are the kinds of faults that a soak's rack has what they need for.
func (c *campaign) soakKinds(restarts bool) (kinds []Scenario) {
	for _, s := range Scenarios() {
		switch n := s.needs; {
		case s.strike == nil, n.impatient, n.quorum, n.appliances > max(c.options.Appliances, 1), s.restarts && !restarts:
			continue
		}
		kinds = append(kinds, s)
	}
	return kinds
}

// endSoak deletes the job, waits a little, and compares what the rack holds with what it held.
func (c *campaign) endSoak(ctx context.Context, s *stage, start, settled *usage) error {
	if err := s.crew.stop(); err != nil && len(c.report.Failures) == 0 {
		c.report.fail("the workers at the end: %v", err)
	}
	s.replace(nil)
	if err := errors.Join(s.rack.RemoveJob(ctx, jobName), wait(ctx, quiet)); err != nil {
		return fmt.Errorf("delete the job: %w", err)
	}
	end, err := takeStock(ctx, s.rack)
	if err != nil {
		return err
	}
	leaks := end.leaks(start)
	if settled != nil {
		settled.capacity, settled.bpf = end.capacity, end.bpf // the job was there
		leaks = append(leaks, end.leaks(settled)...)
	}
	for _, leak := range leaks {
		c.report.fail("%s", leak)
	}
	for i, d := range end.daemons {
		c.report.figure(fmt.Sprintf("daemon_%d_files", i), d.files)
		c.report.figure(fmt.Sprintf("daemon_%d_goroutines", i), d.goroutines)
		c.report.figure(fmt.Sprintf("daemon_%d_resident_mb", i), d.memory/1e6)
	}
	c.report.figure("bpf_maps", float64(end.bpf.Maps))
	c.report.figure("bpf_programs", float64(end.bpf.Programs))
	c.report.figure("bpf_pins", float64(end.bpf.Pins))
	return nil
}
