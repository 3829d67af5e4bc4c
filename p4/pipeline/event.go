package pipeline

import "fmt"

// Event is what the ToR counts of a packet, for each job: element index*EventsPerJob + event of the counter "events".
type Event uint8

// EventsPerJob is the distance between the events of two jobs in the counter.
const EventsPerJob = 32

// The events. From EventUnknownJob on they are reasons why a packet was refused; of those, EventBadHeader and EventUnknownJob
// are counted for index 0, which is no job's.
const (
	EventClaimed Event = iota
	EventMerged
	EventCompleted
	EventPreempts
	EventSpilled
	EventResendEvicted
	EventPassed
	EventDuplicate
	EventOverlap
	EventFreed
	EventForwarded
	EventMismatch
)

// The reasons of refusals.
const (
	EventUnknownJob Event = 16 + iota
	EventStale
	EventBadCookie
	EventNotMember
	EventBadBitmap
	EventBadSlot
	EventBadHeader
	EventBadDirection
)

var eventNames = map[Event]string{
	EventClaimed: "claimed", EventMerged: "merged", EventCompleted: "completed", EventPreempts: "preempts",
	EventSpilled: "spilled", EventResendEvicted: "resend_evicted", EventPassed: "passed", EventDuplicate: "duplicate",
	EventOverlap: "overlap", EventFreed: "freed", EventForwarded: "forwarded", EventMismatch: "mismatch",
	EventUnknownJob: "unknown_job", EventStale: "stale", EventBadCookie: "bad_cookie", EventNotMember: "not_member",
	EventBadBitmap: "bad_bitmap", EventBadSlot: "bad_slot", EventBadHeader: "bad_header", EventBadDirection: "bad_direction",
}

// Events are all events there are, in order.
func Events() []Event {
	var all []Event
	for e := Event(0); e < EventsPerJob; e++ {
		if _, ok := eventNames[e]; ok {
			all = append(all, e)
		}
	}
	return all
}

// Known tells whether the number is an event's.
func (e Event) Known() bool { return eventNames[e] != "" }

func (e Event) String() string {
	if name, ok := eventNames[e]; ok {
		return name
	}
	return fmt.Sprintf("event %d", uint8(e))
}

// MarshalText gives the event's name, so that maps of events have names in JSON.
func (e Event) MarshalText() ([]byte, error) { return []byte(e.String()), nil }
