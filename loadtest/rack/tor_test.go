package rack

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spillway/appliance/refusal"
	"spillway/loadtest/faults"
	"spillway/wire"
	"spillway/xdp"
)

// reduce lets all members contribute to a chunk and checks what they get.
func reduce(t *testing.T, members []*member, seq uint32, elements int) {
	t.Helper()
	sum := make([]int32, elements)
	for rank, m := range members {
		contribution := make([]int32, elements)
		for i := range contribution {
			contribution[i] = int32(i*(rank+1)) - int32(seq)
			sum[i] += contribution[i]
		}
		m.send(t, seq, contribution)
	}
	for rank, m := range members {
		h, got := m.receive(t)
		if h.Type != wire.Result || h.Seq != seq || h.Bitmap != wire.FullBitmap(len(members)) || !slices.Equal(got, sum) {
			t.Fatalf("rank %d got %+v, %v, want the sum of chunk %d: %v", rank, h, got, seq, sum)
		}
	}
}

// What the ToR completes never comes to the home, and what does not fit into it does.
func TestSumsThroughTheTor(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		slots  int
		inTor  float64 // share of the chunks
	}{
		{"direct", Config{Elements: 256}, 32, 1},
		{"cables", Config{Elements: 256, Rate: 500_000_000, HomeRate: 500_000_000}, 32, 1},
		{"hooks for faults", Config{Elements: 32, Faults: faults.Rates{Loss: 1e-9}}, 32, 1},
		{"long packets", Config{Elements: 832, Rate: 500_000_000}, 32, 1},
		{"half of them", Config{Elements: 256}, 16, 0.5},
		{"one slot", Config{Elements: 256, Rate: 500_000_000}, 1, 1. / 32},
		{"no slots", Config{Elements: 256}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			const chunks = 64
			c.config.Workers, c.config.Tor = 3, softTor(c.slots)
			r := build(t, c.config)
			if r.Mode() != xdp.Native {
				t.Errorf("mode %s", r.Mode())
			}
			job := Job{Name: "sums", Window: 32}
			members := joinAll(t, r, job)
			for seq := range uint32(chunks) {
				reduce(t, members, seq, c.config.Elements)
			}
			home, tor, err := r.Counters(t.Context(), job.Name)
			if err != nil {
				t.Fatal(err)
			}
			unassigned, err := r.Unassigned(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			inTor := uint64(c.inTor * chunks)
			if got := tor.Events["completed"]; got != inTor {
				t.Errorf("the ToR completed %d chunks, want %d: %v", got, inTor, tor)
			}
			if got := home["published"]; got != chunks-inTor {
				t.Errorf("the home published %d chunks, want %d: %v", got, chunks-inTor, home)
			}
			if got, want := home["data"], 3*(chunks-inTor); got != want {
				t.Errorf("%d packets came to the home, want %d: %v", got, want, home)
			}
			for name, n := range unassigned {
				if n != 0 {
					t.Errorf("the home counted %d %s of no job", n, name)
				}
			}
		})
	}
}

// Jobs have memory of their own, or contend for it, and the sums are right; each runs on its own workers.
func TestJobsShareTheTor(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%t", shared), func(t *testing.T) {
			tor := softTor(8)
			tor.Jobs, tor.Shared = 2, shared
			r := build(t, Config{Workers: 4, Tor: tor})
			a := Job{Name: "a", Window: 4, Hosts: []int{0, 1}}
			b := Job{Name: "b", Window: 4, Hosts: []int{3, 2, 1}}
			first, second := joinAll(t, r, a), joinAll(t, r, b)
			for seq := range uint32(40) {
				reduce(t, first, seq, 64)
				reduce(t, second, seq, 64)
			}
			for _, job := range []Job{a, b} {
				_, counters, err := r.Counters(t.Context(), job.Name)
				if err != nil {
					t.Fatal(err)
				}
				if counters.Events["completed"] != 40 {
					t.Errorf("job %s: %v", job.Name, counters)
				}
			}
			// Memory that is divided up is all given away; what is shared, one more may share.
			var refused *refusal.Error
			if err := r.AddJob(t.Context(), Job{Name: "c", Window: 4}); shared && err != nil || !shared && (!errors.As(err, &refused) || refused.Reason != refusal.NoRoom) {
				t.Errorf("a third job: %v", err)
			}
		})
	}
}

// A ToR that is killed forgets what it held; started again, it sums as before, and what it counted is not lost.
func TestTorReboot(t *testing.T) {
	r := build(t, Config{Workers: 2, Rate: 500_000_000, Tor: softTor(4)})
	job := Job{Name: "rebooted", Window: 4}
	members := joinAll(t, r, job)
	reduce(t, members, 0, 256)
	members[0].send(t, 1, make([]int32, 256)) // rests in the ToR
	for range 2 {
		if err := r.RebootTor(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reduce(t, members, 1, 256) // were it still there, it would be a duplicate
	reduce(t, members, 2, 256)
	_, counters, err := r.Counters(t.Context(), job.Name)
	if err != nil {
		t.Fatal(err)
	}
	if counters.Events["completed"] != 3 || counters.Events["duplicate"] != 0 {
		t.Errorf("counters %v", counters)
	}
}

// A ToR that ends by itself is an event that the rack tells of; one that is stopped is not.
func TestTorThatEnds(t *testing.T) {
	r := build(t, Config{Workers: 1, Tor: softTor(1)})
	if err := unix.Kill(r.tor.process.PID(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-r.Failed():
		if !errors.Is(err, ErrEnded) {
			t.Errorf("failed with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody noticed")
	}
}

func TestTorThatDoesNotStart(t *testing.T) {
	config := Config{Workers: 1, Tor: softTor(1)}
	config.Tor.Command.Env = []string{"SPILLWAY_TEST_ROLE=nonsense"}
	config.Tor.Command.Stderr = new(strings.Builder)
	if _, err := New(t.Context(), config); !errors.Is(err, ErrEnded) {
		t.Errorf("built: %v", err)
	}
}

func TestJobsThatARackRefuses(t *testing.T) {
	r := build(t, Config{Workers: 2, Tor: softTor(1)})
	for name, job := range map[string]Job{
		"no name":  {Window: 4},
		"name":     {Name: "Job_1", Window: 4},
		"priority": {Name: "a", Window: 4, Priority: 128},
		"unicast":  {Name: "a", Window: 4, Unicast: true},
		"host":     {Name: "a", Window: 4, Hosts: []int{2}},
		"no hosts": {Name: "a", Window: 4, Hosts: []int{}},
	} {
		if err := r.AddJob(t.Context(), job); err == nil {
			t.Errorf("%s: added", name)
		}
	}
	if err := build(t, Config{Workers: 1}).RebootTor(t.Context()); err == nil {
		t.Error("rebooted a ToR that is not there")
	}
}
