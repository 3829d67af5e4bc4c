package vectors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Run runs a case on the target and says everything that is not as it has to
// be: step, field, what was expected and what came.
func (f *File) Run(target Target, c *Case) error {
	if err := target.Configure(&f.Fixture); err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	var all []error
	for i := range c.Steps {
		if err := f.step(target, &c.Steps[i]); err != nil {
			all = append(all, fmt.Errorf("step %d (%s): %w", i+1, c.Steps[i].In.summary(), err))
		}
	}
	return errors.Join(all...)
}

func (f *File) step(target Target, s *Step) error {
	x, err := f.Fixture.resolve(s)
	if err != nil {
		return err
	}
	before, err := f.counts(target, s)
	if err != nil {
		return err
	}
	var all []error
	for n := range max(s.Repeat, 1) {
		out, err := target.Inject(x.port, x.frame)
		if err != nil {
			return err
		}
		if err := compare(x.out, out); err != nil {
			if s.Repeat > 1 {
				err = fmt.Errorf("repetition %d: %w", n+1, err)
			}
			all = append(all, err)
			break
		}
	}
	after, err := f.counts(target, s)
	if err != nil {
		return err
	}
	return errors.Join(append(all, f.compareCounts(s, before, after))...)
}

// compareCounts says which counters did not move as they have to.
func (f *File) compareCounts(s *Step, before, after map[string]uint64) error {
	want := f.wanted(s)
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		got := after[name] - before[name]
		if n := want[name] * uint64(max(s.Repeat, 1)); got != n {
			wrong = append(wrong, fmt.Sprintf("%s: moved by %d, not by %d", name, got, n))
		}
	}
	if wrong == nil {
		return nil
	}
	return errors.New("counters: " + strings.Join(wrong, "; "))
}

// counts reads all counters that the step is compared by.
func (f *File) counts(target Target, s *Step) (map[string]uint64, error) {
	counts := map[string]uint64{}
	names := append(slices.Sorted(maps.Keys(f.Fixture.Jobs)), "")
	for _, name := range names {
		index := f.index(name)
		values, err := target.Events(index)
		if err != nil {
			return nil, err
		}
		for event, number := range events {
			counts[eventName(name, event)] = values[number]
		}
		if counts["preempted of "+name], err = target.Preempted(index); err != nil {
			return nil, err
		}
		if s.maySaturate() {
			continue
		}
		if counts["saturated of "+name], err = target.Saturated(index); err != nil {
			return nil, err
		}
	}
	for prefix := range s.Forwarded {
		traffic, err := target.Forwarded(prefix)
		if err != nil {
			return nil, err
		}
		traffic.into(counts, "forward "+prefix.String())
	}
	for name, members := range s.Members {
		for host := range members {
			h := f.Fixture.Hosts[host]
			traffic, err := target.Member(h.Port, h.Address, f.Fixture.Jobs[name].ID)
			if err != nil {
				return nil, err
			}
			traffic.into(counts, "member "+host+" of "+name)
		}
	}
	return counts, nil
}

// wanted is by how much the counters have to move each time.
func (f *File) wanted(s *Step) map[string]uint64 {
	want := map[string]uint64{}
	for name, counts := range s.Events {
		for event, n := range counts {
			want[eventName(name, event)] = n
		}
	}
	for name, n := range s.Preempted {
		want["preempted of "+name] = n
	}
	for name, n := range s.Saturated {
		want["saturated of "+name] = n
	}
	for prefix, traffic := range s.Forwarded {
		traffic.into(want, "forward "+prefix.String())
	}
	for name, members := range s.Members {
		for host, traffic := range members {
			traffic.into(want, "member "+host+" of "+name)
		}
	}
	return want
}

func (t Traffic) into(counts map[string]uint64, name string) {
	counts[name+" packets"], counts[name+" bytes"] = t.Packets, t.Bytes
}

func eventName(job, event string) string {
	if job == "" {
		return "event " + event + " of no job"
	}
	return "event " + event + " of " + job
}

// index is the job's index; 0 counts what belongs to no job.
func (f *File) index(name string) uint8 {
	if name == "" {
		return 0
	}
	return f.Fixture.Jobs[name].Index
}

// maySaturate: whether this step's sums are flagged is the target's choice.
func (s *Step) maySaturate() bool {
	return slices.ContainsFunc(s.Out, func(o Output) bool { return o.MayBeSaturated })
}

// summary names a packet in a message.
func (p *Packet) summary() string {
	parts := []string{"from " + p.From}
	if p.Job != "" {
		parts = append(parts, "job "+p.Job)
	}
	if p.Seq != nil {
		parts = append(parts, fmt.Sprintf("seq %d", *p.Seq))
	}
	return strings.Join(parts, ", ")
}
