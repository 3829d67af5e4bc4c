package xdp

import (
	"slices"

	"spillway/wire"
)

// The size classes of slots. maps.h has the payload maps and the switch over
// them; TestClasses holds the two together.
const classes = 4

var classElements = [classes]int{32, 64, 256, 832}

// Slots is a number of slots for each size class: 32, 64, 256 and 832 elements.
// A slot costs SlotBytes.
type Slots [classes]uint32

// DefaultSlots take about 10 MB: room for eight jobs of window 255 in each class up to E = 256, and for two above.
var DefaultSlots = Slots{4096, 4096, 4096, 1024}

func (s Slots) total() uint32 {
	var n uint32
	for _, slots := range s {
		n += slots
	}
	return n
}

// base is where the slots of a class begin in the map of slots.
func (s Slots) base(class int) uint32 {
	var base uint32
	for _, n := range s[:class] {
		base += n
	}
	return base
}

// ClassOf is the smallest class that holds chunks of so many elements, as an index into Slots, and how many elements
// its slots have room for. Above wire.MaxElements there is none: the class is len(Slots{}), of 0 elements.
func ClassOf(elements int) (class, room int) {
	class, found := slices.BinarySearch(classElements[:], elements)
	_ = found // where it would be is the next larger class, which is what is wanted
	if class < classes {
		room = classElements[class]
	}
	return class, room
}

// slotBytes is what a slot costs besides its elements: its entry in the map of slots (struct slot of bpf/maps.h).
const slotBytes = 40

// SlotBytes is what a slot of the class costs of the kernel's memory.
func SlotBytes(class int) uint64 { return slotBytes + wire.ElementSize*uint64(classElements[class]) }
