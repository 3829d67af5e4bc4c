package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/store"
)

// job is a job in memory. All of it is under Manager.mu, but its name, its id and work.
type job struct {
	name string
	id   uint16
	// record is what the store has. It is replaced, never changed in place: who has work may read it without Manager.mu.
	record *store.Job
	// work is held by whoever changes the store's record and the data plane of the job: a semaphore that one can stop waiting for.
	work chan struct{}
	// hidden: it is being created, nobody sees it. gone: it is being deleted, and nobody may join; deleted: it was.
	hidden, gone, deleted bool
	// waiting are the calls of the ranks that wait for the next generation, by rank; nil: that one does not.
	waiting []*call
	// members are the ranks of the running generation; nil when there is none.
	members []member
	// forming: a generation is being brought into the data plane; stop makes it give up, step says how far it is.
	forming bool
	stop    context.CancelFunc
	step    string
	// deletions are under way or wait for their turn: no generation begins meanwhile.
	deletions int
	// gathered is when last somebody began or ceased to wait for a generation of an elastic job, settling that it is formed of those who wait; concluded
	// is the record with the generation before, when none is running.
	gathered  time.Time
	settling  bool
	concluded *store.Job
	// failure is why the last generation could not be formed.
	failure string
	// gaps are the nodes among its places where the running generation is not, and why; moving is closed when the move is over that stopMoving gives up, and nil when
	// none is; stuck is what is to be said of that, or of why it does not come about.
	gaps       map[string]string
	moving     chan struct{}
	stopMoving context.CancelFunc
	stuck      string
	// unwritten: what is written down may be something else than record.
	unwritten bool
	// torState is the Manager's.
	torState string
	// idle is since when nobody waits or takes part; meaningless while somebody does.
	idle time.Time
	// state and since are what was last shown.
	state v1.JobState
	since time.Time
}

// member is a rank of the running generation. Without a call it is lost, or it has left, or is dead.
type member struct {
	call  *call
	left  bool
	since time.Time
	// dead: the others were told that it does not come back. moved: it has left for the next generation.
	dead, moved bool
	// told: the others know that it is lost.
	told bool
	// description is what the worker says that it is.
	description string
}

func (m *member) present() bool { return m.call != nil }
func (m *member) lost() bool    { return m.call == nil && !m.left && !m.dead }

func newJob(record *store.Job, now time.Time) *job {
	j := &job{
		name: record.Name(), id: record.Allocation.ID, record: record, work: make(chan struct{}, 1), waiting: make([]*call, record.Spec.Workers),
		idle: now, since: record.Since,
	}
	if record.Running != nil {
		j.members = make([]member, len(record.Running.Members))
		for rank, m := range record.Running.Members {
			j.members[rank] = member{left: m.Left, since: now, description: m.Description}
			if m.Left {
				j.members[rank].since = m.Since
			}
		}
	}
	j.state = j.stateNow()
	return j
}

// acquire takes the work of the job.
func (j *job) acquire(ctx context.Context) error {
	select {
	case j.work <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another change of job %q: %w", j.name, ctx.Err())
	}
}

func (j *job) release() { <-j.work }

// member is a rank of the running generation, nil if that has none.
func (j *job) member(rank uint32) *member {
	if int(rank) >= len(j.members) {
		return nil
	}
	return &j.members[rank]
}

// ranks are those for which the condition holds.
func (j *job) ranks(condition func(rank uint32) bool) (ranks []uint32) {
	for rank := range j.record.Spec.Workers {
		if condition(rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// missing are the ranks that the next generation waits for.
func (j *job) missing() []uint32 {
	return j.ranks(func(rank uint32) bool { return j.waiting[rank] == nil })
}

// present are the ranks that take part in the running generation.
func (j *job) present() []uint32 {
	return j.ranks(func(rank uint32) bool { m := j.member(rank); return m != nil && m.present() })
}

// lost are those that took part, and may again.
func (j *job) lost() []uint32 {
	return j.ranks(func(rank uint32) bool { m := j.member(rank); return m != nil && m.lost() })
}

// complete reports whether the next generation can be brought into the data plane: all ranks wait, or as many as an elastic job makes do with. None of them can take part in the
// running one then.
func (j *job) complete() bool {
	if elastic(j.record.Spec) {
		return j.gatheredAll()
	}
	return len(j.missing()) == 0
}

// busy reports whether somebody waits or takes part.
func (j *job) busy() bool { return len(j.missing()) < len(j.waiting) || len(j.present()) > 0 }

// finished reports whether nobody is left whom a drain should wait for: also no lost worker, who may be on the way back from a restart of the daemon.
func (j *job) finished() bool { return !j.busy() && len(j.lost()) == 0 }

func (j *job) grace() time.Duration { return j.record.Spec.Grace.AsDuration() }

func (j *job) stateNow() v1.JobState {
	switch {
	case j.deleted:
		return v1.JobState_JOB_STATE_DELETED
	case j.record.Draining:
		return v1.JobState_JOB_STATE_DRAINING
	case j.members != nil && len(j.present())+len(j.lost()) > 0:
		return v1.JobState_JOB_STATE_RUNNING
	}
	return v1.JobState_JOB_STATE_WAITING
}

// view is the job as the API shows it.
func (j *job) view() *v1.Job {
	record := j.record
	out := &v1.Job{
		Spec:       proto.CloneOf(record.Spec),
		Id:         uint32(record.Allocation.ID),
		Generation: record.Generation,
		State:      j.stateNow(),
		Reason:     j.reason(),
		Allocation: allocation(&record.Allocation),
		Created:    timestamppb.New(record.Created),
		Since:      timestamppb.New(j.since),
		Moves:      record.Moves,
	}
	if record.Running != nil {
		out.Ranks, out.Homes = uint32(size(record)), homesOf(record)
		out.Path = v1.JobPath_JOB_PATH_DIRECT
		if record.Running.Through {
			out.Path = v1.JobPath_JOB_PATH_TOR
		}
	}
	out.Present = uint32(len(j.waiting)-len(j.missing())) + uint32(len(j.present()))
	if !record.Draining && (out.State == v1.JobState_JOB_STATE_WAITING || len(j.missing()) < len(j.waiting)) {
		out.Missing = j.missing()
	}
	if !j.busy() && !j.deleted {
		out.CollectedAt = timestamppb.New(j.idle.Add(j.grace()))
	}
	return out
}

// reason is why the state or the path is what it is.
func (j *job) reason() string {
	var reasons []string
	switch j.stateNow() {
	case v1.JobState_JOB_STATE_WAITING:
		if j.failure != "" {
			reasons = append(reasons, "the last generation could not be formed: "+j.failure)
		}
	case v1.JobState_JOB_STATE_DELETED:
		return ""
	}
	if j.stuck != "" {
		reasons = append(reasons, j.stuck)
	}
	if j.record.Running != nil && j.record.Running.Reason != "" {
		reasons = append(reasons, j.record.Running.Reason)
	}
	if j.record.Running != nil && j.record.Running.Through && j.torState != "" {
		reasons = append(reasons, j.torState)
	}
	if lost := j.lost(); len(lost) > 0 {
		reasons = append(reasons, fmt.Sprintf("%s lost, and may resume", these(lost, "is", "are")))
	}
	if dead := j.dead(); len(dead) > 0 {
		reasons = append(reasons, these(dead, "is dead or gone", "are dead or gone"))
	}
	if step := j.progress(); step != "" {
		reasons = append(reasons, step)
	}
	return strings.Join(reasons, "; ")
}

// progress says what the ranks that wait wait for, when it is something else than ranks that are missing.
func (j *job) progress() string {
	present := j.present()
	switch {
	case j.forming:
		return j.step
	case elastic(j.record.Spec):
		return j.assembling()
	case len(present) > 0 && len(j.missing()) < len(j.waiting):
		waiting := j.ranks(func(rank uint32) bool { return j.waiting[rank] != nil })
		return fmt.Sprintf("%s to join again; %s part in generation %d and must leave first",
			these(waiting, "asks", "ask"), these(present, "still takes", "still take"), j.record.Generation)
	}
	return ""
}

// who is a member of the running generation, for people.
func (j *job) who(rank uint32) string {
	text := fmt.Sprintf("rank %d (%s", rank, j.record.Running.Members[rank].Addr)
	if described := j.members[rank].description; described != "" {
		text += ", " + described
	}
	return text + ")"
}

// these names ranks and says what they do: "rank 2 asks", "ranks 0 1 3 ask".
func these(ranks []uint32, one, several string) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d %s", ranks[0], one)
	}
	return "ranks " + list(ranks) + " " + several
}

// list is ranks as text.
func list(ranks []uint32) string {
	texts := make([]string, 0, len(ranks))
	for _, rank := range slices.Sorted(slices.Values(ranks)) {
		texts = append(texts, strconv.Itoa(int(rank)))
	}
	return strings.Join(texts, " ")
}
