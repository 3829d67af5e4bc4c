package worker

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/wire"
)

// Waiting is how a Join stands that has no parameters yet.
type Waiting struct {
	// Missing are the ranks, of Workers, that have not joined. Workers is 0 as long as the appliance has said nothing.
	Missing []int
	Workers int
	// Since when the job waits or, as long as the appliance has said nothing, since when this Join does.
	Since time.Time
	// Step is what else there is to wait for, in words: what the appliance does, or why it cannot be reached.
	Step string
}

func (w Waiting) String() string {
	var said []string
	if len(w.Missing) > 0 {
		said = append(said, fmt.Sprintf("waiting for %s of %d", describeRanks(w.Missing), w.Workers))
	}
	if w.Step != "" {
		said = append(said, w.Step)
	}
	if said == nil {
		said = append(said, "waiting for the appliance")
	}
	return fmt.Sprintf("%s (since %s)", strings.Join(said, "; "), w.Since.Format(time.RFC3339Nano))
}

// describeRanks is for people.
func describeRanks(ranks []int) string {
	names := make([]string, len(ranks))
	for i, r := range ranks {
		names[i] = strconv.Itoa(r)
	}
	if len(names) == 1 {
		return "rank " + names[0]
	}
	return "ranks " + strings.Join(names, ", ")
}

// ranksOf takes ranks from the wire: sorted, each once, and none that cannot be.
func ranksOf(numbers []uint32) []int {
	var ranks []int
	for _, n := range numbers {
		if n < wire.MaxChildren {
			ranks = append(ranks, int(n))
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// waitingOf is what the appliance said, since the given time if it does not say since when.
func waitingOf(said *v1.Waiting, since time.Time) Waiting {
	w := Waiting{Missing: ranksOf(said.GetMissing()), Workers: int(min(said.GetWorkers(), wire.MaxChildren)), Since: since, Step: said.GetStep()}
	if said.GetSince().IsValid() {
		w.Since = said.GetSince().AsTime().Local()
	}
	return w
}

const (
	// quietFor is how long a Join may take before it says so in the log; loggedEvery is how often it says the same again.
	quietFor    = 3 * time.Second
	loggedEvery = 30 * time.Second
)

// logWaiting is the progress of a Join that was given nobody to tell.
func logWaiting(log *slog.Logger) func(Waiting) {
	begin, last, said := time.Now(), time.Time{}, ""
	return func(w Waiting) {
		now := time.Now()
		text := w.String()
		if now.Sub(begin) < quietFor || text == said && now.Sub(last) < loggedEvery {
			return
		}
		last, said = now, text
		log.Info("joining a job takes its time", "for", now.Sub(begin).Round(time.Second), "what", text)
	}
}
