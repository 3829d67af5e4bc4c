package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/urfave/cli/v2"

	"spillway/loadtest/peers"
)

// peerSetup is the first question to a rank of a peer, and to the parameter server.
type peerSetup struct {
	Rank    int    `json:"rank"`
	Workers int    `json:"workers"`
	Address string `json:"address"` // where the ranks meet, or the server is
}

// peerServerCommand is the parameter server that `compare` starts: it ends when its stdin does.
func peerServerCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:   "peer-server",
		Usage:  "the parameter server of `compare`, which starts it",
		Hidden: true,
		Action: func(c *cli.Context) error { return runPeerServer(c.Context, s.in, s.out) },
	}
}

func runPeerServer(ctx context.Context, in io.Reader, out io.Writer) error {
	questions := json.NewDecoder(in)
	var setup peerSetup
	if err := questions.Decode(&setup); err != nil {
		return fmt.Errorf("read the setup from stdin: %w (this command is for `spill-load compare` to start)", err)
	}
	listener, err := net.Listen("tcp4", setup.Address)
	if err != nil {
		return fmt.Errorf("parameter server: %w", err)
	}
	if err := json.NewEncoder(out).Encode(answer{}); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with stdin, or with the process
		var more json.RawMessage
		cancel(questions.Decode(&more))
	}()
	if err := peers.Serve(ctx, listener); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// peerWorkerCommand is a worker of the parameter server that `compare` starts; it is spoken to as those of `run` are.
func peerWorkerCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:   "peer-worker",
		Usage:  "a worker of the parameter server of `compare`, which starts it",
		Hidden: true,
		Action: func(c *cli.Context) error { return runPeerWorker(c.Context, s.in, s.out) },
	}
}

// A peerWorker is the state of such a process.
type peerWorker struct {
	setup   peerSetup
	client  *peers.Client
	tensors [][]float32
	input   *sharedTensor
	sum     *sharedTensor
	bound   *sharedTensor
	first   int // the iteration of the first tensor
	count   int
}

// runPeerWorker is the process's life.
func runPeerWorker(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	answers, questions := json.NewEncoder(out), json.NewDecoder(in)
	w := &peerWorker{}
	if err := questions.Decode(&w.setup); err != nil {
		return fmt.Errorf("read the setup from stdin: %w (this command is for `spill-load compare` to start)", err)
	}
	defer func() { err = errors.Join(err, w.unload()) }()
	a := answer{}
	for {
		if err := answers.Encode(a); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		var o order
		if err := questions.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		if a, err = w.obey(ctx, o); err != nil {
			return err
		}
	}
}

// obey does what an order says. An error of the collective is part of the answer.
func (w *peerWorker) obey(ctx context.Context, o order) (answer, error) {
	switch o.Do {
	case orderLoad:
		return answer{}, w.load(ctx, o)
	case orderFill:
		w.first, w.count = o.First, o.Count
		for i := range w.count {
			scale := float32(int(1) << ((w.first + i) % variants))
			for at, value := range w.input.float32s() {
				w.tensors[i][at] = value * scale
			}
		}
		return answer{}, nil
	case orderStart:
		return w.start(ctx, o.At)
	case orderCheck:
		a := answer{}
		for i := range w.count {
			if at := wrongPeer(w.tensors[i], w.sum.float64s(), w.bound.float64s(), w.first+i); at >= 0 {
				a.Wrong = append(a.Wrong, wrong{Rank: w.setup.Rank, Iteration: w.first + i, Element: at})
			}
		}
		return a, nil
	}
	return answer{}, fmt.Errorf("unknown order %q", o.Do)
}

// load makes room for other tensors, and a connection for them.
func (w *peerWorker) load(ctx context.Context, o order) (err error) {
	if err := w.unload(); err != nil {
		return err
	}
	for range o.Batch {
		w.tensors = append(w.tensors, make([]float32, o.Elements))
	}
	for _, shared := range []struct {
		to   **sharedTensor
		path string
		size int
	}{{&w.input, o.Input, o.Elements}, {&w.sum, o.Sum, 2 * o.Elements}, {&w.bound, o.Bound, 2 * o.Elements}} {
		file, err := os.Open(shared.path)
		if err != nil {
			return err
		}
		if *shared.to, err = mapTensor(file, shared.size, readOnly); err != nil {
			return err
		}
	}
	w.client, err = peers.Dial(ctx, w.setup.Address, w.setup.Workers, o.Elements)
	return err
}

// unload is the end of what load began.
func (w *peerWorker) unload() error {
	var all []error
	for _, shared := range []**sharedTensor{&w.input, &w.sum, &w.bound} {
		if *shared != nil {
			all = append(all, (*shared).close())
			*shared = nil
		}
	}
	if w.client != nil {
		all = append(all, w.client.Close())
		w.client = nil
	}
	w.tensors = nil
	return errors.Join(all...)
}

// start all-reduces the tensors one after the other, from a time that all workers were told.
func (w *peerWorker) start(ctx context.Context, at int64) (answer, error) {
	if err := waitUntil(ctx, at); err != nil {
		return answer{}, err
	}
	a := answer{Spans: make([]span, w.count)}
	for i := range a.Spans {
		var err error
		if a.Spans[i].Start, err = monotonic(); err != nil {
			return answer{}, err
		}
		if err := w.client.AllReduce(w.tensors[i]); err != nil {
			return answer{Error: err.Error()}, nil
		}
		if a.Spans[i].End, err = monotonic(); err != nil {
			return answer{}, err
		}
	}
	return a, nil
}
