package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/bits"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"spillway/wire"
)

// maps are the aggregator's by name, which are those of the compiled program and of the pins.
func (a *Aggregator) maps() map[string]**ebpf.Map {
	o := &a.objects.aggregatorMaps
	return map[string]**ebpf.Map{
		"jobs": &o.Jobs, "members": &o.Members, "replicas": &o.Replicas, "counters": &o.Counters, "slots": &o.Slots, "progress": &o.Progress, "lateness": &o.Lateness,
		"known": &o.Known, "uplinks": &o.Uplinks, "parents": &o.Parents,
		"payload_32_map": &o.Payload32Map, "payload_64_map": &o.Payload64Map,
		"payload_256_map": &o.Payload256Map, "payload_832_map": &o.Payload832Map,
	}
}

// programs are the aggregator's by name.
func (a *Aggregator) programs() map[string]**ebpf.Program {
	o := &a.objects.aggregatorPrograms
	return map[string]**ebpf.Program{"aggregator": &o.Aggregator, "replicator": &o.Replicator, "clock": &o.Clock}
}

// adopt makes an aggregator of what is pinned, which is of this build's layout and of the sizes asked for. Pinned programs
// that are not this build's are replaced, over the same maps. ErrDamaged: it cannot be done with what is there.
func (b *build) adopt(p *pins, found description) (_ *Aggregator, err error) {
	a, spec, err := b.prepare(found.config())
	if err != nil {
		return nil, err
	}
	a.adopted = true
	defer func() {
		if err != nil {
			for _, at := range a.attached {
				err = errors.Join(err, at.close())
			}
			err = errors.Join(err, a.objects.Close())
		}
	}()
	over := make(map[string]*ebpf.Map)
	for name, m := range a.maps() {
		if *m, err = ebpf.LoadPinnedMap(filepath.Join(p.state(), name), nil); err != nil {
			return nil, damaged("map "+name, err)
		}
		if err := spec.Maps[name].Compatible(*m); err != nil {
			return nil, damaged("map "+name, err)
		}
		over[name] = *m
	}
	same := true
	for name, program := range a.programs() {
		if *program, err = ebpf.LoadPinnedProgram(filepath.Join(p.state(), name+programSuffix), nil); err != nil {
			return nil, damaged("program "+name, err)
		}
		info, err := (*program).Info()
		if err != nil {
			return nil, fmt.Errorf("read the tag of %s: %w", name, err)
		}
		isSame, err := compatible(spec.Programs[name], info)
		if err != nil {
			return nil, fmt.Errorf("compare %s with what is pinned: %w", name, err)
		}
		same = same && isSame
	}
	if !same {
		if err := b.replace(a, p, over); err != nil {
			return nil, err
		}
	}
	if err := a.readTag(); err != nil {
		return nil, err
	}
	if err := a.readJobs(); err != nil {
		return nil, err
	}
	if err := a.readAttachments(p); err != nil {
		return nil, err
	}
	// Last: until here, the next attempt finds what this one found.
	if d := b.describe(a.config); d != found {
		if err := p.description.Put(uint32(0), d); err != nil {
			return nil, fmt.Errorf("write the description: %w", err)
		}
		slog.Info("the aggregator was replaced in place", "tag", a.tag, "version", d.Version, "was", found.Version)
	}
	return a, nil
}

// compatible reports whether a program is what the spec loads. Calls between its functions are resolved only when it is marshalled, and
// the kernel's tag is over the resolved ones.
func compatible(spec *ebpf.ProgramSpec, info *ebpf.ProgramInfo) (bool, error) {
	instructions := slices.Clone(spec.Instructions)
	if err := instructions.Marshal(io.Discard, spec.ByteOrder); err != nil {
		return false, err
	}
	return instructions.HasTag(info.Tag, spec.ByteOrder)
}

func damaged(what string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("open the pinned %s, of another user: %w", what, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, what, err)
}

// replace loads this build's programs over the pinned maps, and pins them in the place of the old ones, which run on until Attach
// has put the new ones into the links.
func (b *build) replace(a *Aggregator, p *pins, over map[string]*ebpf.Map) error {
	fresh, err := b.load(a.config, over)
	if err != nil {
		return err
	}
	old := a.objects
	a.objects = fresh.objects
	if err := old.Close(); err != nil {
		return err
	}
	for name, program := range a.programs() {
		if err := p.replaceProgram(name, *program); err != nil {
			return fmt.Errorf("pin the new %s: %w", name, err)
		}
	}
	return nil
}

// readJobs reads back from the maps what AddJob put there, and clears away what a process left that ended inside AddJob or RemoveJob.
func (a *Aggregator) readJobs() error {
	for id := range a.config.MaxJobs {
		var in aggregatorJob
		if err := a.objects.Jobs.Lookup(id, &in); err != nil {
			return fmt.Errorf("read job %d: %w", id, err)
		}
		if in.Active == 0 {
			continue
		}
		if int(in.Class) >= classes {
			return fmt.Errorf("%w: job %d is of class %d", ErrDamaged, id, in.Class)
		}
		job := parseJob(uint16(id), &in)
		if err := a.readPolicy(&job, &in); err != nil {
			return err
		}
		j := &installed{class: int(in.Class), slots: span{in.PayloadBase, in.RingMask + 1}, job: job}
		if err := a.regions[j.class].TakeAt(j.slots.first, j.slots.count); err != nil {
			return fmt.Errorf("%w: job %d: %w", ErrDamaged, id, err)
		}
		a.jobs[uint16(id)] = j
	}
	if err := a.readMembers(); err != nil {
		return err
	}
	if err := a.readParents(); err != nil {
		return err
	}
	for id, in := range a.jobs {
		if err := a.readReplicas(id, in); err != nil {
			return err
		}
		// What AddJob would not have put there is not Spillway's work.
		if err := in.job.Validate(); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return nil
}

// parseJob is a job without its members.
func parseJob(id uint16, in *aggregatorJob) Job {
	job := Job{
		ID: id, Generation: in.Generation, Cookie: in.Cookie,
		Elements: int(in.Elements), Window: int(in.Window), Workers: bits.OnesCount64(in.Full),
		Home: netip.AddrPortFrom(addrOf(in.Home), swap16(in.HomePort)), HomePorts: in.HomePorts,
		WorkerPort: swap16(in.WorkerPort), Place: &in.PayloadBase,
	}
	if in.Group != 0 {
		job.Group = addrOf(in.Group)
	}
	return job
}

func (a *Aggregator) readMembers() error {
	var key aggregatorMemberKey
	var value aggregatorMember
	var orphans []aggregatorMemberKey
	indices := make(map[uint16][]uint32)
	entries := a.objects.Members.Iterate()
	for entries.Next(&key, &value) {
		id := uint16(key.Job)
		in := a.jobs[id]
		if in == nil {
			orphans = append(orphans, key)
			continue
		}
		at, _ := slices.BinarySearch(indices[id], value.Index)
		indices[id] = slices.Insert(indices[id], at, value.Index)
		in.job.Members = slices.Insert(in.job.Members, at, Member{Addr: addrOf(key.Addr), Bits: value.Bits})
	}
	if err := entries.Err(); err != nil {
		return fmt.Errorf("read the members: %w", err)
	}
	for _, key := range orphans {
		if err := a.objects.Members.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove a member of no job: %w", err)
		}
	}
	return nil
}

// readReplicas gives the members of a unicast job their MAC addresses and interfaces back.
func (a *Aggregator) readReplicas(id uint16, in *installed) error {
	var job aggregatorJob
	if err := a.objects.Jobs.Lookup(uint32(id), &job); err != nil {
		return fmt.Errorf("read job %d: %w", id, err)
	}
	for i := range uint32(job.Replicas) {
		var to aggregatorReplica
		if err := a.objects.Replicas.Lookup(uint32(id)*wire.MaxChildren+i, &to); err != nil {
			return fmt.Errorf("read replica %d of job %d: %w", i, id, err)
		}
		at := slices.IndexFunc(in.job.Members, func(m Member) bool { return m.Addr == addrOf(to.Addr) })
		if at < 0 {
			return fmt.Errorf("%w: job %d has a copy for %v, who is no member", ErrDamaged, id, addrOf(to.Addr))
		}
		m := &in.job.Members[at]
		m.MAC, m.Ifindex, m.Port = net.HardwareAddr(to.Mac[:]), int(to.Ifindex), swap16(to.Port)
	}
	return nil
}

// readAttachments finds the interfaces that the program is on, and forgets those that are gone.
func (a *Aggregator) readAttachments(p *pins) error {
	attached, err := p.attached()
	if err != nil {
		return damaged("links", err)
	}
	a.attached = attached
	here, err := netnsCookie()
	if err != nil {
		return err
	}
	for ifindex, at := range attached {
		if at.link == nil {
			continue // a process ended inside Attach or Withdraw, and the next Attach or Withdraw finds what is there
		}
		linked, err := at.linked()
		if err != nil {
			return fmt.Errorf("interface %d: %w", ifindex, err)
		}
		if linked {
			if at.mode = Native; at.record.Netns == here {
				at.mode = at.presentMode()
			}
			continue
		}
		err = errors.Join(at.link.Unpin(), at.link.Close())
		at.link = nil
		if _, gone := netlink.LinkByIndex(ifindex); gone == nil && at.record.Netns == here {
			slog.Warn("the aggregator was taken off an interface by somebody else", "ifindex", ifindex)
		} else {
			slog.Warn("an interface that the aggregator was on is gone", "ifindex", ifindex)
			delete(attached, ifindex)
			err = errors.Join(err, p.forget(ifindex))
		}
		if err != nil {
			return fmt.Errorf("forget the link of interface %d: %w", ifindex, err)
		}
	}
	return nil
}

// addrOf is the inverse of networkOrder.
func addrOf(order uint32) netip.Addr {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], order)
	return netip.AddrFrom4(b)
}
