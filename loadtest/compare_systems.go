package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spillway/loadtest/peers"
	"spillway/loadtest/rack"
)

// The systems that are compared, in the order of the report.
const (
	systemSpillway = "spillway"
	systemGloo     = "gloo"
	systemOpenMPI  = "openmpi"
	systemServer   = "tcp-ps"
)

// systemNames has a line about each.
var systemNames = []struct{ name, title string }{
	{systemSpillway, "Spillway"},
	{systemGloo, "Gloo (torch.distributed)"},
	{systemOpenMPI, "Open MPI (mpi4py)"},
	{systemServer, "TCP parameter server (ours)"},
}

// systemTitle is what pages call a system.
func systemTitle(name string) string {
	for _, s := range systemNames {
		if s.name == name {
			return s.title
		}
	}
	return name
}

// ranksMeet is where the ranks of Gloo meet, at rank 0, and serverPort where the parameter server is.
const ranksMeet, serverPort = 29600, 29700

// A contestant is a system on a rack: its workers all-reduce tensors of one size after the other.
type contestant struct {
	name     string
	streams  streams
	shaped   bool  // the links have a rate
	crew     *crew // of a peer, for all sizes; Spillway's workers are started for each
	command  string
	versions map[string]string
	ranks    *mpiRanks // of Open MPI

	session *session      // of the size that is measured
	sum     *sharedTensor // what Spillway's must be
}

// peer reports whether it is not Spillway: then it speaks TCP.
func (c *contestant) peer() bool { return c.name != systemSpillway }

// start starts the processes of a peer.
func (c *contestant) start(ctx context.Context, r *rack.Rack, o *compareOptions) (err error) {
	setup := func(rank int) any {
		return peerSetup{Rank: rank, Workers: r.Workers(), Address: fmt.Sprintf("%s:%d", rack.WorkerAddr(0), ranksMeet)}
	}
	switch c.name {
	case systemSpillway:
		return nil
	case systemGloo:
		err = c.startGloo(r, o)
	case systemOpenMPI:
		c.crew, c.ranks, c.command, err = startMPI(ctx, r, o, c.shaped)
	case systemServer:
		setup = func(rank int) any {
			return peerSetup{Rank: rank, Workers: r.Workers(), Address: fmt.Sprintf("%s:%d", rack.ServerAddr(), serverPort)}
		}
		err = c.startServer(ctx, r, o, setup(0))
	}
	if err != nil {
		return err
	}
	answers, err := c.crew.ask(ctx, setup)
	if err != nil {
		return err
	}
	c.versions = answers[0].Versions
	return nil
}

// peerEnvironment is that of a rank in Python. One thread each: namespaces share the cores.
func peerEnvironment() []string {
	return []string{"PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=eth0"}
}

func (c *contestant) startGloo(r *rack.Rack, o *compareOptions) error {
	c.crew = &crew{}
	for rank := range r.Workers() {
		p, err := r.StartWorker(rank, rack.Command{Path: o.python, Args: []string{o.script(), systemGloo}, Env: peerEnvironment(), Stderr: o.err, Family: true})
		if err != nil {
			return err
		}
		c.crew.add(p)
	}
	c.command = fmt.Sprintf("%s allreduce.py gloo  (in each worker's namespace; %s)", o.python, strings.Join(peerEnvironment()[1:], " "))
	return nil
}

func (c *contestant) startServer(ctx context.Context, r *rack.Rack, o *compareOptions, setup any) error {
	server, err := r.StartServer(rack.Command{Args: []string{"peer-server"}, Stderr: o.err})
	if err != nil {
		return err
	}
	if err := server.Send(setup); err != nil {
		return err
	}
	var ready answer
	if err := server.Receive(ctx, &ready); err != nil {
		return err
	}
	c.command = fmt.Sprintf("spill-load peer-server at %s:%d, spill-load peer-worker in each worker's namespace", rack.ServerAddr(), serverPort)
	c.crew, err = newCrew(r, o.streams, nil, []string{"peer-worker"})
	return err
}

// load makes it ready for a size.
func (c *contestant) load(ctx context.Context, r *rack.Rack, t *task, tensors *peerTensors, progress *Progress) (err error) {
	c.session = &session{task: t, rack: r, crew: c.crew, progress: progress}
	if c.peer() {
		_, err := c.crew.ask(ctx, func(rank int) any { return tensors.order(t, rank) })
		return err
	}
	if c.sum, err = newSharedTensor(t.tensorElements()); err != nil {
		return err
	}
	if err := expect(ctx, t, 0, c.sum, progress); err != nil {
		return err
	}
	if err := r.AddJob(ctx, t.job()); err != nil {
		return err
	}
	if c.session.crew, err = newCrew(r, c.streams, nil, []string{"worker"}, c.sum.file); err != nil {
		return err
	}
	return c.session.begin(ctx)
}

// unload ends what a size needed of Spillway.
func (c *contestant) unload(ctx context.Context, r *rack.Rack) error {
	if c.peer() || c.sum == nil {
		return nil
	}
	var all []error
	for _, p := range c.session.crew.processes {
		all = append(all, p.Stop())
	}
	all = append(all, r.RemoveJob(ctx, c.session.task.job().Name), c.sum.close())
	c.sum = nil
	return errors.Join(all...)
}

// stop ends what the rack does not.
func (c *contestant) stop() error {
	var all []error
	if c.sum != nil {
		all = append(all, c.sum.close())
		c.sum = nil
	}
	return errors.Join(append(all, c.ranks.close())...)
}

// script is the rank in Python.
func (o *compareOptions) script() string { return filepath.Join(o.files, "allreduce.py") }

// writeScript puts it where Python finds it.
func (o *compareOptions) writeScript() error { return os.WriteFile(o.script(), peers.Script(), 0o644) }

// parseSystems reads the names of systems; Spillway takes part in any case.
func parseSystems(names []string) ([]string, error) {
	var known, all []string
	for _, s := range systemNames {
		known = append(known, s.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, usagef("compare: there is no system %q: want some of %s", name, strings.Join(known, ", "))
		}
	}
	for _, name := range known { // in their order
		if name == systemSpillway || slices.Contains(names, name) {
			all = append(all, name)
		}
	}
	if len(all) < 2 {
		return nil, usagef("compare: --systems names nothing to compare Spillway with: want some of %s", strings.Join(known[1:], ", "))
	}
	return all, nil
}
