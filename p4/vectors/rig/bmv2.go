package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"

	"spillway/p4/client"
	"spillway/p4/pipeline"
	"spillway/p4/vectors"
)

// SimpleSwitch is the name of BMv2's program that speaks P4Runtime.
const SimpleSwitch = "simple_switch_grpc"

// device is the id that the switch is started with.
const device = 1

// BMv2 is a rig with a simple_switch_grpc in it.
type BMv2 struct {
	*Rig
	directory string
	process   *exec.Cmd
	exited    chan struct{}  // closed when the process was waited for
	exitErr   error          // valid after exited
	groups    []*p4v1.Update // that delete what the last Configure made
}

// StartBMv2 starts the simple_switch_grpc of PATH, without a program, on the
// ports, and opens a session as primary. Its socket and its log are in directory.
func StartBMv2(ctx context.Context, directory string, p client.Pipeline, ports []uint16) (*BMv2, error) {
	r, err := newRig(p, ports)
	if err != nil {
		return nil, err
	}
	b := &BMv2{Rig: r, directory: directory}
	if err := b.Start(ctx); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return b, nil
}

// Address is the gRPC target of the switch. A path, so that it can be reached
// from outside of its namespace.
func (b *BMv2) Address() string { return "unix:" + filepath.Join(b.directory, "p4runtime.sock") }

// Log is the file that the switch writes to.
func (b *BMv2) Log() string { return filepath.Join(b.directory, "bmv2.log") }

// Start starts the switch, which is not running, and a session.
func (b *BMv2) Start(ctx context.Context) error {
	log, err := os.Create(b.Log())
	if err != nil {
		return err
	}
	args := []string{"--no-p4", "--device-id", strconv.Itoa(device), "--log-console", "--log-level", "warn"}
	for _, port := range b.wires.ports {
		args = append(args, "--interface", fmt.Sprintf("%d@%s", port, switchEnd(port)))
	}
	args = append(args, "--", "--grpc-server-addr", b.Address())
	b.process = exec.Command(SimpleSwitch, args...)
	b.process.Stdout, b.process.Stderr = log, log
	// The kernel kills it with the namespace's thread, which outlives it in good order.
	b.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = errors.Join(b.namespace.do(b.process.Start), log.Close())
	if err != nil {
		return fmt.Errorf("start %s: %w", SimpleSwitch, err)
	}
	b.exited, b.groups = make(chan struct{}), nil
	go func() {
		b.exitErr = b.process.Wait()
		close(b.exited)
	}()
	if b.Client, err = b.Dial(ctx, client.ElectionID{Low: 100}); err != nil {
		return errors.Join(err, b.Kill())
	}
	return nil
}

// Dial opens a session beside the rig's own, and waits for the switch if it is
// only just starting.
func (b *BMv2) Dial(ctx context.Context, id client.ElectionID) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-b.exited:
			fail(fmt.Errorf("%s ended: %w; its log is %s", SimpleSwitch, b.exitErr, b.Log()))
		case <-stop:
		}
	}()
	return client.Dial(ctx, client.Config{
		Target: b.Address(), Device: device, Election: &id, Info: b.Pipeline.Info,
		Options: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.WaitForReady(true))},
	})
}

// Configure implements vectors.Target. BMv2 keeps the members of its multicast
// groups over a push of the pipeline, though P4Runtime has forgotten the groups
// then: who makes them again without deleting them first gets each copy twice.
func (b *BMv2) Configure(f *vectors.Fixture) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Client.Write(ctx, b.groups...); err != nil {
		return err
	}
	b.groups = nil
	if err := b.Rig.Configure(f); err != nil {
		return err
	}
	b.groups = []*p4v1.Update{{Type: p4v1.Update_DELETE, Entity: pipeline.Multicast(markerGroup)}}
	for group := range f.Groups {
		b.groups = append(b.groups, &p4v1.Update{Type: p4v1.Update_DELETE, Entity: pipeline.Multicast(group)})
	}
	return nil
}

// Kill kills the switch as a power failure would, and waits for its end.
func (b *BMv2) Kill() error {
	err := b.process.Process.Kill()
	<-b.exited
	if errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s had ended by itself: %w; its log is %s", SimpleSwitch, b.exitErr, b.Log())
	}
	return err
}

// Close ends the session, the switch and the namespace.
func (b *BMv2) Close() error {
	return errors.Join(b.Client.Close(), b.Kill(), b.close())
}
