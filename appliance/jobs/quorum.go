package jobs

import (
	"time"

	"google.golang.org/protobuf/proto"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/store"
	"spillway/p4/pipeline"
	"spillway/wire"
	"spillway/xdp"
)

// DefaultAfter is how long a chunk of a job with a quorum waits for the others, unless the job says otherwise.
const DefaultAfter = 50 * time.Millisecond

// maxLag is what a worker can keep.
const maxLag = 1 << 15

// defaultLag is MaxLag of a job that leaves it open: a ring of four times the slots that it had without a quorum.
func defaultLag(window uint32) uint32 { return min(6*window, maxLag) }

// completeQuorum fills in what a policy about stragglers leaves open. Window and silence are chosen already.
func completeQuorum(spec *v1.JobSpec, f *fault) {
	if spec.Quorum == nil {
		return
	}
	q := proto.CloneOf(spec.Quorum)
	spec.Quorum = q
	switch {
	case spec.Workers == 1:
		f.add("quorum", "a job of one worker waits for nobody: leave it out")
	case q.Workers == spec.Workers:
		f.add("quorum", "%d of %d workers are all: leave it out to wait for all, or ask for at most %d", q.Workers, spec.Workers, spec.Workers-1)
	case q.Workers < 1 || q.Workers > spec.Workers:
		f.add("quorum", "workers: %d: want 1 to %d, one less than the job has", q.Workers, max(spec.Workers, 1)-1)
	}
	// Beyond that the collective would have failed before its sum is released.
	most := DefaultSilence
	if s := spec.Silence; s.CheckValid() == nil && s.AsDuration() > 0 {
		most = min(s.AsDuration(), maxTimer)
	}
	var wrong fault
	if after := completeDuration(&q.After, min(DefaultAfter, most), 1, maxTimer, "after", &wrong); after > most {
		wrong.add("after", "%v is longer than silence, %v, when collectives fail: want less", after, most)
	}
	for _, text := range wrong.texts {
		f.add("quorum", "%s", text)
	}
	if q.MaxLag == 0 {
		q.MaxLag = defaultLag(spec.Window)
	}
	if q.MaxLag > maxLag {
		f.add("quorum", "max_lag: %d chunks: want at most %d", q.MaxLag, maxLag)
	}
}

// lag is what a job's ring must have room for beyond its windows, in chunks. A home that has only some of the chunks hears of each worker less often.
func lag(spec *v1.JobSpec) uint32 {
	if spec.Quorum == nil {
		return 0
	}
	return spec.Quorum.MaxLag + uint32(wire.ShardLag(shards(spec)))
}

// policy is what the aggregator is to do about stragglers.
func policy(spec *v1.JobSpec) xdp.Policy {
	q := spec.GetQuorum()
	return xdp.Policy{Quorum: int(q.GetWorkers()), After: q.GetAfter().AsDuration(), MaxLag: int(lag(spec))}
}

// parent is where the ToR sends complete sums: nil when it publishes them itself. In a job with a quorum only the home publishes; if the ToR did too, it could
// complete a chunk that the home has released without a straggler.
func parent(record *store.Job) *pipeline.Parent {
	if record.Spec.GetQuorum() == nil {
		return nil
	}
	home := record.Running.Home(0)
	return &pipeline.Parent{Addr: home.Addr, Ports: home.Ports, Port: home.Port, MAC: home.MAC, Bits: wire.FullBitmap(size(record))}
}
