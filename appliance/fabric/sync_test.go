package fabric_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"spillway/appliance/fabric"
	"spillway/appliance/refusal"
	"spillway/p4/pipeline"
)

// A ToR that has nothing gets the pipeline and all entries; the same again by another daemon writes nothing.
func TestInitialSync(t *testing.T) {
	tor := newTor(t)
	jobs := []pipeline.Job{newJob(1, 3), newJob(2, 9)}
	first := prepare(t, tor.target(), nil)
	for _, j := range jobs {
		first.SetJob(j)
	}
	first.begin()
	for _, j := range jobs {
		first.settled(j.ID, j.Generation)
	}
	first.wait(inSync)
	tor.has(jobs...)
	if got, want := first.traffic.count(), (tally{pushes: 1, batches: 3, updates: len(entries(t, jobs...)), reads: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if limits, ok := first.Limits(); !ok || limits != (pipeline.Limits{Slots: slots, Elements: elements}) {
		t.Errorf("limits %+v, %v", limits, ok)
	}
	if h, ok := first.Host(homeAddr); !ok || h.Port != homePort || h.MAC != homeMAC {
		t.Errorf("the home is %+v, %v", h, ok)
	}
	if first.events.of("pipeline-pushed") != 1 || first.events.of("switch-in-sync") != 1 ||
		first.events.of("switch-repaired") != 0 || first.events.of("switch-away") != 0 {
		t.Errorf("events: %s", first.events)
	}
	first.stop()
	if state, reason := first.State(); state != away || reason == "" {
		t.Errorf("a fabric that has ended is %s (%s)", state, reason)
	}

	second := prepare(t, tor.target(), nil)
	for _, j := range jobs {
		second.SetJob(j)
	}
	second.begin()
	second.wait(inSync)
	if got, want := second.traffic.count(), (tally{reads: 1}); got != want {
		t.Errorf("nothing differs, and there were %+v, want %+v", got, want)
	}
	second.stop()

	// What is not wanted any more when a daemon starts is foreign to it.
	third := prepare(t, tor.target(), nil)
	third.SetJob(jobs[1])
	third.begin()
	third.wait(inSync)
	tor.has(jobs[1])
	gone := len(entries(t, jobs...)) - len(entries(t, jobs[1]))
	if got := third.traffic.count(); got.pushes != 0 || got.updates != gone {
		t.Errorf("%+v, want %d updates", got, gone)
	}
	if text := third.events.wait(t, "switch-repaired", 1); !strings.Contains(text, fmt.Sprintf("%d foreign", gone)) {
		t.Error(text)
	}
}

// What others change is changed back at the next check, and nothing else is touched.
func TestRepairs(t *testing.T) {
	tor := newTor(t)
	job := newJob(3, 1)
	s := prepare(t, tor.target(), func(c *fabric.Config) { c.Check = 20 * time.Millisecond })
	s.SetJob(job)
	s.begin()
	s.wait(inSync)
	updates, err := pipeline.Entries(pipeline.Software(), job)
	if err != nil {
		t.Fatal(err)
	}
	other := job
	other.Cookie++
	changed, err := pipeline.Entries(pipeline.Software(), other)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := pipeline.HostEntries(pipeline.Software(), 17, pipeline.Host{Addr: netip.MustParseAddr("10.9.9.9"), MAC: pipeline.MAC{2, 9}, Port: 2})
	if err != nil {
		t.Fatal(err)
	}
	var modify *p4v1.Update
	for _, u := range changed {
		if item, err := pipeline.NewItem(pipeline.Software(), u.GetEntity()); err != nil {
			t.Fatal(err)
		} else if item.Table == pipeline.TableUplink {
			modify = &p4v1.Update{Type: p4v1.Update_MODIFY, Entity: u.GetEntity()}
		}
	}
	s.traffic.reset()
	tor.meddle(s.election(),
		&p4v1.Update{Type: p4v1.Update_DELETE, Entity: updates[len(updates)-1].GetEntity()},
		&p4v1.Update{Type: p4v1.Update_DELETE, Entity: updates[0].GetEntity()},
		modify,
		foreign[0], foreign[2], foreign[3], // not the broadcast's, which is there
		&p4v1.Update{Type: p4v1.Update_MODIFY, Entity: pipeline.Multicast(flood, 1, 2)},
	)
	text := s.events.wait(t, "switch-repaired", 1)
	if !strings.Contains(text, "2 missing, 2 changed, 3 foreign") {
		t.Error(text)
	}
	tor.has(job)
	want := []string{
		"DELETE multicast group 17", "DELETE forward dst=0xa090909/32", "DELETE bridge mac=0x20900000000",
		"INSERT multicast group 3", "INSERT member port=0x8 src=0xa4d0008 job=0x3", "MODIFY uplink job=0x3", fmt.Sprintf("MODIFY multicast group %d", flood),
	}
	if diff := cmp.Diff(sorted(want), sorted(s.traffic.updates())); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
	d, err := s.Describe(deadline(t), false)
	if err != nil || d.GetRepairs() != 7 || d.GetPushes() != 1 {
		t.Errorf("%v, %v", d, err)
	}
}

// A new job is written without looking at the rest, a new generation writes what differs, and many at once share batches.
func TestFastPath(t *testing.T) {
	tor := newTor(t)
	s := run(t, tor.target(), nil)
	s.wait(inSync)
	empty := len(entries(t))

	s.traffic.reset()
	job := newJob(1, 1)
	begin := time.Now()
	s.SetJob(job)
	s.settled(1, 1)
	t.Logf("a new job of 8 workers is in the ToR after %v", time.Since(begin))
	if got, want := s.traffic.count(), (tally{batches: 3, updates: len(entries(t, job)) - empty}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}

	s.traffic.reset()
	next := newJob(1, 2)
	next.Workers = next.Workers[:7]
	s.SetJob(next)
	s.settled(1, 2)
	tor.has(next)
	want := []string{
		"DELETE member port=0x8 src=0xa4d0008 job=0x1", "MODIFY multicast group 1", "MODIFY uplink job=0x1", "MODIFY job job=0x1",
	}
	for rank := range 7 {
		want = append(want, fmt.Sprintf("MODIFY member port=%#x src=0xa4d000%x job=0x1", rank+1, rank+1))
	}
	if diff := cmp.Diff(want, s.traffic.updates()); diff != "" {
		t.Errorf("updates, in their order (-want +got):\n%s", diff)
	}

	// A job leaves in the reverse order, the doors first.
	s.traffic.reset()
	s.RemoveJob(1)
	s.SetJob(newJob(3, 1))
	s.settled(3, 1)
	tor.has(newJob(3, 1))
	var left []string
	for _, u := range s.traffic.updates() {
		if words := strings.Fields(u); words[0] == "DELETE" {
			left = append(left, words[1])
		}
	}
	want = append(slices.Repeat([]string{"member"}, 8), "job", "region", "uplink", "publish", "group", "multicast")
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("deletions, in their order (-want +got):\n%s", diff)
	}
	next = newJob(3, 1)

	s.traffic.reset()
	var many []pipeline.Job
	s.RemoveJob(3)
	for id := uint16(10); id < 110; id++ {
		j := newJob(id, 1)
		j.Region = nil
		many = append(many, j)
		s.SetJob(j)
	}
	begin = time.Now()
	for _, j := range many {
		s.settled(j.ID, j.Generation)
	}
	got := s.traffic.count()
	t.Logf("100 jobs more after %v, with %+v", time.Since(begin), got)
	if got.batches > 100 || got.reads != 0 || got.updates != len(entries(t, many...))-2*empty+len(entries(t, next)) {
		t.Errorf("%+v", got)
	}
	tor.has(many...)
	if state, reason := s.State(); state != inSync || reason != "" {
		t.Errorf("%s: %s", state, reason)
	}
}

// wantRefusal wants a refusal with a reason and words.
func wantRefusal(t *testing.T, err error, reason refusal.Reason, words ...string) {
	t.Helper()
	var r *refusal.Error
	if !errors.As(err, &r) || r.Reason != reason {
		t.Errorf("%v, want a refusal %s", err, reason)
		return
	}
	for _, w := range words {
		if !strings.Contains(r.Text, w) {
			t.Errorf("%q does not say %q", r.Text, w)
		}
	}
}

// What the ToR does not take keeps its job out, and nothing else.
func TestRefusedEntry(t *testing.T) {
	tor := newTor(t)
	s := run(t, tor.target(), nil)
	s.wait(inSync)
	beyond := newJob(1, 1)
	beyond.Region = &pipeline.Region{Base: slots, Slots: 8}
	s.SetJob(beyond)
	good := newJob(2, 1)
	s.SetJob(good)
	s.settled(2, 1)
	err := s.Await(deadline(t), 1, 1)
	wantRefusal(t, err, refusal.SwitchRefused, "region job=0x1", fmt.Sprintf("there are %d slots", slots), "OutOfRange")
	if refusal.Of(err).Code != codes.FailedPrecondition {
		t.Error(err)
	}
	if text := s.events.wait(t, "switch-refused", 1); !strings.Contains(text, "job 1, generation 1") {
		t.Error(text)
	}
	s.wait(syncing)
	if _, reason := s.State(); !strings.Contains(reason, "job 1 is refused") {
		t.Error(reason)
	}
	for key := range tor.content() {
		if strings.HasPrefix(string(key), "member") && strings.HasSuffix(string(key), "job=0x1") {
			t.Errorf("%s lets packets of a job in that is not whole", key)
		}
	}

	// Until the next check it is not tried again, whatever else comes.
	s.traffic.reset()
	bystander := newJob(3, 1)
	s.SetJob(bystander)
	s.settled(3, 1)
	for _, u := range s.traffic.updates() {
		if !strings.HasSuffix(u, "job=0x3") && u != "INSERT multicast group 3" && u != "INSERT group dst=0xef4d0003" && !strings.HasPrefix(u, "INSERT region job=0x3 ") {
			t.Errorf("%s is no business of job 3's", u)
		}
	}
	s.RemoveJob(3)

	// One that overlaps another's slots is not taken either.
	smaller := newJob(1, 2)
	smaller.Region = &pipeline.Region{Base: good.Region.Base, Slots: 8, Mode: pipeline.ModePrivate}
	s.SetJob(smaller)
	wantRefusal(t, s.Await(deadline(t), 1, 2), refusal.SwitchRefused, "overlaps that of job 2")
	wantRefusal(t, s.Await(deadline(t), 1, 1), refusal.GenerationOver)
	// Room is made, and no check is due for an hour.
	s.RemoveJob(2)
	s.settled(1, 2)
	s.wait(inSync)
	tor.has(smaller)
	wantRefusal(t, s.Await(deadline(t), 2, 1), refusal.JobDeleted)

	// Two that want the same entry: the earlier one has it.
	twin := newJob(5, 1)
	twin.Group = smaller.Group
	s.SetJob(twin)
	wantRefusal(t, s.Await(deadline(t), 5, 1), refusal.SwitchRefused, "group dst=0xef4d0001 is job 1's")
	greedy := newJob(6, 1)
	greedy.MulticastGroup = flood
	s.SetJob(greedy)
	wantRefusal(t, s.Await(deadline(t), 6, 1), refusal.SwitchRefused, "is for the hosts")
	broken := newJob(7, 1)
	broken.Workers = nil
	s.SetJob(broken)
	wantRefusal(t, s.Await(deadline(t), 7, 1), refusal.SwitchRefused, "0 workers")
	tor.has(smaller)
	for id := uint16(5); id < 8; id++ {
		s.RemoveJob(id)
	}
	s.wait(inSync)
	tor.has(smaller)
}
