package fabric_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"spillway/appliance/fabric"
	"spillway/appliance/refusal"
	"spillway/p4/pipeline"
)

// Whatever is wanted in whatever order while the ToR reboots and the connection breaks: in the end the ToR has exactly the last of it.
func TestChurn(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { churn(t, seed) })
	}
}

func churn(t *testing.T, seed uint64) {
	const callers, accidents, ids = 4, 8, 6
	tor := newTor(t)
	cable := newProxy(t, tor.socket)
	s := run(t, cable.target(), func(c *fabric.Config) { c.Check = 200 * time.Millisecond })
	progress := make(chan struct{})
	ended := make(chan struct{})
	stop := sync.OnceFunc(func() { close(ended) })
	defer stop()
	ctx := deadline(t)
	var all sync.WaitGroup
	last := make([]map[uint16]pipeline.Job, callers)
	for caller := range callers {
		random := rand.New(rand.NewPCG(seed, uint64(caller)))
		last[caller] = map[uint16]pipeline.Job{}
		all.Go(func() {
			for {
				id := uint16(1 + caller*ids + random.IntN(ids))
				if random.IntN(3) == 0 {
					s.RemoveJob(id)
					delete(last[caller], id)
				} else {
					j := randomJob(random, id)
					s.SetJob(j)
					last[caller][id] = j
					// It may be refused because the ToR is away, or be in; in no case does it hang.
					if err := s.Await(ctx, id, j.Generation); err != nil {
						wantAway(t, err)
					}
				}
				select {
				case progress <- struct{}{}:
				case <-ended:
					return
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(seed, callers))
	for range accidents {
		for range 1 + random.IntN(30) {
			<-progress
		}
		for again := random.IntN(4) > 0; again; { // else one accident on top of the other
			select {
			case <-progress:
				state, _ := s.State()
				again = state != inSync
			case <-ctx.Done():
				t.Fatalf("not in sync; events: %s", s.events)
			}
		}
		switch random.IntN(3) {
		case 0:
			cable.pull()
			cable.plug()
		case 1:
			tor.kill()
			tor.start()
		case 2:
			cable.pull()
			tor.kill()
			tor.start()
			cable.plug()
		}
	}
	stop()
	all.Wait()
	var jobs []pipeline.Job
	for _, mine := range last {
		for _, j := range mine {
			jobs = append(jobs, j)
		}
	}
	// Being away may not have been noticed yet: only a job that is set now and acknowledged shows that the ToR there is, is told.
	probe := newJob(200, 1)
	probe.Region = nil
	s.SetJob(probe)
	for s.Await(ctx, 200, 1) != nil {
		s.wait(inSync)
	}
	s.wait(inSync)
	tor.has(append(jobs, probe)...)
	d, err := s.Describe(deadline(t), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d jobs in the end, %d sessions, %d pushes, %d repairs", len(jobs), d.GetSessions(), d.GetPushes(), d.GetRepairs())
}

func wantAway(t *testing.T, err error) {
	t.Helper()
	if r := refusal.Of(err); r == nil || r.Reason != refusal.SwitchAway {
		t.Error(err)
	}
}

func randomJob(random *rand.Rand, id uint16) pipeline.Job {
	j := newJob(id, uint8(random.IntN(256)))
	j.Cookie = random.Uint32()
	random.Shuffle(len(j.Workers), func(a, b int) { j.Workers[a], j.Workers[b] = j.Workers[b], j.Workers[a] })
	j.Workers = j.Workers[:2+random.IntN(len(j.Workers)-1)]
	switch random.IntN(3) {
	case 0:
		j.Region = nil
	case 1:
		j.Region = &pipeline.Region{Slots: slots, Mode: pipeline.ModeShared}
	case 2:
		j.Region = &pipeline.Region{Base: slots / 2, Slots: slots / 2, Mode: pipeline.ModeFirstCome}
	}
	return j
}
