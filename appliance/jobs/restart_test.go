package jobs

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/appliance/store"
	"spillway/p4/pipeline"
	"spillway/xdp"
)

var (
	otherGroups   = netip.MustParsePrefix("239.78.0.0/16")
	unicastPrefix = netip.MustParsePrefix("10.0.0.0/8")
)

// TestRestart has the daemon go and come back in every state of a job, with the maps as they were, and after a reboot.
func TestRestart(t *testing.T) {
	for name, again := range map[string]func(*rig){"restart": (*rig).restart, "reboot": (*rig).reboot} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, true)
			r.create("waiting", 2)
			r.create("forming", 2)
			forming := r.join("forming", 0)
			forming.waits(1)
			running := r.run("running", 2)
			over := r.run("over", 2)
			for _, w := range over {
				w.leave()
			}
			half := r.run("half", 2)
			half[0].leave()
			draining := r.run("draining", 2)
			draining[1].leave()
			if _, err := r.m.Drain(t.Context(), "draining"); err != nil {
				t.Fatal(err)
			}
			send(t, running[0].params, 3)
			jobs, before := r.m.List(), r.state()
			again(r)
			for _, w := range []*worker{forming, running[0], running[1], half[1], draining[0]} {
				refused(t, w.end(), codes.Unavailable, refusal.ShuttingDown)
			}
			r.unchanged(before, "the "+name)
			for i, job := range r.m.List() {
				old := jobs[i]
				if !proto.Equal(job.Spec, old.Spec) || !proto.Equal(job.Allocation, old.Allocation) || job.Generation != old.Generation || job.State != old.State ||
					job.Id != old.Id || !proto.Equal(job.Created, old.Created) || !proto.Equal(job.Since, old.Since) || job.Path != old.Path || job.Present != 0 {
					t.Errorf("before %v\nafter %v", old, job)
				}
			}
			// Who takes part resumes; sums in flight are still there, or are made again.
			for _, w := range running {
				if p := w.resume().begun(); !proto.Equal(p, w.params) {
					t.Errorf("resumed with other parameters: %s", cmp.Diff(w.params.String(), p.String()))
				}
			}
			if name == "reboot" {
				send(t, running[0].params, 3)
			}
			if sum, published := send(t, running[1].params, 4); !published || sum != 7 {
				t.Errorf("sum over the %s: %d, %v", name, sum, published)
			}
			half[1].resume().begun()
			refused(t, half[0].resume().end(), codes.FailedPrecondition, refusal.GenerationOver, "has left")
			r.join("half", 0).waits(1)
			refused(t, r.join("draining", 1).end(), codes.FailedPrecondition, refusal.JobDraining)
			last := draining[0].resume()
			last.begun()
			last.leave()
			r.until("the drained job is gone", func() bool { _, err := r.m.Get("draining"); return err != nil })
			for _, name := range []string{"waiting", "forming", "over"} {
				r.joinAll(name, 2)
			}
			if job := r.create("new", 2); job.Id != jobs[0].Id { // draining's, which is gone
				t.Errorf("%v beside %v", job, jobs)
			}
		})
	}
}

// TestKilled has the daemon die between a change of the data plane and its record, and between a record and the change that follows.
func TestKilled(t *testing.T) {
	r := newRig(t, true)
	r.create("a", 2)
	r.stop()
	// It died after AddJob and before it was written down: nobody has been told.
	stranger := xdp.Job{
		ID: 1, Generation: 1, Cookie: 5, Elements: 32, Window: 1, Workers: 1, Home: netip.AddrPortFrom(homeAddr, pipeline.FirstPort), HomePorts: 32, WorkerPort: 9800,
		Group: r.config.Ledger.Groups.Addr(), Members: []xdp.Member{{Addr: workerAddr(0), Bits: 1}},
	}
	if err := aggregator.AddJob(stranger); err != nil {
		t.Fatal(err)
	}
	r.start()
	if jobs := aggregator.Jobs(); len(jobs) != 0 {
		t.Errorf("what nobody knows is still there: %v", jobs)
	}
	all := r.joinAll("a", 2)

	// It died after a deletion was written down and before the job was taken out of the aggregator.
	r.stop()
	opened, err := store.Open(r.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Delete("a"); err != nil {
		t.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	r.start()
	if jobs := aggregator.Jobs(); len(jobs) != 0 || r.m.Capacity().Jobs.Used != 0 {
		t.Errorf("a deleted job is still there: %v", jobs)
	}
	refused(t, r.join("a", 0, func(q *v1.JoinRequest) {
		q.Resume = &v1.Resume{Generation: 1, Cookie: all[0].params.Cookie}
	}).end(), codes.NotFound, refusal.NoSuchJob)
}

// TestCannotPutBack has the aggregator refuse a generation after a reboot: its workers join again.
func TestCannotPutBack(t *testing.T) {
	r := newRig(t, true)
	all := r.run("a", 2)
	r.failNext("add", 1)
	r.reboot()
	job := r.get("a")
	if job.State != v1.JobState_JOB_STATE_WAITING || !strings.Contains(job.Reason, "could not be put back") {
		t.Errorf("%v", job)
	}
	refused(t, all[0].resume().end(), codes.FailedPrecondition, refusal.GenerationOver)
	if p := r.joinAll("a", 2)[0].params; p.Generation != 2 {
		t.Errorf("%v", p)
	}
}

// otherPaths lead everywhere by another interface, or nowhere.
type otherPaths struct {
	path Path
	err  error
}

func (p otherPaths) To(context.Context, netip.Addr) (Path, error) { return p.path, p.err }

// TestMovedByReboot has the interface to the workers be another one after a reboot, not be there yet, or have another address.
func TestMovedByReboot(t *testing.T) {
	mac := workerMAC(9)
	for name, c := range map[string]struct {
		paths otherPaths
		state v1.JobState
		want  xdp.Member
	}{
		"another number":  {otherPaths{path: Path{Ifindex: 9, Home: homeAddr, MAC: mac}}, v1.JobState_JOB_STATE_RUNNING, xdp.Member{Ifindex: 9, MAC: mac}},
		"nobody answers":  {otherPaths{path: Path{Ifindex: 9, Home: homeAddr}}, v1.JobState_JOB_STATE_RUNNING, xdp.Member{Ifindex: 3, MAC: workerMAC(0)}},
		"no route":        {otherPaths{err: errInjected}, v1.JobState_JOB_STATE_RUNNING, xdp.Member{Ifindex: 3, MAC: workerMAC(0)}},
		"another address": {otherPaths{path: Path{Ifindex: 9, Home: workerAddr(200), MAC: mac}}, v1.JobState_JOB_STATE_WAITING, xdp.Member{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, false, func(c *Config) { c.Defaults.Publication = unicast })
			r.run("a", 2)
			r.config.Nodes[0].Paths = c.paths
			r.reboot()
			if job := r.get("a"); job.State != c.state {
				t.Errorf("%v", job)
			}
			for _, job := range aggregator.Jobs() {
				if m := job.Members[0]; m.Ifindex != c.want.Ifindex || m.MAC.String() != c.want.MAC.String() {
					t.Errorf("%+v", m)
				}
			}
		})
	}
}

// TestGraceAfterRestart holds that a restart does not cost a running job its workers, however long the daemon was away.
func TestGraceAfterRestart(t *testing.T) {
	r := newRig(t, false)
	all := r.run("a", 1)
	r.stop()
	r.clock.advance(time.Hour)
	r.start()
	r.m.sweep(t.Context())
	all[0].resume().begun()
	r.restart()
	r.clock.advance(DefaultGrace)
	r.m.sweep(t.Context())
	if len(r.m.List()) != 0 || len(aggregator.Jobs()) != 0 {
		t.Error("a job whose workers did not resume was not collected")
	}
}

// TestLostInARestart holds that the others hear of a worker that did not come back, those that came back before it was missed and those that do after.
func TestLostInARestart(t *testing.T) {
	r := newRig(t, false)
	all := r.run("a", 3)
	r.restart()
	early := all[0].resume()
	early.begun()
	r.m.sweep(t.Context()) // too soon
	r.clock.advance(resumeWithin)
	late := all[2].resume()
	late.begun()
	early.notice(v1.NoticeKind_NOTICE_KIND_RESUMED, 2)
	r.m.sweep(t.Context())
	for _, w := range []*worker{early, late} {
		if text := w.notice(v1.NoticeKind_NOTICE_KIND_LOST, 1); text != "rank 1 (10.77.0.2, process of rank 1) lost its connection" {
			t.Error(text)
		}
	}
	late.vanish()
	again := all[2].resume()
	again.begun()
	again.notice(v1.NoticeKind_NOTICE_KIND_LOST, 1)
}

// TestOtherConfiguration holds that a configuration that takes away what jobs hold is refused with what to do, and changes nothing.
func TestOtherConfiguration(t *testing.T) {
	r := newRig(t, true)
	r.run("a", 2)
	before := r.state()
	r.stop()
	for key, change := range map[string]func(*Config){
		"group":         func(c *Config) { c.Ledger.Groups = otherGroups },
		"worker port":   func(c *Config) { c.Ledger.FirstWorkerPort = 9900 },
		"256 elements":  func(c *Config) { c.Ledger.Slots = xdp.Slots{16, 16, 8, 16} },
		"slots 64 to 7": func(c *Config) { c.Ledger.SharedSlots = 128 },
	} {
		config := r.config
		change(&config)
		_, err := r.open(config)
		if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), `job "a"`) || !strings.Contains(err.Error(), "delete them") {
			t.Errorf("%s: %v", key, err)
		}
	}
	r.start()
	r.unchanged(before, "refused configurations")
}

// TestLimitsAreKept holds that a job can be admitted after a restart though the ToR is away, and not before it was ever reached.
func TestLimitsAreKept(t *testing.T) {
	r := newRig(t, true)
	known := r.tor.limits
	r.tor.limits.Slots = 0
	_, err := r.m.Create(t.Context(), r.spec("a", 2), false)
	refused(t, err, codes.Unavailable, refusal.SwitchAway, "never reached", "tor: none")
	if r.m.Capacity().TorSlots != nil {
		t.Error("slots of a ToR that nobody knows")
	}
	r.tor.limits = known
	r.m.SwitchChanged(v1.SwitchState_SWITCH_STATE_IN_SYNC, "")
	r.tor.limits.Slots = 0
	r.restart()
	if job := r.create("a", 2); job.Allocation.Region.Slots != 8 || job.Allocation.Region.Base != 64 {
		t.Errorf("%v", job)
	}
}

// TestManyGenerations holds that the number that packets carry wraps, and the job's does not.
func TestManyGenerations(t *testing.T) {
	r := newRig(t, false)
	r.create("a", 1)
	cookies := map[uint32]bool{}
	for n := uint32(1); n <= 260; n++ {
		w := r.join("a", 0)
		if p := w.begun(); p.Generation != n || cookies[p.Cookie] {
			t.Fatalf("generation %d: %v", n, p)
		}
		cookies[w.params.Cookie] = true
		if info, ok := r.m.Job(1); !ok || info.Generation != uint8(n) || !info.Installed {
			t.Fatalf("generation %d: %v", n, info)
		}
		w.leave()
	}
	r.restart()
	if p := r.join("a", 0).begun(); p.Generation != 261 {
		t.Errorf("%v", p)
	}
}

func TestLockedState(t *testing.T) {
	r := newRig(t, false)
	if _, err := r.open(r.config); err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Error(err)
	}
}

// unread is a storage that nothing is read from.
type unread struct{ Storage }

func (unread) Close() error { return nil }

func TestConfigErrors(t *testing.T) {
	r := newRig(t, true)
	for text, change := range map[string]func(*Config){
		"no storage":                func(c *Config) { c.Storage = nil },
		"not among the nodes":       func(c *Config) { c.Self = "b" },
		"is there twice":            func(c *Config) { c.Nodes = append(c.Nodes, c.Nodes[0]) },
		"MTU of 100":                func(c *Config) { c.Nodes[0].MTU = 100 },
		"power of two":              func(c *Config) { c.Ports = 48 },
		"worker ports":              func(c *Config) { c.Ledger.FirstWorkerPort = 9700 },
		"no IPv4 multicast":         func(c *Config) { c.Ledger.Groups = unicastPrefix },
		"window 40000":              func(c *Config) { c.Defaults.Window = 40000 },
		"elements 33":               func(c *Config) { c.Defaults.Elements = 33 },
		"tor_slots 3":               func(c *Config) { c.Defaults.TorSlots = 3 },
		"grace 1ms":                 func(c *Config) { c.Defaults.Grace = time.Millisecond },
		"there is no switch":        func(c *Config) { c.Switch = nil },
		"go past the switch":        func(c *Config) { c.Ports = 32 },
		"switch's own address":      func(c *Config) { c.TorAddress = otherGroups.Addr() },
		"no aggregator or no paths": func(c *Config) { c.Nodes[0].Paths = nil },
	} {
		config := r.config
		config.Nodes, config.Storage = slices.Clone(r.config.Nodes), unread{}
		change(&config)
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
