// Package pipeline is what a controller must know of Spillway's pipeline in the ToR: the names of its tables and counters,
// what a job is to it, and which entries, in which order, put a job there and take it away again. Ids and widths come from the
// P4Info of the target, so the same Job is for Tofino, for BMv2 and for the software ToR.
package pipeline

import (
	"sync"

	"spillway/p4/p4info"
	"spillway/p4/v1model"
)

// Names of the tables.
const (
	TableLimits  = "limits"
	TableForward = "forward"
	TableGroup   = "group"
	TableBridge  = "bridge"
	TableJob     = "job"
	TableMember  = "member"
	TableRegion  = "region"
	TableUplink  = "uplink"
	TablePublish = "publish"
)

// Names of the counters and of the registers of a slot.
const (
	CounterEvents    = "events"
	CounterPreempted = "preempted"
	CounterSaturated = "saturated"

	RegisterSlotID      = "slot_id"
	RegisterSlotUrgency = "slot_urgency"
	RegisterSlotTag     = "slot_tag"
	RegisterSlotBitmap  = "slot_bitmap"
	RegisterSlotFlags   = "slot_flags"
)

// FirstPort and Ports are the block of UDP ports that the ToR takes Spillway's packets from: the ports of homes must lie in it, those
// of workers must not.
const (
	FirstPort = 9696
	Ports     = 32
)

// NoSlot is the slot index of a chunk that is not for the ToR.
const NoSlot = 0xFFFF

// Software is the P4Info of the software ToR, which is the v1model program's.
var Software = sync.OnceValue(func() *p4info.Info {
	info, err := p4info.Parse(v1model.P4Info)
	if err != nil {
		panic("the embedded p4info: " + err.Error()) // a test reads it
	}
	return info
})
