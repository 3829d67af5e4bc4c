package systemdtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"spillway/appliance/certs"
	"spillway/loadtest/reference"
	"spillway/wire"
	"spillway/worker"
)

// The job.
const (
	workers  = 3
	elements = 4_001 // of a tensor: several windows of chunks, the last of them short
)

// workerOrder is what a worker's process is told first.
type workerOrder struct {
	Addr, Job                   string
	Rank                        int
	Certificate, Key, Authority string
}

// until lets a worker go on to that step, and not beyond.
type until struct{ Step int }

// done is what a worker says of a step, -1 when it has joined.
type done struct {
	Step       int
	Hash       string // of the sums
	Generation uint8
}

// beWorker is a worker's process: it joins, and takes step after step as far as it is let. It ends with its input.
func beWorker(o workerOrder) error {
	tls, err := certs.ClientTLS(o.Certificate, o.Key, o.Authority)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w, err := worker.Join(ctx, o.Addr, o.Job, o.Rank, worker.WithTLS(tls))
	if err != nil {
		return err
	}
	say := json.NewEncoder(os.Stdout)
	if err := say.Encode(done{Step: -1, Generation: w.Params().Generation}); err != nil {
		return err
	}
	step := 0
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var u until
		if err := json.Unmarshal(lines.Bytes(), &u); err != nil {
			return err
		}
		for ; step < u.Step; step++ {
			floats, ints := contribution(o.Rank, step)
			if err := w.AllReduce(context.Background(), floats); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
			if err := w.AllReduceInt32(context.Background(), ints, wire.Sum); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
			if err := say.Encode(done{step, hashOf(floats, ints), w.Params().Generation}); err != nil {
				return err
			}
		}
	}
	return w.Close()
}

// contribution is what a rank puts into a step.
func contribution(rank, step int) ([]float32, []int32) {
	random := rand.New(rand.NewPCG(uint64(rank), uint64(step)))
	floats, ints := make([]float32, elements), make([]int32, elements)
	for i := range floats {
		floats[i], ints[i] = float32(random.NormFloat64()), random.Int32N(1<<20)-1<<19
	}
	return floats, ints
}

func hashOf(floats []float32, ints []int32) string {
	hash := sha256.New()
	for _, data := range []any{floats, ints} {
		if err := binary.Write(hash, binary.BigEndian, data); err != nil {
			panic(err) // slices of numbers can be written, and a hash takes everything
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:12])
}

// expected is the hash of a step's sums, made apart from the library.
func expected(t *testing.T, step, chunk int) string {
	t.Helper()
	var floats [][]float32
	sums := make([]int32, elements)
	for rank := range workers {
		f, ints := contribution(rank, step)
		floats = append(floats, f)
		for i, v := range ints {
			sums[i] += v
		}
	}
	sum, err := reference.SumFloat32(floats, chunk)
	must(t, err)
	return hashOf(sum, sums)
}

// run is the workers of a job, each a process in its namespace.
type run struct {
	t       *testing.T
	workers []*workerProcess
	limit   int // the step that all are let to
}

type workerProcess struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	said   bytes.Buffer  // its standard error
	joined chan struct{} // closed when it has
	ended  chan struct{} // closed when its output has

	mu         sync.Mutex // guards what follows
	steps      []string   // hashes, by step
	generation uint8
}

// startWorkers has them join.
func startWorkers(t *testing.T, n *network, order workerOrder) *run {
	t.Helper()
	r := &run{t: t}
	for rank := range workers {
		order.Rank = rank
		r.workers = append(r.workers, startWorker(t, n.workers[rank], order))
	}
	for rank, w := range r.workers {
		select {
		case <-w.joined:
		case <-w.ended:
			t.Fatalf("worker %d: %v\n%s", rank, w.cmd.Wait(), w.said.String())
		case <-time.After(time.Minute):
			t.Fatalf("worker %d has not joined", rank)
		}
	}
	return r
}

func startWorker(t *testing.T, namespace netns.NsHandle, order workerOrder) *workerProcess {
	t.Helper()
	text, err := json.Marshal(order)
	must(t, err)
	w := &workerProcess{cmd: exec.Command("/proc/self/exe"), joined: make(chan struct{}), ended: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), modeVariable+"=worker "+string(text))
	w.cmd.Stderr = &w.said
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	w.stdin, err = w.cmd.StdinPipe()
	must(t, err)
	stdout, err := w.cmd.StdoutPipe()
	must(t, err)
	must(t, start(namespace, w.cmd))
	go w.listen(stdout)
	t.Cleanup(func() {
		if w.cmd.ProcessState == nil {
			must(t, w.cmd.Process.Kill())
			<-w.ended
			_ = w.cmd.Wait() // killed
		}
	})
	return w
}

// listen owns the worker's output.
func (w *workerProcess) listen(stdout io.Reader) {
	defer close(w.ended)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var d done
		if json.Unmarshal(lines.Bytes(), &d) != nil {
			continue
		}
		w.mu.Lock()
		w.generation = d.Generation
		if d.Step >= 0 {
			w.steps = append(w.steps, d.Hash)
		}
		w.mu.Unlock()
		if d.Step < 0 {
			close(w.joined)
		}
	}
}

func (w *workerProcess) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.steps)
}

// reached is the first step that not all workers have done.
func (r *run) reached() int {
	least := r.workers[0].count()
	for _, w := range r.workers[1:] {
		least = min(least, w.count())
	}
	return least
}

// await waits until all workers have done so many steps.
func (r *run) await(steps int) {
	r.t.Helper()
	poll(r.t, time.Minute, fmt.Sprintf("step %d", steps), func() error {
		for rank, w := range r.workers {
			select {
			case <-w.ended:
				if w.count() < steps {
					return fmt.Errorf("worker %d has ended at step %d: %s", rank, w.count(), lastLines(w.said.String(), 5))
				}
			default:
			}
		}
		if at := r.reached(); at < steps {
			return fmt.Errorf("they are at step %d", at)
		}
		return nil
	})
}

// ahead is how many steps workers are let beyond the slowest one's: enough for a while, and few to wait for at the end.
const ahead = 100

// during has the workers reduce without a pause from before f until after it, and returns how many steps all of them did meanwhile.
func (r *run) during(f func()) int {
	r.t.Helper()
	before := r.reached()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if next := r.reached() + ahead; next > r.limit {
				r.limit = next
				for _, w := range r.workers {
					_ = json.NewEncoder(w.stdin).Encode(until{next}) // one that has ended is found by await
				}
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	r.await(before + 10)
	f()
	r.await(r.reached() + 10)
	return r.reached() - before
}

// finish lets the workers come to an end, and compares every bit of every step at every rank with sums that were made apart.
func (r *run) finish(chunk int) {
	r.t.Helper()
	steps := r.limit
	r.await(steps)
	for rank, w := range r.workers {
		must(r.t, w.stdin.Close())
		select {
		case <-w.ended:
		case <-time.After(time.Minute):
			r.t.Fatalf("worker %d does not end", rank)
		}
		if err := w.cmd.Wait(); err != nil {
			r.t.Errorf("worker %d: %v\n%s", rank, err, w.said.String())
		}
		if w.generation != r.workers[0].generation {
			r.t.Errorf("worker %d ends in generation %d, worker 0 in %d", rank, w.generation, r.workers[0].generation)
		}
	}
	wrong := 0
	for step := range steps {
		want := expected(r.t, step, chunk)
		for rank, w := range r.workers {
			if w.steps[step] != want {
				wrong++
				r.t.Errorf("step %d at rank %d: the sums are wrong", step, rank)
			}
		}
		if wrong > 10 {
			r.t.Fatal("and so on")
		}
	}
}
