package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/wire"
)

// TestDrivenByWhoWaits: small collectives one after the other are driven by their callers, and the worker's goroutine takes over again when there are none.
func TestDrivenByWhoWaits(t *testing.T) {
	for _, spin := range []time.Duration{0, 200 * time.Microsecond} {
		t.Run(spin.String(), func(t *testing.T) {
			all := newLoopback(t, 3, 0).join(t, 3, WithBusyPoll(spin))
			for _, err := range each(all, func(rank int, w *Worker) error {
				for i := range 200 {
					data := []int32{int32(i), int32(rank)}
					if err := w.AllReduceInt32(t.Context(), data, wire.Sum); err != nil {
						return err
					}
					if !slices.Equal(data, []int32{int32(3 * i), 3}) {
						t.Errorf("rank %d, round %d: %v", rank, i, data)
					}
				}
				// Nobody waits for this one before it is done: run does it.
				h, err := w.AllReduceInt32Async([]int32{1}, wire.Sum)
				if err != nil {
					return err
				}
				select {
				case <-h.Done():
					return h.Wait(t.Context())
				case <-time.After(10 * time.Second):
					return errors.New("a collective that nobody drives is not done")
				}
			}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, w := range all {
				if w.driven.Load() == 0 {
					t.Error("no collective was driven by who waited for it")
				}
			}
		})
	}
}

// TestDrivenAmongOthers: callers that drive, handles that are waited for elsewhere and questions for Stats get along, and the order of issue is that of completion.
func TestDrivenAmongOthers(t *testing.T) {
	all := newLoopback(t, 2, 0.01).join(t, 2)
	for _, err := range each(all, func(rank int, w *Worker) error {
		var waiting sync.WaitGroup
		defer waiting.Wait()
		for i := range 60 {
			data := []int32{int32(i)}
			h, err := w.AllReduceInt32Async(data, wire.Sum)
			if err != nil {
				return err
			}
			waiting.Go(func() {
				if err := h.Wait(t.Context()); err != nil || data[0] != int32(2*i) {
					t.Errorf("rank %d, round %d: %v, %v", rank, i, data, err)
				}
				w.Stats()
			})
			if i%3 != 0 {
				continue
			}
			own := []int32{int32(-i)}
			if err := w.AllReduceInt32(t.Context(), own, wire.Sum); err != nil || own[0] != int32(-2*i) {
				t.Errorf("rank %d, round %d: %v, %v", rank, i, own, err)
			}
			if !h.finished() {
				t.Errorf("rank %d, round %d: completed out of order", rank, i)
			}
		}
		return nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDriverIsStopped: by its context, by an error of the appliance's, by Close.
func TestDriverIsStopped(t *testing.T) {
	for name, stop := range map[string]func(*testing.T, *Worker, context.CancelFunc){
		"context": func(_ *testing.T, _ *Worker, cancel context.CancelFunc) { cancel() },
		"close": func(t *testing.T, w *Worker, _ context.CancelFunc) {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		},
		"failure": func(t *testing.T, w *Worker, _ context.CancelFunc) {
			if err := w.post(request{fail: errors.New("no more")}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoopback(t, 2, 0).join(t, 1)[0]
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- w.AllReduce(ctx, make([]float32, 100)) }()
			// The other rank never comes: what was sent is in flight until it is stopped.
			for w.Stats().PacketsSent == 0 {
				time.Sleep(time.Millisecond)
			}
			stop(t, w, cancel)
			select {
			case err := <-ended:
				if !errors.Is(err, ErrBroken) && !errors.Is(err, ErrClosed) {
					t.Errorf("the driver ended with %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the driver is not stopped")
			}
		})
	}
}

func TestReduceAll(t *testing.T) {
	all := newLoopback(t, 3, 0.01).join(t, 3)
	lengths := []int{1, 70, 64, 5, 300, 2}
	for _, err := range each(all, func(rank int, w *Worker) error {
		for range 5 {
			var tensors [][]int32
			for i, n := range lengths {
				tensors = append(tensors, slices.Repeat([]int32{int32(i + rank)}, n))
			}
			if err := ReduceAll(t.Context(), w, tensors, Sum); err != nil {
				return err
			}
			for i, n := range lengths {
				if !slices.Equal(tensors[i], slices.Repeat([]int32{int32(3*i + 3)}, n)) {
					t.Errorf("rank %d, tensor %d: %v", rank, i, tensors[i])
				}
			}
		}
		h, err := ReduceAllAsync(w, [][]float32{{1, 2}, {3}}, Average)
		if err != nil {
			return err
		}
		if err := h.Wait(t.Context()); err != nil {
			return err
		}
		// Ranks that cut the same elements differently must not get each other's.
		cuts := [][]float32{{1}, {2, 3}}
		if rank == 2 {
			cuts = [][]float32{{1, 2}, {3}}
		}
		var disagreement *DisagreementError
		if err := ReduceAll(t.Context(), w, cuts, Sum); !errors.As(err, &disagreement) || !disagreement.Layout {
			t.Errorf("rank %d: tensors of other lengths: %v", rank, err)
		}
		return nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := ReduceAll(t.Context(), all[0], [][]float32{}, Sum); err == nil {
		t.Error("no tensors were reduced")
	}
}

func TestTuningThatCannotBe(t *testing.T) {
	l := newLoopback(t, 1, 0)
	t.Setenv("SPILLWAY_TRANSPORT", "pigeon")
	if _, err := JoinWith(l.of(0)); err == nil || !contains(err, "SPILLWAY_TRANSPORT", "pigeon", "af_xdp") {
		t.Errorf("an unknown transport in the environment: %v", err)
	}
	t.Setenv("SPILLWAY_TRANSPORT", "udp")
	t.Setenv("SPILLWAY_BUSY_POLL", "much")
	if _, err := JoinWith(l.of(0)); err == nil || !contains(err, "SPILLWAY_BUSY_POLL", "much") {
		t.Errorf("a time that is none: %v", err)
	}
	t.Setenv("SPILLWAY_BUSY_POLL", "1h")
	if _, err := JoinWith(l.of(0)); err == nil || !contains(err, "SPILLWAY_BUSY_POLL", "1h0m0s", MaxBusyPoll.String()) {
		t.Errorf("too long a time: %v", err)
	}
	// What an option says counts, whatever the environment does.
	if _, err := JoinWith(l.of(0), WithBusyPoll(0), WithTransport("pigeon")); err == nil || !contains(err, "pigeon") {
		t.Errorf("an unknown transport as an option: %v", err)
	}
	w := l.join(t, 1, WithBusyPoll(time.Microsecond))[0]
	if kind := w.Stats().Transport.Kind; kind != TransportUDP {
		t.Errorf("transport %s, want what the environment says", kind)
	}
}

func contains(err error, words ...string) bool {
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			return false
		}
	}
	return true
}
