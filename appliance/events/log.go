// Package events remembers what happened at the appliance, for people: the last few thousand events in a ring, and those who follow it.
//
// The ring is the only memory there is. A follower has a place in it, not a queue of its own, so a reader that stands still costs nothing and
// holds up nobody; when the ring has overtaken it, it is told how many events it missed.
package events

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
)

// DefaultSize is how many events a log keeps unless told otherwise, some 200 bytes each.
const DefaultSize = 4096

// Log is a ring of events with any number of followers. Its methods may be called from several goroutines at once.
type Log struct {
	mu   sync.Mutex // over what follows; nothing else is locked while it is held
	ring []*v1.Event
	// next is the number of the next event; numbers begin at 1. The event of number n is in ring[n % len(ring)].
	next uint64
	// changed is closed at the next event.
	changed chan struct{}
}

// New is an empty log that keeps so many events; 0 is DefaultSize.
func New(size int) *Log {
	if size <= 0 {
		size = DefaultSize
	}
	return &Log{ring: make([]*v1.Event, size), next: 1, changed: make(chan struct{})}
}

// Add remembers an event of a kind (job-created, worker-lost, …), of a job or of none, about these ranks, with a text in the manner of fmt.Sprintf.
func (l *Log) Add(level v1.EventLevel, kind, job string, ranks []uint32, format string, args ...any) {
	event := &v1.Event{
		Time: timestamppb.New(time.Now()), Level: level, Kind: kind, Job: job, Text: fmt.Sprintf(format, args...), Ranks: slices.Clone(ranks),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	event.Number = l.next
	l.ring[l.next%uint64(len(l.ring))] = event
	l.next++
	close(l.changed)
	l.changed = make(chan struct{})
}

// Stream sends the events that a request asks for, oldest first, and with follow those that happen until ctx ends, which is no error. It ends with the
// error of send, which is called by this goroutine only. What is sent is a copy.
func (l *Log) Stream(ctx context.Context, request *v1.StreamEventsRequest, send func(*v1.Event) error) error {
	next, missed := l.first(request.GetJob(), request.GetLimit()), uint64(0)
	for {
		batch, after, lost, changed := l.read(next, request.GetJob())
		next, missed = after, missed+lost
		for _, event := range batch {
			if ctx.Err() != nil {
				return nil
			}
			event.Lost, missed = missed, 0
			if err := send(event); err != nil {
				return err
			}
		}
		switch {
		case len(batch) > 0:
			continue // until nothing is left, or the ring is ahead again
		case !request.GetFollow():
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// batchSize bounds the copies that a reader holds at a time.
const batchSize = 64

// first is the number of the event to begin with: of those of the job that are kept, the last limit, or with 0 all.
func (l *Log) first(job string, limit uint32) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if limit == 0 {
		return l.oldest()
	}
	number := l.next
	for number > l.oldest() && limit > 0 {
		number--
		if job == "" || l.at(number).Job == job {
			limit--
		}
	}
	return number
}

// read copies up to batchSize events of the job from the number next on. It returns where to go on, how many were overwritten before they could be read,
// and a channel that is closed at the next event.
func (l *Log) read(next uint64, job string) (batch []*v1.Event, after, lost uint64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if oldest := l.oldest(); next < oldest {
		lost, next = oldest-next, oldest
	}
	for ; next < l.next && len(batch) < batchSize; next++ {
		if event := l.at(next); job == "" || event.Job == job {
			batch = append(batch, proto.CloneOf(event))
		}
	}
	return batch, next, lost, l.changed
}

// oldest is the number of the oldest event that is kept, or the next one's when there is none.
func (l *Log) oldest() uint64 {
	if kept := uint64(len(l.ring)); l.next > kept {
		return l.next - kept
	}
	return 1
}

func (l *Log) at(number uint64) *v1.Event { return l.ring[number%uint64(len(l.ring))] }
