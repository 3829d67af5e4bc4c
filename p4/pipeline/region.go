package pipeline

import (
	"fmt"
)

// Mode says how the chunks of a job meet those of others in its region.
type Mode uint8

// The modes.
const (
	// ModePrivate is a quota: no other job may use the region.
	ModePrivate Mode = iota
	// ModeShared is a pool, where the more urgent chunk takes the slot.
	ModeShared
	// ModeFirstCome is a pool, where a slot is kept until its chunk is complete.
	ModeFirstCome
)

// The actions of table region.
const (
	actionPrivate   = "private_slots"
	actionShared    = "shared_slots"
	actionFirstCome = "first_come_slots"
	actionNoSlots   = "no_slots"
)

var modeActions = map[Mode]string{ModePrivate: actionPrivate, ModeShared: actionShared, ModeFirstCome: actionFirstCome}

func (m Mode) String() string {
	switch m {
	case ModePrivate:
		return "private"
	case ModeShared:
		return "shared"
	case ModeFirstCome:
		return "first come"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Region is the slots that a job may use.
type Region struct {
	// Base is the first, a multiple of Slots.
	Base uint16
	// Slots is how many, a power of two.
	Slots uint16
	Mode  Mode
}

// Mask is the ternary mask that, with Base as value, hits the region's slots.
func (r Region) Mask() uint16 { return ^(r.Slots - 1) }

// Overlaps tells whether two regions have a slot in common.
func (r Region) Overlaps(other Region) bool {
	return uint32(r.Base) < uint32(other.Base)+uint32(other.Slots) && uint32(other.Base) < uint32(r.Base)+uint32(r.Slots)
}

// Validate says what is wrong with the region for a ToR of so many slots (0: whatever the header can name).
func (r Region) Validate(slots uint32) error {
	if slots == 0 || slots > NoSlot {
		slots = NoSlot
	}
	switch {
	case r.Slots == 0 || r.Slots&(r.Slots-1) != 0:
		return fmt.Errorf("region of %d slots: not a power of two", r.Slots)
	case r.Base%r.Slots != 0:
		return fmt.Errorf("region of %d slots from %d: not a multiple of its size", r.Slots, r.Base)
	case uint32(r.Base)+uint32(r.Slots) > slots:
		return fmt.Errorf("region of %d slots from %d: there are %d slots", r.Slots, r.Base, slots)
	case modeActions[r.Mode] == "":
		return fmt.Errorf("region: unknown %s", r.Mode)
	}
	return nil
}
