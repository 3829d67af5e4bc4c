package vectors

// events are the numbers of the events, by the names that cases and the
// documentation use; an event of a job is counted at job index · 32 + number.
var events = map[string]uint32{
	"claimed": 0, "merged": 1, "completed": 2, "preempts": 3, "spilled": 4, "resend_evicted": 5, "passed": 6,
	"duplicate": 7, "overlap": 8, "freed": 9, "forwarded": 10, "mismatch": 11,
	"unknown_job": 16, "stale": 17, "bad_cookie": 18, "not_member": 19, "bad_bitmap": 20, "bad_slot": 21,
	"bad_header": 22, "bad_direction": 23,
}

// EventsPerJob is the number of counters of a job index.
const EventsPerJob = 32

// EventNames are the names of the events by number; unused numbers have "".
func EventNames() []string {
	names := make([]string, EventsPerJob)
	for name, number := range events {
		names[number] = name
	}
	return names
}
