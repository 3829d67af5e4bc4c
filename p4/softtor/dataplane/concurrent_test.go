package dataplane

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sync/errgroup"

	"spillway/wire"
)

// TestConcurrent: workers whose packets are in the program at the same time add
// up to exact sums, one RESULT a chunk, while another job contends for the same slots.
func TestConcurrent(t *testing.T) {
	const elems, seqs = 832, 400
	r := setUp(t, 832, jobA, jobB)
	// All by port 1, so that the program can run without Process, which takes turns.
	r.must(r.objects.RunPort.Set(uint32(1)))
	for _, j := range []job{jobA, jobB} {
		for i := range j.workers {
			bit := uint64(1) << i
			if i > 0 {
				r.must(r.SetMember(MemberKey{1, workerAddr(i), j.id}, &Member{Role: Worker, Bits: bit, Rest: j.full() &^ bit}))
			}
		}
	}
	var mu sync.Mutex
	seen := map[string]map[uint32]uint64{} // what has left of a chunk, by job
	take := func(frame []byte) error {
		var h wire.Header
		payload, err := h.Decode(frame[42:])
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		key := fmt.Sprint(h.Job)
		if seen[key] == nil {
			seen[key] = map[uint32]uint64{}
		}
		if seen[key][h.Seq]&h.Bitmap != 0 {
			return fmt.Errorf("job %d seq %d: bits %#x left twice", h.Job, h.Seq, seen[key][h.Seq]&h.Bitmap)
		}
		seen[key][h.Seq] |= h.Bitmap
		var workers []int
		for w := range 4 {
			if h.Bitmap>>w&1 != 0 {
				workers = append(workers, w)
			}
		}
		want := sum(h.Seq, elems, workers...)
		got := make([]int32, elems)
		for i := range got {
			got[i] = int32(uint32(payload[4*i])<<24 | uint32(payload[4*i+1])<<16 | uint32(payload[4*i+2])<<8 | uint32(payload[4*i+3]))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("job %d seq %d bitmap %#x: wrong sum", h.Job, h.Seq, h.Bitmap)
		}
		return nil
	}
	run := func(p packet) error {
		frame := p.frame()
		opts := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)}
		decision, err := r.objects.TorRun.Run(&opts)
		if err != nil || torKind(decision>>16) == torKindKIND_DROP {
			return err
		}
		return take(opts.DataOut)
	}
	var group errgroup.Group
	for _, j := range []job{jobA, jobB} {
		for w := range j.workers {
			group.Go(func() error {
				for seq := range uint32(seqs) {
					p := j.data(w, seq, elems)
					p.header.Priority = 1 + uint8(seq>>4&1)*uint8(j.index&1)
					if err := run(p); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	r.must(group.Wait())
	// What still rests leaves with a RESEND of someone who is in it.
	for _, j := range []job{jobA, jobB} {
		for seq := range uint32(seqs) {
			if missing := j.full() &^ seen[fmt.Sprint(j.id)][seq]; missing != 0 {
				for w := range j.workers {
					if missing>>w&1 != 0 {
						r.must(run(j.data(w, seq, elems).resend()))
						break
					}
				}
			}
			if got := seen[fmt.Sprint(j.id)][seq]; got != j.full() {
				t.Errorf("job %d seq %d: only bits %#x left", j.id, seq, got)
			}
		}
	}
	counters := r.counters()
	t.Log(counters)
	for _, event := range []string{"claimed", "merged", "completed", "spilled"} {
		if counters[jobA.at(event)]+counters[jobB.at(event)] == 0 {
			t.Errorf("no packet was %s", event)
		}
	}
}
