package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Serve is the parameter server: it takes as many connections as the first one says its job has workers, sums their tensors until all have left, and
// begins anew. It returns when the context or the listener ends, or a connection breaks.
func Serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // Accept then fails
	defer stop()
	for {
		if err := serveJob(ctx, listener); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("parameter server: %w", err)
		}
	}
}

// serveJob is one job, from its first connection to its last one's end.
func serveJob(ctx context.Context, listener net.Listener) error {
	var conns []net.Conn
	closeAll := func() {
		for _, conn := range conns {
			_ = conn.Close() // all was written, or has failed; closed twice is closed
		}
	}
	defer closeAll()
	var job hello
	for len(conns) == 0 || len(conns) < int(job.workers) {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		conns = append(conns, conn)
		said, err := readHello(conn)
		if err != nil {
			return err
		}
		if len(conns) > 1 && said != job {
			return fmt.Errorf("a worker says %+v, another of its job %+v", said, job)
		}
		job = said
	}
	serving, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, closeAll) // reads and writes then fail
	defer stop()
	s := newSummation(len(conns), int(job.elements))
	var receiving sync.WaitGroup
	for rank, conn := range conns {
		receiving.Add(1)
		serving.Go(func() error {
			defer receiving.Done()
			return s.receive(conn)
		})
		serving.Go(func() error { return s.publish(conn, s.ready[rank]) })
	}
	receiving.Wait() // then nobody publishes any more
	for _, ready := range s.ready {
		close(ready)
	}
	return serving.Wait()
}

// A summation is the memory of a job: two tensors of sums, since a worker that has its result of one tensor sends the next one while others still receive.
// Nobody can be two ahead: a result needs everybody's contribution, and nobody contributes before it has the result before.
type summation struct {
	workers, elements int
	sums              [2][]pieceSum
	ready             []chan []float32 // by connection: sums to be written to it
}

// pieceSum is a piece of a sum. Each has a lock, held while a contribution is added, so that connections meet only where they are in the same piece.
type pieceSum struct {
	mu            sync.Mutex
	values        []float32 // the sum, and after the last contribution what is published
	contributions int
}

func newSummation(workers, elements int) *summation {
	s := &summation{workers: workers, elements: elements}
	for i := range s.sums {
		s.sums[i] = make([]pieceSum, pieces(elements))
	}
	for range workers {
		// As much as can be published before the connection's worker contributes again: putting into it never waits.
		s.ready = append(s.ready, make(chan []float32, pieces(elements)))
	}
	return s
}

// receive takes a connection's tensors until it ends between two of them.
func (s *summation) receive(conn net.Conn) error {
	spare := make([]float32, min(s.elements, pieceElements))
	for tensor := 0; ; tensor++ {
		for number := range s.sums[0] {
			length := min(s.elements-number*pieceElements, pieceElements)
			switch _, err := io.ReadFull(conn, bytesOf(spare[:length])); {
			case errors.Is(err, io.EOF) && number == 0:
				return nil
			case err != nil:
				return fmt.Errorf("receive piece %d: %w", number, err)
			}
			spare = s.add(&s.sums[tensor%2][number], spare, length)
		}
	}
}

// add sums a contribution, and returns memory for the next one. The first contribution of a piece becomes the sum itself, and the memory of
// the one before the last, which everybody has received, is free.
func (s *summation) add(sum *pieceSum, contribution []float32, length int) (spare []float32) {
	sum.mu.Lock()
	defer sum.mu.Unlock()
	spare = contribution
	if sum.contributions == 0 {
		spare, sum.values = sum.values, contribution
		if spare == nil {
			spare = make([]float32, cap(contribution))
		}
	} else {
		addTo(sum.values[:length], contribution[:length])
	}
	if sum.contributions++; sum.contributions == s.workers {
		sum.contributions = 0
		for _, ready := range s.ready {
			ready <- sum.values[:length]
		}
	}
	return spare[:cap(spare)]
}

// publish writes sums to a connection.
func (s *summation) publish(conn net.Conn, ready <-chan []float32) error {
	for values := range ready {
		if _, err := conn.Write(bytesOf(values)); err != nil {
			return fmt.Errorf("send a sum: %w", err)
		}
	}
	return nil
}

// addTo adds elements, eight in a step of the loop: that is what the compiler needs to keep the adder busy.
func addTo(sum, more []float32) {
	more = more[:len(sum)]
	for len(sum) >= 8 {
		s, m := (*[8]float32)(sum), (*[8]float32)(more)
		s[0] += m[0]
		s[1] += m[1]
		s[2] += m[2]
		s[3] += m[3]
		s[4] += m[4]
		s[5] += m[5]
		s[6] += m[6]
		s[7] += m[7]
		sum, more = sum[8:], more[8:]
	}
	for i := range sum {
		sum[i] += more[i]
	}
}
