package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"

	"spillway/loadtest/faults"
	"spillway/loadtest/rack"
	"spillway/loadtest/train"
)

// torchPort is where torchrun's processes meet, at rank 0.
const torchPort = 29500

// torchPlace is where Python and what it needs are.
type torchPlace struct {
	python   string // the interpreter, which has torch
	packages string // the directory of the package spillway, with examples/ in it
	library  string // libspillway.so.1
}

// check says what is missing before a rack is built.
func (p *torchPlace) check(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(p.packages, "spillway", "__init__.py")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no Python package spillway in %s: run in the directory of the sources, or say where it is with --packages", p.packages)
	}
	if _, err := os.Stat(p.library); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s: make it with make lib, or say where the library is with --library", p.library)
	}
	probe := exec.CommandContext(ctx, p.python, "-c", "import torch, numpy, torch.distributed.run, spillway; spillway.library_version()")
	probe.Env = append(os.Environ(), p.environment()...)
	if out, err := probe.CombinedOutput(); err != nil {
		return fmt.Errorf("%s cannot run the example: %w\n%s\n(on Debian 12: apt-get install python3-torch python3-numpy)", p.python, err, out)
	}
	return nil
}

// environment is that of every process of Python. One thread a rank, as torchrun has it when a node runs several: namespaces share the cores.
func (p *torchPlace) environment() []string {
	return []string{"PYTHONPATH=" + p.packages, "SPILLWAY_LIBRARY=" + p.library, "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1"}
}

// torchRun is a script that torchrun starts at each rank, on a rack of its own.
type torchRun struct {
	place  torchPlace
	script string
	args   []string
	rack   rack.Config
	job    rack.Job
}

// run builds the rack, has all ranks run the script, hands each line of JSON that one prints to line, and takes the rack down again. It fails if a rank does.
func (t *torchRun) run(ctx context.Context, s streams, line func(rank int, text []byte) error) (err error) {
	r, err := rack.New(ctx, t.rack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.AddJob(ctx, t.job); err != nil {
		return err
	}
	files, err := os.MkdirTemp("", "spill-load-torch-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(files)) }()
	processes, err := t.start(r, files, s)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for rank, p := range processes {
		group.Go(func() error { return followTorch(ctx, p, func(text []byte) error { return line(rank, text) }) })
	}
	return group.Wait()
}

// followTorch takes a process's lines until it ends.
func followTorch(ctx context.Context, p *rack.Process, line func([]byte) error) error {
	for {
		var text json.RawMessage
		err := p.Receive(ctx, &text)
		if errors.Is(err, rack.ErrEnded) {
			return p.Stop()
		}
		if err == nil {
			err = line(text)
		}
		if err != nil {
			p.Kill()
			return err
		}
	}
}

// start runs torchrun in each worker's namespace, as one node of the run, with the environment that a rank of the job needs.
func (t *torchRun) start(r *rack.Rack, files string, s streams) ([]*rack.Process, error) {
	invitations, err := r.Invite(t.job)
	if err != nil {
		return nil, err
	}
	if err := writeDigits(files); err != nil {
		return nil, err
	}
	var processes []*rack.Process
	for rank, invitation := range invitations {
		if rank == 0 {
			if err := invitation.Pair.Write(files, "worker", false); err != nil {
				return nil, err
			}
		}
		args := []string{"-m", "torch.distributed.run", "--redirects", noRedirection, "--tee", noRedirection, "--nnodes", strconv.Itoa(len(invitations)), "--nproc_per_node", "1", "--node_rank", strconv.Itoa(rank),
			"--master_addr", rack.WorkerAddr(0).String(), "--master_port", strconv.Itoa(torchPort), filepath.Join(t.place.packages, t.script)}
		for _, arg := range t.args {
			if arg == digitsArgument {
				arg = digitsFile(files)
			}
			args = append(args, arg)
		}
		p, err := r.StartWorker(rank, rack.Command{
			Path: t.place.python, Args: args, Stderr: s.err, Family: true,
			Env: append(t.place.environment(), invitationEnvironment(invitation, files)...),
		})
		if err != nil {
			return nil, err
		}
		processes = append(processes, p)
	}
	return processes, nil
}

// invitationEnvironment is an invitation as spillway.torch.init_from_env reads it, and what else a rank in a namespace needs.
func invitationEnvironment(i rack.Invitation, files string) []string {
	return []string{
		"SPILLWAY_ADDR=" + i.Appliance, "SPILLWAY_JOB=" + i.Job, "SPILLWAY_TIMEOUT=60",
		"SPILLWAY_CA=" + filepath.Join(files, "ca.crt"), "SPILLWAY_CERT=" + filepath.Join(files, "worker.crt"), "SPILLWAY_KEY=" + filepath.Join(files, "worker.key"),
		// The name of the machine says nothing of a namespace's address.
		"GLOO_SOCKET_IFNAME=eth0",
	}
}

// noRedirection says of a tenth process on the node, which there is not, where its output goes. Without, torchrun of torch 1.13 fails under
// Python 3.11, as on Debian 12: it looks for its default among the members of a Flag, which are no longer said to include zero.
const noRedirection = "9:1"

// digitsArgument stands for the file with the digits, whose place is known when the run is.
const digitsArgument = "{digits}"

func digitsFile(dir string) string { return filepath.Join(dir, "digits.csv.gz") }

func writeDigits(dir string) error { return os.WriteFile(digitsFile(dir), train.Digits(), 0o644) }

// torchRack is a rack for a run. TCP meets the dice as well: what is compared with uses it.
func torchRack(s streams, workers, elements int, rate uint64, loss float64) rack.Config {
	return rack.Config{Workers: workers, Elements: elements, Rate: rate, Faults: faults.Rates{Loss: loss, TCP: true}, Daemon: daemonProcess(s)}
}
