package chaos

import (
	"context"
)

func daemonScenarios() []Scenario {
	return []Scenario{
		{
			Name:    "daemon-kill",
			Summary: "spillwayd is killed and started again; its data plane goes on meanwhile",
			Story: "The daemon of the home is killed (SIGKILL) and started again, as systemd would. The aggregator is pinned and goes on summing; workers lose their calls to the daemon and\n" +
				"make them again. No collective may wait for it.",
			Clock: clockRule, needs: needs{tor: true}, restarts: true,
			strike: func(ctx context.Context, s *stage) (incident, error) {
				at := monotonic()
				if err := s.rack.RestartDaemon(ctx); err != nil {
					return incident{}, err
				}
				return struck(at), nil
			},
		},
		{
			Name:    "daemon-upgrade",
			Summary: "spillwayd ends in order and another is started that takes the data plane over (--upgrade), under load",
			Story:   "What an update of the package does: the daemon is ended with SIGTERM and started with --upgrade. The data plane is exchanged only if it is another.",
			Clock:   clockRule, needs: needs{tor: true}, restarts: true,
			strike: func(ctx context.Context, s *stage) (incident, error) {
				at := monotonic()
				if err := s.rack.UpgradeDaemon(ctx); err != nil {
					return incident{}, err
				}
				return struck(at), nil
			},
		},
	}
}
