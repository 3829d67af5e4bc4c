package rig

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/p4/client"
	"spillway/p4/p4info"
	"spillway/p4/pipeline"
	"spillway/p4/vectors"
)

// patience is how long a switch may take for one answer, by P4Runtime or with a
// marker. It only ends what is broken.
const patience = time.Minute

// Rig is a switch in a namespace of its own. It is a vectors.Target for a
// fixture whose ports it has. Not for several goroutines.
type Rig struct {
	// Client is the session that Configure writes with; it is primary.
	Client *client.Client
	// Pipeline is what Configure pushes.
	Pipeline client.Pipeline

	namespace *namespace
	wires     *wires
	markers   uint64
}

// newRig makes the namespace and the wires; the switch is not there yet.
func newRig(p client.Pipeline, ports []uint16) (*Rig, error) {
	n, err := newNamespace()
	if err != nil {
		return nil, err
	}
	r := &Rig{Pipeline: p, namespace: n}
	err = n.do(func() error {
		var err error
		r.wires, err = newWires(ports)
		return err
	})
	if err != nil {
		n.close()
		return nil, err
	}
	return r, nil
}

func (r *Rig) close() error {
	err := r.wires.close()
	r.namespace.close()
	return err
}

// Configure implements vectors.Target: the push of the pipeline is what empties the switch.
func (r *Rig) Configure(f *vectors.Fixture) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Client.Push(ctx, p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, r.Pipeline); err != nil {
		return err
	}
	updates, err := entries(r.Pipeline.Info, f, r.wires.ports)
	if err != nil {
		return err
	}
	return r.Client.Write(ctx, updates...)
}

// Inject implements vectors.Target.
func (r *Rig) Inject(port uint16, frame []byte) ([]vectors.Emission, error) {
	if err := r.wires.send(port, frame); err != nil {
		return nil, fmt.Errorf("send to port %d: %w", port, err)
	}
	return r.flush(port)
}

// flush is all that leaves before a marker that goes in by this port.
func (r *Rig) flush(port uint16) ([]vectors.Emission, error) {
	r.markers++
	marker := newMarker(r.markers)
	if err := r.wires.send(port, marker); err != nil {
		return nil, fmt.Errorf("send to port %d: %w", port, err)
	}
	return r.wires.collect(marker, patience)
}

// Events implements vectors.Target.
func (r *Rig) Events(index uint8) ([]uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	events, err := pipeline.ReadEvents(ctx, r.Client, r.Pipeline.Info, index)
	if err != nil {
		return nil, err
	}
	counts := make([]uint64, vectors.EventsPerJob)
	for event, n := range events {
		counts[event] = n
	}
	return counts, nil
}

// Preempted implements vectors.Target.
func (r *Rig) Preempted(index uint8) (uint64, error) {
	return r.jobCounter(pipeline.CounterPreempted, index)
}

// Saturated implements vectors.Target.
func (r *Rig) Saturated(index uint8) (uint64, error) {
	return r.jobCounter(pipeline.CounterSaturated, index)
}

func (r *Rig) jobCounter(name string, index uint8) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return pipeline.ReadJobCounter(ctx, r.Client, r.Pipeline.Info, name, index)
}

// Forwarded implements vectors.Target.
func (r *Rig) Forwarded(prefix netip.Prefix) (vectors.Traffic, error) {
	return r.direct(p4info.Entry{Table: pipeline.TableForward, Match: []p4info.Match{p4info.LPM("dst", ipv4(prefix.Addr()), prefix.Bits())}})
}

// Member implements vectors.Target.
func (r *Rig) Member(port uint16, address netip.Addr, job uint16) (vectors.Traffic, error) {
	return r.direct(p4info.Entry{Table: pipeline.TableMember, Match: member(vectors.Host{Port: port, Address: address}, job)})
}

// direct reads the direct counter of an entry.
func (r *Rig) direct(e p4info.Entry) (vectors.Traffic, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	entry, err := r.Pipeline.Info.Encode(e)
	if err != nil {
		return vectors.Traffic{}, err
	}
	found, err := r.Client.Read(ctx, &p4v1.Entity{Entity: &p4v1.Entity_DirectCounterEntry{DirectCounterEntry: &p4v1.DirectCounterEntry{TableEntry: entry}}})
	if err != nil {
		return vectors.Traffic{}, err
	}
	if len(found) != 1 {
		return vectors.Traffic{}, fmt.Errorf("direct counter of an entry of %s: %d came", e.Table, len(found))
	}
	data := found[0].GetDirectCounterEntry().GetData()
	return vectors.Traffic{Packets: uint64(data.GetPacketCount()), Bytes: uint64(data.GetByteCount())}, nil
}
