package observe

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/config"
	"spillway/appliance/refusal"
	"spillway/xdp"
	"spillway/xdp/steering"
)

// Node says what the appliance is and has.
func (o *Observer) Node(context.Context) (*v1.GetNodeResponse, error) {
	jobs := o.config.Jobs.List()
	node := &v1.GetNodeResponse{
		Name: o.config.Name, Version: o.config.Version, Kernel: kernel(), Started: timestamppb.New(o.config.Started),
		Adopted: o.config.Plane.Adopted(), ProgramTag: o.config.Plane.Tag(), Capacity: o.config.Jobs.Capacity(), Jobs: uint32(len(jobs)),
	}
	for _, job := range jobs {
		node.WorkersPresent += job.GetPresent()
	}
	if o.config.Warnings != nil {
		node.Warnings = o.config.Warnings()
	}
	modes := map[int]xdp.Attachment{}
	for _, at := range o.config.Plane.Attachments() {
		modes[at.Ifindex] = at
	}
	for _, i := range o.config.Interfaces {
		at := &v1.Interface{Name: i.Name, Address: i.Address}
		// One that is gone is neither up nor has it a mode.
		if link, err := netlink.LinkByName(i.Name); err == nil {
			at.Mtu, at.Up, at.Mode = uint32(link.Attrs().MTU), running(link), string(modes[link.Attrs().Index].Mode)
			at.SteeringRules = o.steered(link)
		}
		node.Interfaces = append(node.Interfaces, at)
	}
	if o.config.Switch != nil {
		state, reason := o.config.Switch.State()
		node.Switch = state
		if state != v1.SwitchState_SWITCH_STATE_IN_SYNC {
			node.Warnings = append(node.Warnings, fmt.Sprintf("the ToR is not in sync: %s", reason))
		}
	}
	return node, nil
}

// steered is how many of the home's ports the NIC keeps on one queue.
func (o *Observer) steered(link netlink.Link) uint32 {
	nic, err := steering.Open(link.Attrs().Index)
	var kept int
	if err == nil {
		kept, err = nic.Steered(config.FirstHomePort, config.HomePorts)
		err = errors.Join(err, nic.Close())
	}
	if err != nil {
		o.config.Log.Debug("the NIC's flow rules cannot be read", "interface", link.Attrs().Name, "error", err)
	}
	return uint32(kept)
}

// running tells whether packets can go over a link: it is up, and so is what it is connected to.
func running(link netlink.Link) bool {
	return link.Attrs().RawFlags&unix.IFF_RUNNING != 0 && link.Attrs().RawFlags&unix.IFF_UP != 0
}

// kernel is the running kernel's release.
func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// Switch says what is known of the ToR, with the names of jobs in the place of their numbers.
func (o *Observer) Switch(ctx context.Context, slots bool) (*v1.GetSwitchResponse, error) {
	if o.config.Switch == nil {
		return nil, refusal.New(codes.FailedPrecondition, refusal.NoSwitch, "this appliance has no ToR: name one under switch in its configuration, and start it again")
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	described, err := o.config.Switch.Describe(ctx, slots)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, job := range o.config.Jobs.List() {
		names[strconv.FormatUint(uint64(job.GetId()), 10)] = job.GetSpec().GetName()
	}
	name := func(job *string) {
		if known, ok := names[*job]; ok {
			*job = known
		}
	}
	for _, g := range described.GetGroups() {
		name(&g.Job)
	}
	for _, s := range described.GetOccupied() {
		name(&s.Job)
	}
	return described, nil
}
