package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"spillway/loadtest/rack"
	"spillway/worker"
)

// The parent and a worker process exchange lines of JSON: one question, one
// answer. The first question is a setup, the others are orders.

// setup is how a worker process begins.
type setup struct {
	Invitation rack.Invitation `json:"invitation"`
	Type       string          `json:"dtype"`
	Elements   int             `json:"tensor_elements"`
	Seed       uint64          `json:"seed"`
	// Batch is the most tensors that are reduced in a row.
	Batch int `json:"batch"`
	// Pause is how long the worker waits before each all-reduce: it is a straggler.
	Pause time.Duration `json:"pause,omitzero"` // ns
	// Chance is the part of the all-reduces before which it does; 0 is all.
	Chance float64 `json:"chance,omitempty"`
	// Transport and BusyPoll are how the worker moves packets.
	Transport worker.Transport `json:"transport,omitempty"`
	BusyPoll  time.Duration    `json:"busy_poll,omitzero"` // ns
	// Quorum says that results may lack workers.
	Quorum bool `json:"quorum,omitempty"`
}

// The orders.
const (
	orderFill  = "fill"  // fill tensors for the iterations [First, First+Count)
	orderStart = "start" // all-reduce them, the first at monotonic time At
	orderCheck = "check" // compare them with what they must be
	orderStats = "stats"
	orderLoad  = "load" // make room for Batch tensors of so many Elements, filled with multiples of Input
)

// order is a question to a worker process.
type order struct {
	Do    string `json:"do"`
	First int    `json:"first,omitempty"`
	Count int    `json:"count,omitempty"`
	At    int64  `json:"at,omitempty"` // ns
	// Of orderLoad, which peers of Spillway are given (peer_tensors.go).
	Elements int    `json:"elements,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	Input    string `json:"input,omitempty"`
	Sum      string `json:"sum,omitempty"`
	Bound    string `json:"bound,omitempty"`
}

// answer is what a worker process says. Error is about the collective; a process
// that cannot go on says so on stderr and ends.
type answer struct {
	Error string  `json:"error,omitempty"`
	Spans []span  `json:"spans,omitempty"`
	Wrong []wrong `json:"wrong,omitempty"`
	// Of a job with a quorum: the hash of each checked result and how many elements of it lack this worker.
	Digests []string      `json:"digests,omitempty"`
	Missed  []int         `json:"missed,omitempty"`
	Partial []bool        `json:"partial,omitempty"`
	Stats   *worker.Stats `json:"stats,omitempty"`
	// Versions are those of a peer's parts, in the answer to its setup.
	Versions map[string]string `json:"versions,omitempty"`
}

// span is when an all-reduce began and ended at a worker, in ns of the monotonic
// clock, which all processes of a machine share.
type span struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// wrong says where a result has a wrong bit.
type wrong struct {
	Job       string `json:"job"`
	Rank      int    `json:"rank"`
	Iteration int    `json:"iteration"`
	Element   int    `json:"element"` // the first one
}

// monotonic is the time of CLOCK_MONOTONIC in ns.
func monotonic() (int64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, errors.New("read the monotonic clock: " + err.Error())
	}
	return now.Nano(), nil
}
