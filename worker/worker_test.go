package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/sim"
	"spillway/wire"
	"spillway/xdp"
)

// aggregator is the compiled program; the tests run packets through it one by one.
var aggregator *xdp.Aggregator

func TestMain(m *testing.M) {
	var err error
	if aggregator, err = xdp.Load(xdp.Config{MaxJobs: 8}); err != nil {
		fmt.Fprintf(os.Stderr, "%+v\n", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := aggregator.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// loopback is a job whose home is at 127.0.0.1 and whose workers are at 127.0.0.2 and up. XDP cannot answer on a loopback interface, so
// a socket stands at the home's address, and what it gets goes through the compiled aggregator, frame by frame.
type loopback struct {
	params Params
	conn   *net.UDPConn
	done   chan struct{}
}

func (l *loopback) of(rank int) Params {
	p := l.params
	p.Rank, p.Addr = rank, workerAddr(rank)
	return p
}

func workerAddr(rank int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, byte(2 + rank)}) }

// newLoopback starts the home; it loses packets of both directions with the given probability.
func newLoopback(t *testing.T, workers int, loss float64) *loopback {
	t.Helper()
	return newQuorumLoopback(t, workers, loss, Policy{})
}

// newQuorumLoopback is one that need not wait for all.
func newQuorumLoopback(t *testing.T, workers int, loss float64, policy Policy) *loopback {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadBuffer(8 << 20); err != nil {
		t.Fatal(err)
	}
	at := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	l := &loopback{conn: conn, done: make(chan struct{}), params: Params{Job: 5, Generation: 2, Cookie: 99, Workers: workers, Elements: 64,
		Window: 64, Homes: []Home{{Addr: at, Ports: 1}}, WorkerPort: at.Port(), Silence: 20 * time.Second, Policy: policy}}
	group := netip.MustParseAddr("239.77.0.5")
	job := xdp.Job{ID: 5, Generation: 2, Cookie: 99, Elements: 64, Window: 64, Workers: workers,
		Home: netip.AddrPortFrom(at.Addr(), wire.BasePort), HomePorts: 1, Group: group, WorkerPort: at.Port(),
		Policy: xdp.Policy{Quorum: policy.Quorum, After: policy.After, MaxLag: policy.MaxLag}}
	for rank := range workers {
		job.Members = append(job.Members, xdp.Member{Addr: workerAddr(rank), Bits: 1 << rank})
	}
	if err := aggregator.AddJob(job); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	go func() {
		defer close(l.done)
		b := make([]byte, 1<<16)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return // closed
			}
			if r.Float64() < loss {
				continue
			}
			frame := sim.NewFrame(from, job.Home, n)
			copy(frame[sim.HeaderBytes:], b[:n])
			verdict, reply, err := aggregator.Process(frame)
			if err != nil {
				t.Error(err)
				return
			}
			if verdict != xdp.Transmit {
				continue
			}
			for rank := range workers {
				to := netip.AddrFrom4([4]byte(reply[30:34]))
				if (to == workerAddr(rank) || to == group) && r.Float64() >= loss {
					if _, err := conn.WriteToUDPAddrPort(reply[sim.HeaderBytes:], netip.AddrPortFrom(workerAddr(rank), at.Port())); err != nil {
						continue // a worker that is not there
					}
				}
			}
		}
	}()
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		<-l.done
		if err := aggregator.RemoveJob(job.ID); err != nil {
			t.Error(err)
		}
	})
	return l
}

// join makes the given ranks join, and leave when the test ends.
func (l *loopback) join(t *testing.T, ranks int, opts ...Option) []*Worker {
	t.Helper()
	var all []*Worker
	for rank := range ranks {
		w, err := JoinWith(l.of(rank), append([]Option{WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
		all = append(all, w)
	}
	return all
}

// each runs f for every worker at once and returns the errors.
func each(all []*Worker, f func(rank int, w *Worker) error) []error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for rank, w := range all {
		group.Go(func() { errs[rank] = f(rank, w) })
	}
	group.Wait()
	return errs
}

func TestAllReduceOverSockets(t *testing.T) {
	for _, c := range []struct {
		name string
		loss float64
		opts []Option
	}{
		{"offload", 0, nil},
		{"plain", 0, []Option{WithoutOffload()}},
		{"loss", 0.02, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := newLoopback(t, 3, c.loss).join(t, 3, c.opts...)
			for _, err := range each(all, func(rank int, w *Worker) error {
				for _, n := range []int{1, 64, 1000, 30_000} {
					floats, ints := make([]float32, n), make([]int32, n)
					for i := range floats {
						floats[i], ints[i] = float32(i*(rank+1)), int32(i*(rank+1))
					}
					first, err := w.AllReduceAsync(floats)
					if err != nil {
						return err
					}
					if err := w.AllReduceInt32(t.Context(), ints, wire.Max); err != nil {
						return err
					}
					select {
					case <-first.Done():
					default:
						return errors.New("collectives completed out of order")
					}
					if err := first.Wait(t.Context()); err != nil {
						return err
					}
					for i := range floats {
						if floats[i] != float32(6*i) || ints[i] != int32(3*i) {
							t.Errorf("rank %d, element %d of %d: %g and %d", rank, i, n, floats[i], ints[i])
							break
						}
					}
				}
				return nil
			}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			s := all[0].Stats()
			if s.Collectives != 8 || s.Outstanding != 0 || s.Transport.Strangers != 0 || s.BadPackets+s.ForeignPackets+s.MismatchedPacket+s.UnaskedResults != 0 {
				t.Errorf("stats %+v", s)
			}
			if offload := c.opts == nil; s.Transport.GSO != offload || s.Transport.GRO != offload || offload && c.loss == 0 && s.Transport.SendCalls*2 > s.PacketsSent {
				t.Errorf("offload: %+v for %d packets", s.Transport, s.PacketsSent)
			}
		})
	}
}

func TestErrorsThatTheJobSurvives(t *testing.T) {
	all := newLoopback(t, 2, 0).join(t, 2)
	for rank, err := range each(all, func(rank int, w *Worker) error {
		data := make([]float32, 200)
		if rank == 1 {
			data[130] = float32(math.NaN())
		}
		return w.AllReduce(t.Context(), data)
	}) {
		var nonFinite *NonFiniteError
		if !errors.As(err, &nonFinite) || nonFinite.Rank != 1 || nonFinite.First != 128 || nonFinite.Last != 192 || errors.Is(err, ErrBroken) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	for rank, err := range each(all, func(_ int, w *Worker) error {
		return w.AllReduceInt32(t.Context(), []int32{math.MaxInt32}, wire.Sum)
	}) {
		var saturated *SaturatedError
		if !errors.As(err, &saturated) || errors.Is(err, ErrBroken) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	for rank, err := range each(all, func(_ int, w *Worker) error { return w.AllReduce(t.Context(), []float32{1}) }) {
		if err != nil {
			t.Errorf("rank %d: %v after errors that the job survives", rank, err)
		}
	}
	for _, err := range []error{all[0].AllReduce(t.Context(), nil), all[0].AllReduceInt32(t.Context(), []int32{}, wire.Sum), all[0].AllReduceInt32(t.Context(), []int32{1}, 9)} {
		if err == nil || errors.Is(err, ErrBroken) {
			t.Errorf("bad argument: %v", err)
		}
	}
	if s := all[0].Stats(); s.Collectives != 3 {
		t.Errorf("bad arguments were issued: %d collectives", s.Collectives)
	}
}

func TestDisagreementBreaksTheJob(t *testing.T) {
	all := newLoopback(t, 2, 0).join(t, 2)
	for rank, err := range each(all, func(rank int, w *Worker) error { return w.AllReduce(t.Context(), make([]float32, 100+rank)) }) {
		var disagreement *DisagreementError
		if !errors.As(err, &disagreement) || !errors.Is(err, ErrBroken) || disagreement.MinElements != 100 || disagreement.MaxElements != 101 {
			t.Errorf("rank %d: %v", rank, err)
		}
		if err := all[rank].AllReduce(t.Context(), []float32{1}); !errors.Is(err, ErrBroken) {
			t.Errorf("rank %d: %v after a disagreement", rank, err)
		}
	}
}

func TestSilenceNamesWhoIsMissing(t *testing.T) {
	l := newLoopback(t, 3, 0)
	l.params.Silence = 300 * time.Millisecond
	begin := time.Now()
	for rank, err := range each(l.join(t, 2), func(_ int, w *Worker) error { return w.AllReduce(t.Context(), make([]float32, 100)) }) {
		var missing *MissingRanksError
		if !errors.As(err, &missing) || len(missing.Ranks) != 1 || missing.Ranks[0] != 2 || missing.Since.Before(begin) || missing.Since.After(time.Now()) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func TestSilentHome(t *testing.T) {
	l := newLoopback(t, 2, 1)
	l.params.Silence = 200 * time.Millisecond
	var silent *HomeSilentError
	if err := l.join(t, 1)[0].AllReduce(t.Context(), make([]float32, 100)); !errors.As(err, &silent) || silent.Home != l.params.Homes[0].Addr || !errors.Is(err, ErrBroken) {
		t.Errorf("error %v", err)
	}
}

func TestCancelIsPromptAndSticky(t *testing.T) {
	l := newLoopback(t, 2, 0)
	w := l.join(t, 1)[0]
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.AllReduce(over, []float32{1}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrBroken) {
		t.Errorf("a context that had ended before: %v", err)
	}
	later, err := w.AllReduceAsync([]float32{1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := w.AllReduce(ctx, make([]float32, 1000)); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrBroken) {
		t.Errorf("cancelled: %v", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("cancelling took %s", took)
	}
	if err := later.Wait(t.Context()); !errors.Is(err, ErrBroken) {
		t.Errorf("in flight with it: %v", err)
	}
	if err := w.AllReduce(t.Context(), []float32{1}); !errors.Is(err, ErrBroken) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestCloseFailsWhatIsInFlightAndLeaksNothing(t *testing.T) {
	l := newLoopback(t, 2, 0)
	before := openFiles(t)
	for range 5 {
		w := l.join(t, 1)[0]
		h, err := w.AllReduceAsync(make([]float32, 1000))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := h.Wait(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("in flight: %v", err)
		}
		if err := w.AllReduce(t.Context(), []float32{1}); !errors.Is(err, ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
		if s := w.Stats(); s.PacketsSent == 0 && s.Collectives == 0 {
			t.Errorf("stats of a closed worker: %+v", s)
		}
		if err := w.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	}
	// A Join that fails half-way leaves nothing behind either: the port is taken.
	l.join(t, 1)
	after := openFiles(t)
	if _, err := JoinWith(l.of(0)); err == nil || !strings.Contains(err.Error(), "127.0.0.2") {
		t.Errorf("second worker at one address: %v", err)
	}
	if got := openFiles(t); got != after {
		t.Errorf("%d open files after a failed Join, %d before", got, after)
	}
	const perWorker = 2 // a socket and an eventfd in a unicast job
	if after-before != perWorker {
		t.Errorf("%d files are open for one worker, want %d", after-before, perWorker)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	good := Params{Workers: 2, Elements: 32, Window: 1, Homes: []Home{{Addr: netip.MustParseAddrPort("10.0.0.1:9700")}}, WorkerPort: 9800}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Params){
		"workers 65":        func(p *Params) { p.Workers = 65 },
		"rank 2":            func(p *Params) { p.Rank = 2 },
		"elements 33":       func(p *Params) { p.Elements = 33 },
		"elements 864":      func(p *Params) { p.Elements = 864 },
		"window 0":          func(p *Params) { p.Window = 0 },
		"home ports 3":      func(p *Params) { p.Homes[0].Ports = 3 },
		"beyond 65535":      func(p *Params) { p.Homes[0] = Home{Addr: netip.MustParseAddrPort("10.0.0.1:65535"), Ports: 2} },
		"IPv4 address and":  func(p *Params) { p.Homes[0].Addr = netip.MustParseAddrPort("[::1]:9700") },
		"group 10.0.0.9":    func(p *Params) { p.Group = netip.MustParseAddr("10.0.0.9") },
		"worker port":       func(p *Params) { p.WorkerPort = 0 },
		"own address fe80:": func(p *Params) { p.Addr = netip.MustParseAddr("fe80::1") },
		"0 homes are not":   func(p *Params) { p.Homes = nil },
		"is that of a home": func(p *Params) { p.Addr = p.Homes[0].Addr.Addr() },
		"silence":           func(p *Params) { p.Silence = -1 },
		"priority 0 of a":   func(p *Params) { p.Tor = &TorRegion{Slots: 4, Period: 4} },
		"priority 128 of a": func(p *Params) { p.Tor, p.Priority = &TorRegion{Slots: 4, Period: 4}, 128 },
		"tor slots 3 is":    func(p *Params) { p.Tor, p.Priority = &TorRegion{Slots: 3, Period: 4}, 1 },
		"tor base 6 is":     func(p *Params) { p.Tor, p.Priority = &TorRegion{Base: 6, Slots: 4, Period: 4}, 1 },
		"below 65535":       func(p *Params) { p.Tor, p.Priority = &TorRegion{Base: 65534, Slots: 2, Period: 4}, 1 },
		"tor period 5":      func(p *Params) { p.Tor, p.Priority = &TorRegion{Slots: 4, Period: 5}, 1 },
		"from the window":   func(p *Params) { p.Tor, p.Priority, p.Window = &TorRegion{Slots: 4, Period: 8}, 1, 9 },
		"retransmission":    func(p *Params) { p.MinRTO, p.MaxRTO = 5, 4 },
	} {
		p := good
		p.Homes = slices.Clone(good.Homes)
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
