package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// trio is how many appliances the racks of these scenarios have: the least that can lose one and still agree.
const trio = 3

func homeScenarios() []Scenario {
	return []Scenario{
		{
			Name:    "home",
			Summary: "the daemon of a job's home is killed (SIGKILL): the job moves to another of three appliances",
			Story: "The demo's training runs at three appliances. The daemon of the one that the job is homed at is killed in mid-reduction, its aggregator goes on in the kernel with what it has, and the\n" +
				"job goes on at another, in a new generation. Then the daemon is started again. No worker may have an error, and the weights in the end must be those of a training that nobody disturbed.",
			Clock: clockRule, Simulated: "go test ./sim -run TestMoves", needs: needs{tor: true, appliances: trio, training: true}, restarts: true,
			strike: func(ctx context.Context, s *stage) (incident, error) {
				home, err := s.rack.Home(ctx, jobName, -1)
				if err != nil {
					return incident{}, err
				}
				return s.bury(ctx, home, home)
			},
		},
		{
			Name:    "leader",
			Summary: "the daemon of the appliance that leads the three is killed (SIGKILL), home or not",
			Story: "The leader has all jobs' state and programs the ToR; another is elected, which takes both over. Where the job is homed at the leader, it moves besides. Then the daemon is\n" +
				"started again.",
			Clock: clockRule, needs: needs{tor: true, appliances: trio}, restarts: true,
			strike: func(ctx context.Context, s *stage) (incident, error) {
				leader, err := s.rack.Leader(ctx)
				if err != nil {
					return incident{}, err
				}
				home, err := s.rack.Home(ctx, jobName, -1)
				if err != nil {
					return incident{}, err
				}
				if home != leader {
					home = -1
				}
				return s.bury(ctx, leader, home)
			},
		},
		{
			Name:    "host",
			Summary: "all links of the job's home are cut, as when its host loses power, and joined again",
			Story:   "Nothing answers any more, not even with a refusal: that it is gone shows in its silence. The job moves; the links are joined again afterwards.",
			Clock:   clockRule, Simulated: "go test ./sim -run TestMoves", needs: needs{tor: true, appliances: trio},
			strike: strikeHost,
		},
		{
			Name:    "drain",
			Summary: "the job's home is drained (spillctl drain) and used again",
			Story:   "The planned way to take an appliance out: its jobs move while it still answers. What is lost of it is a pause.",
			Clock:   clockRule, Simulated: "go test ./sim -run TestMoves", needs: needs{tor: true, appliances: trio},
			strike: func(ctx context.Context, s *stage) (incident, error) {
				home, err := s.rack.Home(ctx, jobName, -1)
				if err != nil {
					return incident{}, err
				}
				at := monotonic()
				moved, err := s.rack.DrainNode(ctx, home)
				if err != nil {
					return incident{}, err
				}
				if moved != 1 {
					return incident{}, fmt.Errorf("the drain says that %d jobs moved, not 1", moved)
				}
				if _, err := s.rack.Home(ctx, jobName, home); err != nil {
					return incident{}, err
				}
				over := struck(at)
				return over, s.rack.UndrainNode(ctx, home)
			},
		},
		{
			Name:    "etcd",
			Summary: "two of the three members of etcd are killed, and started again: nothing can be decided meanwhile, and sums go on",
			Story: "The daemons of the two appliances that are not the job's home are killed, with their members of etcd. The one that is left has no quorum: nobody leads, no job can be made or moved.\n" +
				"What runs must go on. Then they are started again, a leader is elected, and the job is still there.",
			Clock: clockRule, needs: needs{tor: true, appliances: trio}, restarts: true,
			strike: strikeEtcd,
		},
	}
}

// bury kills an appliance's daemon, waits until the job has left it if it is the home (-1: it is not), and starts it again.
func (s *stage) bury(ctx context.Context, index, home int) (incident, error) {
	at := monotonic()
	if err := s.rack.KillDaemon(index); err != nil {
		return incident{}, err
	}
	if _, err := s.rack.Home(ctx, jobName, home); err != nil {
		return incident{}, err
	}
	over := struck(at)
	return over, errors.Join(s.rack.StartDaemon(ctx, index), s.rack.AwaitNode(ctx, index))
}

// strikeHost cuts the home off from everything.
func strikeHost(ctx context.Context, s *stage) (incident, error) {
	home, err := s.rack.Home(ctx, jobName, -1)
	if err != nil {
		return incident{}, err
	}
	at := monotonic()
	restore, err := s.rack.Isolate(home)
	if err != nil {
		return incident{}, err
	}
	_, err = s.rack.Home(ctx, jobName, home)
	over := struck(at)
	return over, errors.Join(err, restore(), s.rack.AwaitNode(ctx, home))
}

// withoutQuorum is how long there is none.
const withoutQuorum = 2 * time.Second

// strikeEtcd kills the members that are not the home's.
func strikeEtcd(ctx context.Context, s *stage) (incident, error) {
	home, err := s.rack.Home(ctx, jobName, -1)
	if err != nil {
		return incident{}, err
	}
	at := monotonic()
	for index := range s.rack.Appliances() {
		if index != home {
			if err := s.rack.KillDaemon(index); err != nil {
				return incident{}, err
			}
		}
	}
	if err := wait(ctx, withoutQuorum); err != nil {
		return incident{}, err
	}
	var all []error
	for index := range s.rack.Appliances() {
		if index != home {
			all = append(all, s.rack.RunDaemon(index))
		}
	}
	if err := errors.Join(all...); err != nil {
		return incident{}, err
	}
	for index := range s.rack.Appliances() {
		all = append(all, s.rack.AwaitNode(ctx, index))
	}
	if _, err := s.rack.Home(ctx, jobName, -1); err != nil {
		all = append(all, err)
	}
	return struck(at), errors.Join(all...)
}
