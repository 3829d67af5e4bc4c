package vectors_test

import (
	"testing"

	"spillway/p4/pipeline"
	"spillway/p4/vectors"
)

// TestEventNames: the cases and the controller call the events the same.
func TestEventNames(t *testing.T) {
	if vectors.EventsPerJob != pipeline.EventsPerJob {
		t.Errorf("%d events a job, the controller reads %d", vectors.EventsPerJob, pipeline.EventsPerJob)
	}
	names := vectors.EventNames()
	for _, e := range pipeline.Events() {
		if names[e] != e.String() {
			t.Errorf("event %d is %q here, and %q there", e, names[e], e)
		}
		names[e] = ""
	}
	for number, name := range names {
		if name != "" {
			t.Errorf("event %d, %s, is not known to the controller", number, name)
		}
	}
}
