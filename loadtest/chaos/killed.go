package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

func workerScenarios() []Scenario {
	return []Scenario{{
		Name:    "worker-kill",
		Summary: "a worker is killed: the others name it, and the job is formed again with another in its place",
		Story: "A worker's process is killed (SIGKILL) in mid-reduction. The collective of every other must fail with an error that names its rank. Then all join again: a new generation,\n" +
			"in which every sum must be right.",
		Clock: "from the kill to the end, at its last worker, of the first collective of the next generation; less the undisturbed median. It has in it the time after which workers give up, " + impatience.String() + " without a result",
		needs: needs{tor: true, impatient: true}, strike: killWorker,
	}}
}

// killWorker kills one, hears what the others say, and begins again.
func killWorker(ctx context.Context, s *stage) (incident, error) {
	victim, before := s.rng.IntN(s.options.Workers), s.crew
	before.expectFailures()
	at := monotonic()
	before.kill(victim)
	var said map[int]string
	err := before.await(ctx, "the others to name the rank", func() bool {
		said = before.others(victim)
		return len(said) == before.workers-1
	})
	if err != nil {
		return incident{}, err
	}
	for rank, text := range said {
		if want := fmt.Sprintf("rank %d", victim); !strings.Contains(text, want) {
			return incident{}, fmt.Errorf("rank %d does not name rank %d, which was killed: %s", rank, victim, text)
		}
	}
	_ = before.stop() // they have ended, with the error that they said
	next, err := s.newCrew(ctx, nil, nil)
	s.replace(next)
	if err != nil {
		return incident{}, err
	}
	if err := errors.Join(next.permit(forever), next.awaitSteps(ctx, after)); err != nil {
		return incident{}, err
	}
	next.mu.Lock()
	defer next.mu.Unlock()
	return incident{at: at, recovered: next.all[0].end}, nil
}
