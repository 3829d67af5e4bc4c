package doctor_test

import (
	"testing"

	"spillway/appliance/doctor"
	"spillway/appliance/observe"
	"spillway/p4/pipeline"
	"spillway/xdp"
)

// TestEveryReasonHasARemedy: those of the compiled aggregator and of the ToR's pipeline, so that a new one is not forgotten here.
func TestEveryReasonHasARemedy(t *testing.T) {
	aggregator, err := xdp.Load(xdp.Config{MaxJobs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer aggregator.Close()
	counters, err := aggregator.UnknownJobCounters()
	if err != nil {
		t.Fatal(err)
	}
	drops := 0
	for name := range counters {
		if !observe.AggregatorDrops(name) {
			continue
		}
		drops++
		if !doctor.Knows(name) {
			t.Errorf("the aggregator drops packets for %s, and nobody says what to do about it", name)
		}
	}
	for event := pipeline.Event(0); event < pipeline.EventsPerJob; event++ {
		if !event.Known() || !observe.TorDrops(event.String()) {
			continue
		}
		drops++
		if !doctor.Knows(event.String()) {
			t.Errorf("the ToR drops packets for %s, and nobody says what to do about it", event)
		}
	}
	if drops < 20 {
		t.Errorf("only %d reasons were found", drops)
	}
}
