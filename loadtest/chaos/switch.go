package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

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
				if err := s.rack.ForgetTorSlots(); err != nil {
					return incident{}, err
				}
				return struck(at), nil
			},
		},
		{
			Name:    "switch-wiped",
			Summary: "the ToR's tables are cleared behind the daemon's back, while its program and its control connection stay",
			Story: "All table entries of the software ToR are deleted over P4Runtime by a client of another role, so that the daemon stays primary and hears nothing of it. The ToR then forwards\n" +
				"nothing. The daemon finds it at its next comparison (switch.check, here every " + torCheck.String() + ") and writes what is missing.",
			Clock: clockRule, needs: needs{tor: true}, strike: wipeTables,
		},
		{
			Name:    "switch-control-loss",
			Summary: "the P4Runtime connection is cut, for up to three seconds, and comes back",
			Story: "The management link between the daemon and the ToR is down for 0.1 to 3 s. Packets take another way, so that the job must not notice; the daemon must be in sync\n" +
				"with the ToR again afterwards.",
			Clock: clockRule, needs: needs{tor: true},
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
			Clock: clockRule, needs: needs{tor: true}, strike: takeOver,
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
	other, err := s.rack.TorController(ctx, "", client.ElectionID{High: 1<<62 + s.elections, Low: 1})
	if err != nil {
		return fault, fmt.Errorf("a second controller: %w", err)
	}
	at := monotonic()
	err = clearTables(ctx, other)
	if err == nil {
		err = wait(ctx, s.between(0, 500*time.Millisecond))
	}
	if err := errors.Join(err, other.Close()); err != nil {
		return fault, fmt.Errorf("a second controller: %w", err)
	}
	fault = struck(at)
	return fault, s.rack.AwaitTor(ctx, began)
}

// wipeTables deletes all entries without taking the primary role from the daemon: a controller of another role need not.
func wipeTables(ctx context.Context, s *stage) (incident, error) {
	other, err := s.rack.TorController(ctx, "saboteur", client.ElectionID{Low: 1})
	if err != nil {
		return incident{}, fmt.Errorf("a controller of another role: %w", err)
	}
	at := monotonic()
	err = clearTables(ctx, other)
	fault := struck(at)
	if err := errors.Join(err, other.Close()); err != nil {
		return incident{}, fmt.Errorf("a controller of another role: %w", err)
	}
	return fault, nil
}

// clearTables deletes all table entries of the ToR, once the controller is primary of its role.
func clearTables(ctx context.Context, c *client.Client) error {
	if err := c.WaitPrimary(ctx); err != nil {
		return err
	}
	entries, err := c.Read(ctx, &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{}}})
	if err != nil {
		return fmt.Errorf("read the tables: %w", err)
	}
	var deletions []*p4v1.Update
	for _, e := range entries {
		if !e.GetTableEntry().GetIsDefaultAction() {
			deletions = append(deletions, &p4v1.Update{Type: p4v1.Update_DELETE, Entity: e})
		}
	}
	if err := c.Write(ctx, deletions...); err != nil {
		return fmt.Errorf("delete all entries: %w", err)
	}
	return nil
}
