package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/loadtest/rack"
	"spillway/p4/client"
)

// simCommand is how the faults of switch and home are shown in the simulated network.
const simCommand = "make sim"

func switchScenarios() []Scenario {
	return []Scenario{
		{
			Name:    "switch-reboot",
			Summary: "the ToR is killed in mid-reduction and started again, without anything in its memory",
			Story: "The software ToR's process is killed (SIGKILL), its links go with it, and it is started again at once: it knows no pipeline, no table, no sum. The daemon must find\n" +
				"it, push the program and write all entries. The workload is the demo's training: it must end with the weights of a training without a network.",
			Clock: clockRule, Simulated: simCommand, needs: needs{tor: true, training: true},
			strike: func(ctx context.Context, s *stage) (incident, error) {
				at := monotonic()
				if err := s.rack.RebootTor(ctx); err != nil {
					return incident{}, err
				}
				return struck(at), nil
			},
		},
		{
			Name:    "switch-memory",
			Summary: "the ToR loses the sums that it holds, and nobody is told",
			Story:   "All slots of the software ToR are cleared in place. Tables stay, so nothing is to be repaired: the workers and the home must make good for what was lost.",
			Clock:   clockRule, Simulated: simCommand, needs: needs{tor: true},
			strike: func(_ context.Context, s *stage) (incident, error) {
				at := monotonic()
				if err := s.rack.WipeTor(rack.Memory{Slots: true}); err != nil {
					return incident{}, err
				}
				return struck(at), nil
			},
		},
		{
			Name:    "switch-wiped",
			Summary: "the ToR's tables are cleared behind the daemon's back, while its program and its control connection stay",
			Story: "Tables and slots of the software ToR are cleared below its P4Runtime server. The ToR then forwards nothing. The daemon finds it at its next comparison\n" +
				"(switch.check, here every " + torCheck.String() + ") and writes what is missing.",
			Clock: clockRule, Simulated: "", needs: needs{tor: true},
			strike: func(_ context.Context, s *stage) (incident, error) {
				at := monotonic()
				if err := s.rack.WipeTor(rack.Memory{Tables: true, Slots: true}); err != nil {
					return incident{}, err
				}
				return struck(at), nil
			},
		},
		{
			Name:    "switch-control-loss",
			Summary: "the P4Runtime connection is cut, for up to three seconds, and comes back",
			Story: "The management link between the daemon and the ToR is down for 0.1 to 3 s. Packets take another way, so that the job must not notice; the daemon must be in sync\n" +
				"with the ToR again afterwards.",
			Clock: clockRule, Simulated: "", needs: needs{tor: true},
			strike: func(ctx context.Context, s *stage) (incident, error) {
				at := monotonic()
				if err := s.rack.SetTorManagement(false); err != nil {
					return incident{}, err
				}
				waited := wait(ctx, s.between(100*time.Millisecond, 3*time.Second))
				if err := errors.Join(waited, s.rack.SetTorManagement(true)); err != nil {
					return incident{}, err
				}
				fault := struck(at)
				return fault, s.rack.AwaitTor(ctx, time.Time{})
			},
		},
		{
			Name:    "switch-takeover",
			Summary: "a second controller becomes primary, deletes all entries, and goes",
			Story: "A second P4Runtime controller takes the primary role with a higher election id, deletes all table entries, and ends its session after up to half a second. The daemon must\n" +
				"become primary again and repair the tables.",
			Clock: clockRule, Simulated: "", needs: needs{tor: true}, strike: takeOver,
		},
	}
}

// between is a random time in a range.
func (s *stage) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rng.Int64N(int64(most-least)+1))
}

// takeOver is a second controller's short life.
func takeOver(ctx context.Context, s *stage) (fault incident, err error) {
	began := time.Now()
	s.elections++
	// The high half decides: the daemon counts the low half up from the highest that it has seen.
	other, err := s.rack.TorController(ctx, client.ElectionID{High: 1<<62 + s.elections, Low: 1})
	if err != nil {
		return fault, fmt.Errorf("a second controller: %w", err)
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	if err := other.WaitPrimary(ctx); err != nil {
		return fault, fmt.Errorf("a second controller: %w", err)
	}
	entries, err := other.Read(ctx, &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{}}})
	if err != nil {
		return fault, fmt.Errorf("a second controller reads the tables: %w", err)
	}
	var deletions []*p4v1.Update
	for _, e := range entries {
		if !e.GetTableEntry().GetIsDefaultAction() {
			deletions = append(deletions, &p4v1.Update{Type: p4v1.Update_DELETE, Entity: e})
		}
	}
	at := monotonic()
	if err := other.Write(ctx, deletions...); err != nil {
		return fault, fmt.Errorf("a second controller deletes all entries: %w", err)
	}
	if err := wait(ctx, s.between(0, 500*time.Millisecond)); err != nil {
		return fault, err
	}
	if err := other.Close(); err != nil {
		return fault, fmt.Errorf("a second controller goes: %w", err)
	}
	fault = struck(at)
	return fault, s.rack.AwaitTor(ctx, began)
}
