package server

import (
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"spillway/p4/p4info"
	"spillway/p4/pipeline"
	"spillway/p4/softtor/dataplane"
)

// slotRegisters are the registers that can be read. Each has as many elements as the data plane has slots.
var slotRegisters = map[string]func(dataplane.Slot) uint64{
	pipeline.RegisterSlotID:      func(s dataplane.Slot) uint64 { return uint64(s.ID) },
	pipeline.RegisterSlotUrgency: func(s dataplane.Slot) uint64 { return uint64(s.Urgency) },
	pipeline.RegisterSlotTag:     func(s dataplane.Slot) uint64 { return uint64(s.Tag) },
	pipeline.RegisterSlotBitmap:  func(s dataplane.Slot) uint64 { return s.Bitmap },
	pipeline.RegisterSlotFlags:   func(s dataplane.Slot) uint64 { return uint64(s.Flags) },
}

// readRegisters gives one element of a register, all of one, or all of all that can be read.
func (s *state) readRegisters(m *p4v1.RegisterEntry, found func(*p4v1.Entity) error) error {
	if m.GetRegisterId() == 0 {
		if m.GetIndex() != nil {
			return refuse(codes.InvalidArgument, "", "register_id", "an index without a register")
		}
		for _, r := range s.info.Registers() {
			if _, ok := slotRegisters[r.Name]; !ok {
				continue
			}
			if err := s.readRegisters(&p4v1.RegisterEntry{RegisterId: r.ID}, found); err != nil {
				return err
			}
		}
		return nil
	}
	r, ok := s.info.RegisterByID(m.GetRegisterId())
	if !ok {
		return refuse(codes.InvalidArgument, "", "register_id", "there is no register with id %#x", m.GetRegisterId())
	}
	of, ok := slotRegisters[r.Name]
	if !ok {
		return refuse(codes.Unimplemented, r.Name, "", "the register cannot be read")
	}
	slots, _ := s.dataplane.Limits()
	first, end, err := cells(r.Name, int64(slots), m.GetIndex())
	if err != nil {
		return err
	}
	for i := first; i < end; i++ {
		var slot dataplane.Slot
		if s.live {
			if slot, err = s.dataplane.Slot(uint32(i)); err != nil {
				return err
			}
		}
		if err := found(&p4v1.Entity{Entity: &p4v1.Entity_RegisterEntry{RegisterEntry: &p4v1.RegisterEntry{
			RegisterId: r.ID, Index: &p4v1.Index{Index: i},
			Data: &p4v1.P4Data{Data: &p4v1.P4Data_Bitstring{Bitstring: p4info.Bytes(of(slot))}},
		}}}); err != nil {
			return err
		}
	}
	return nil
}
