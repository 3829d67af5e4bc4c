package main

import (
	"fmt"
	"strconv"

	"spillway/loadtest/rack"
)

// The values of --tor-partition and of flags that are on or off.
const (
	partitionPrivate = "private"
	partitionShared  = "shared"
	switchOn         = "on"
	switchOff        = "off"
)

// slotsFlag is a number of chunks, or all that can be in flight.
type slotsFlag struct {
	given bool
	slots int
}

// allSlots is how slotsFlag says all.
const allSlots = "all"

// Set implements flag.Value.
func (f *slotsFlag) Set(text string) error {
	if text == allSlots {
		*f = slotsFlag{}
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is neither a number of chunks nor %s", text, allSlots)
	}
	*f = slotsFlag{given: true, slots: n}
	return nil
}

// String implements flag.Value.
func (f *slotsFlag) String() string {
	if f == nil || !f.given {
		return allSlots
	}
	return strconv.Itoa(f.slots)
}

// slots is the ToR's memory in chunks.
func (o *runOptions) slots() int {
	switch {
	case o.tor == string(rack.TorNone):
		return 0
	case o.torSlots.given:
		return o.torSlots.slots
	}
	return rack.SlotsForAll(len(o.tasks()), o.window)
}

// checkTor validates the flags of the ToR.
func (o *runOptions) checkTor() error {
	kind, err := rack.ParseTorKind(o.tor)
	if err != nil {
		return usagef("run: --tor %v", err)
	}
	if o.torPartition != partitionPrivate && o.torPartition != partitionShared {
		return usagef("run: --tor-partition %q is neither %s nor %s", o.torPartition, partitionPrivate, partitionShared)
	}
	if o.preempt != switchOn && o.preempt != switchOff {
		return usagef("run: --preempt %q is neither %s nor %s", o.preempt, switchOn, switchOff)
	}
	if o.torRebootEvery <= 0 {
		return usagef("run: --tor-reboot-every is too short")
	}
	if kind == rack.TorNone {
		if o.torSlots.given || o.torReboots > 0 {
			return usagef("run: --tor-slots and --tor-reboots need a ToR: --tor %s", rack.TorSoft)
		}
		return nil
	}
	if o.unicast {
		return usagef("run: a ToR publishes one packet to a group: not with --unicast")
	}
	return nil
}

// torConfig is the ToR that the options ask for.
func (o *runOptions) torConfig(s streams) rack.Tor {
	return rack.Tor{
		Kind:      rack.TorKind(o.tor),
		Slots:     o.slots(),
		Jobs:      len(o.tasks()),
		Shared:    o.torPartition == partitionShared,
		FirstCome: o.preempt == switchOff,
		Command:   torProcess(s),
	}
}
