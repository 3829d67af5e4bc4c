package rig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"spillway/p4/client"
	"spillway/p4/pipeline"
	"spillway/p4/softtor"
)

// SoftTor is a rig with a software ToR in it: its XDP program on the interfaces,
// its P4Runtime server before it.
type SoftTor struct {
	*Rig
	stop context.CancelFunc
	done chan error // of its run
}

// StartSoftTor starts a software ToR that is as large as config says, on the
// ports, and opens a session as primary. Its socket is in directory.
func StartSoftTor(ctx context.Context, directory string, config softtor.Config, ports []uint16) (*SoftTor, error) {
	p, err := client.NewPipeline(pipeline.Software(), nil)
	if err != nil {
		return nil, err
	}
	r, err := newRig(p, ports)
	if err != nil {
		return nil, err
	}
	if err := r.namespace.do(r.wires.poll); err != nil {
		return nil, errors.Join(err, r.close())
	}
	config.Listen, config.DeviceID = "unix:"+filepath.Join(directory, "p4runtime.sock"), device
	for _, port := range ports {
		config.Ports = append(config.Ports, softtor.Port{Port: port, Interface: switchEnd(port)})
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &SoftTor{Rig: r, stop: stop, done: make(chan error, 1)}
	ready := make(chan struct{})
	config.Ready = func(net.Addr) { close(ready) }
	go func() {
		s.done <- r.namespace.do(func() error { return softtor.Run(running, config, slog.New(slog.DiscardHandler)) })
	}()
	select {
	case <-ready:
	case err := <-s.done:
		stop()
		return nil, errors.Join(fmt.Errorf("the software ToR ended: %w", err), r.close())
	}
	r.Client, err = client.Dial(ctx, client.Config{Target: config.Listen, Device: device, Election: &client.ElectionID{Low: 100}, Info: p.Info})
	if err != nil {
		stop()
		return nil, errors.Join(err, <-s.done, r.close())
	}
	return s, nil
}

// Close ends the session, the ToR and the namespace.
func (s *SoftTor) Close() error {
	err := s.Client.Close()
	s.stop()
	return errors.Join(err, <-s.done, s.close())
}
