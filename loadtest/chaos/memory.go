package chaos

import (
	"context"
)

func memoryScenarios() []Scenario {
	return []Scenario{
		{
			Name:    "aggregator-memory",
			Summary: "the home loses all sums that it holds, under way and kept, and nobody is told",
			Story: "All slots of the aggregator's BPF maps are cleared in place, each under its lock. Workers keep what they sent until they have the result, and keep the last results: the home\n" +
				"must get both from them.",
			Clock: clockRule, Simulated: simCommand, needs: needs{},
			strike: func(_ context.Context, s *stage) (incident, error) {
				at := monotonic()
				if err := s.rack.ForgetSlots(0); err != nil {
					return incident{}, err
				}
				return struck(at), nil
			},
		},
	}
}
