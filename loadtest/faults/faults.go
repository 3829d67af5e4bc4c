package faults

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Rates are the probabilities, 0 to 1, of what happens to a packet at a worker's
// port, each way: a DATA packet meets the dice once, each copy of a multicast RESULT once.
type Rates struct {
	Loss float64 `json:"loss"`
	// Duplicate: the copy of a packet from a worker comes behind those that its port took in together with the original.
	Duplicate float64 `json:"duplicate"`
	Reorder   float64 `json:"reorder"`
	// ECN marks the packet "congestion experienced" (RFC 3168).
	ECN float64 `json:"ecn"`
	// TCP is for comparisons with peers that use it: its packets meet the same dice. Without, it is left alone.
	TCP bool `json:"tcp,omitempty"`
}

// Any reports whether there is anything to inject.
func (r Rates) Any() bool {
	r.TCP = false // which alone is nothing
	return r != Rates{}
}

// Validate returns an error that names the rate that is not a probability.
func (r Rates) Validate() error {
	for _, rate := range []struct {
		name string
		p    float64
	}{{"loss", r.Loss}, {"duplicate", r.Duplicate}, {"reorder", r.Reorder}, {"ecn", r.ECN}} {
		if !(rate.p >= 0 && rate.p <= 1) {
			return fmt.Errorf("%s rate %g is not within 0 and 1", rate.name, rate.p)
		}
	}
	return nil
}

// threshold is what a 32-bit random number must be less than.
func threshold(p float64) uint32 { return uint32(min(p*(1<<32), 1<<32-1)) }

// Events counts what happened to the packets of one direction.
type Events struct {
	Packets    uint64 `json:"packets"` // that met the dice
	Dropped    uint64 `json:"dropped"`
	Duplicated uint64 `json:"duplicated"`
	Reordered  uint64 `json:"reordered"`
	// Returned came back from the detour; those on it at the moment, and those that
	// its queue had no room for, are the difference to Reordered.
	Returned uint64 `json:"returned"`
	Marked   uint64 `json:"marked"`
	// Failed counts faults that the kernel refused, for example a mark on a packet
	// whose sender does not speak ECN. Such packets went on untouched.
	Failed uint64 `json:"failed"`
}

// Counters are the events of all ports: from the workers, and to them.
type Counters struct {
	Uplink   Events `json:"uplink"`
	Downlink Events `json:"downlink"`
}

// An Injector holds the programs. It attaches to ports of one network namespace.
type Injector struct {
	rates   Rates
	objects faultsObjects
}

// Load loads the programs into the kernel and attaches nothing.
func Load(rates Rates) (*Injector, error) {
	if err := rates.Validate(); err != nil {
		return nil, err
	}
	spec, err := loadFaults()
	if err != nil {
		return nil, fmt.Errorf("read the fault programs: %w", err)
	}
	for variable, p := range map[string]float64{
		faultsVarLossThreshold:      rates.Loss,
		faultsVarDuplicateThreshold: rates.Duplicate,
		faultsVarReorderThreshold:   rates.Reorder,
		faultsVarEcnThreshold:       rates.ECN,
	} {
		if err := spec.Variables[variable].Set(threshold(p)); err != nil {
			return nil, fmt.Errorf("set %s: %w", variable, err)
		}
	}
	if err := spec.Variables[faultsVarWithTcp].Set(rates.TCP); err != nil {
		return nil, fmt.Errorf("set %s: %w", faultsVarWithTcp, err)
	}
	i := &Injector{rates: rates}
	if err := spec.LoadAndAssign(&i.objects, nil); err != nil {
		return nil, fmt.Errorf("load the fault programs: %w", err)
	}
	return i, nil
}

// Attach puts the programs at a switch port, through a netlink handle in the
// switch's namespace, with a detour for the port if there is something to reorder.
func (i *Injector) Attach(h *netlink.Handle, port int, link Link) error {
	if i.rates.Reorder > 0 {
		if err := i.addDetour(h, port, link); err != nil {
			return err
		}
	}
	if err := addHooks(h, port); err != nil {
		return err
	}
	return errors.Join(
		addProgram(h, port, netlink.HANDLE_MIN_INGRESS, i.objects.FaultsUplink),
		addProgram(h, port, netlink.HANDLE_MIN_EGRESS, i.objects.FaultsDownlink),
	)
}

// Detach takes the programs from a switch port.
func (i *Injector) Detach(h *netlink.Handle, port int) error {
	hooks := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: port, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	if err := h.QdiscDel(hooks); err != nil {
		return fmt.Errorf("take clsact from interface %d: %w", port, err)
	}
	return nil
}

// addHooks adds the places for programs at an interface's tc ingress and egress.
func addHooks(h *netlink.Handle, ifindex int) error {
	hooks := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: ifindex,
		Handle:    netlink.MakeHandle(0xffff, 0),
		Parent:    netlink.HANDLE_CLSACT,
	}}
	if err := h.QdiscAdd(hooks); err != nil {
		return fmt.Errorf("add clsact to interface %d (needs sch_ingress): %w", ifindex, err)
	}
	return nil
}

// addProgram adds a program in direct-action mode: its verdict is the packet's.
func addProgram(h *netlink.Handle, ifindex int, hook uint32, program *ebpf.Program) error {
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: ifindex,
			Parent:    hook,
			Handle:    1,
			Priority:  1,
			Protocol:  unix.ETH_P_ALL,
		},
		Fd:           program.FD(),
		Name:         "spill-load-faults",
		DirectAction: true,
	}
	if err := h.FilterAdd(filter); err != nil {
		return fmt.Errorf("attach a fault program to interface %d (needs cls_bpf): %w", ifindex, err)
	}
	return nil
}

// Counters reads what happened so far.
func (i *Injector) Counters() (Counters, error) {
	var c Counters
	for _, side := range []struct {
		id     faultsSide
		events *Events
	}{{faultsSideSIDE_UPLINK, &c.Uplink}, {faultsSideSIDE_DOWNLINK, &c.Downlink}} {
		for event, n := range map[faultsEvent]*uint64{
			faultsEventEVENT_PACKETS:    &side.events.Packets,
			faultsEventEVENT_DROPPED:    &side.events.Dropped,
			faultsEventEVENT_DUPLICATED: &side.events.Duplicated,
			faultsEventEVENT_REORDERED:  &side.events.Reordered,
			faultsEventEVENT_RETURNED:   &side.events.Returned,
			faultsEventEVENT_MARKED:     &side.events.Marked,
			faultsEventEVENT_FAILED:     &side.events.Failed,
		} {
			var perCPU []uint64
			key := uint32(side.id)*uint32(faultsEventEVENT_COUNT) + uint32(event)
			if err := i.objects.Counters.Lookup(key, &perCPU); err != nil {
				return Counters{}, fmt.Errorf("read fault counter %d: %w", key, err)
			}
			for _, count := range perCPU {
				*n += count
			}
		}
	}
	return c, nil
}

// Close drops the programs. Ports that they are attached to keep them until they are removed.
func (i *Injector) Close() error {
	if err := i.objects.Close(); err != nil {
		return fmt.Errorf("close the fault programs: %w", err)
	}
	return nil
}
