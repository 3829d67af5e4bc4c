package server

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"

	"spillway/p4/p4info"
	"spillway/p4/pipeline"
	"spillway/p4/softtor/dataplane"
)

// check refuses entries that are well formed but cannot be meant for this target.
func (s *state) check(t *table, e p4info.Entry) error {
	for _, m := range e.Match {
		if m.Key == "port" {
			if err := s.checkPort(t.Name, m.Key, m.Value); err != nil {
				return err
			}
		}
	}
	for _, a := range e.Do.Args {
		switch a.Param {
		case "port":
			if err := s.checkPort(t.Name, a.Param, a.Value); err != nil {
				return err
			}
		case "group":
			if a.Value == 0 {
				return refuse(codes.InvalidArgument, t.Name, a.Param, "0 is no multicast group")
			}
		case "index":
			if a.Value == 0 {
				return refuse(codes.InvalidArgument, t.Name, a.Param, "0 counts what is no job's")
			}
		}
	}
	switch t.Name {
	case pipeline.TableRegion:
		return s.checkRegion(t, e)
	case pipeline.TableMember:
		bits, rest := e.Do.Arg("bits"), e.Do.Arg("rest")
		if e.Do.Action == "worker" && bits == 0 {
			return refuse(codes.InvalidArgument, t.Name, "bits", "a worker without bits")
		}
		if bits&rest != 0 {
			return refuse(codes.InvalidArgument, t.Name, "rest", "%#x is in bits too", bits&rest)
		}
	}
	return nil
}

// checkPort wants a port that is there.
func (s *state) checkPort(object, field string, number uint64) error {
	ports := s.dataplane.Ports()
	if number <= dataplane.MaxPort && slices.Contains(ports, dataplane.Port(number)) {
		return nil
	}
	return refuse(codes.InvalidArgument, object, field, "there is no port %d (there are %v)", number, ports)
}

// region is the slots of an entry of the table region.
func region(e p4info.Entry) (pipeline.Region, error) {
	k := regionKey(e)
	size := uint32(^k.Mask) + 1
	if size&(size-1) != 0 {
		return pipeline.Region{}, fmt.Errorf("mask %#x is not the complement of a power of two less one", k.Mask)
	}
	if size > 0xffff {
		return pipeline.Region{}, fmt.Errorf("a mask of 0 is all slot indices, also %#x, which is none", pipeline.NoSlot)
	}
	return pipeline.Region{Base: k.Value, Slots: uint16(size), Mode: regionModes[e.Do.Action]}, nil
}

var regionModes = map[string]pipeline.Mode{
	"private_slots": pipeline.ModePrivate, "shared_slots": pipeline.ModeShared, "first_come_slots": pipeline.ModeFirstCome,
}

// checkRegion wants slots that are there, and that no other job has for its own.
func (s *state) checkRegion(t *table, e p4info.Entry) error {
	this, err := region(e)
	if err != nil {
		return refuse(codes.InvalidArgument, t.Name, "slot", "%v", err)
	}
	slots, _ := s.dataplane.Limits()
	if err := this.Validate(slots); err != nil {
		return refuse(codes.OutOfRange, t.Name, "slot", "%v", err)
	}
	own := rowKey(e)
	for key, r := range t.rows {
		if key == own {
			continue
		}
		other, err := region(r.entry)
		if err != nil {
			return err
		}
		if !this.Overlaps(other) {
			continue
		}
		if job(r.entry) == job(e) {
			return refuse(codes.FailedPrecondition, t.Name, "slot", "%v overlaps another region of the same job, %v", this, other)
		}
		if this.Mode == pipeline.ModePrivate || other.Mode == pipeline.ModePrivate {
			return refuse(codes.FailedPrecondition, t.Name, "slot", "%v overlaps that of job %d, %v", this, job(r.entry), other)
		}
	}
	return nil
}
