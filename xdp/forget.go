package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// forgetTries is how often a slot is tried that packets hold; each try waits as long as a packet would.
const forgetTries = 100

// ForgetSlots makes all slots of an aggregator empty, as if its memory had vanished (invariant 1 of the protocol), while packets come in. slots is its map of that
// name. It is for those who break things on purpose: nobody who runs an aggregator needs it.
func ForgetSlots(slots *ebpf.Map) (err error) {
	spec, err := loadForget()
	if err != nil {
		return err
	}
	spec.Maps["slots"].MaxEntries = slots.MaxEntries()
	var objects struct {
		Forget *ebpf.Program `ebpf:"forget"`
	}
	if err := spec.LoadAndAssign(&objects, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{"slots": slots}}); err != nil {
		return fmt.Errorf("load what empties slots: %w", err)
	}
	defer func() { err = errors.Join(err, objects.Forget.Close()) }()
	packet := make([]byte, 14) // the least that the kernel runs
	for index := range slots.MaxEntries() {
		binary.NativeEndian.PutUint32(packet, index)
		if err := forgetSlot(objects.Forget, packet); err != nil {
			return fmt.Errorf("slot %d: %w", index, err)
		}
	}
	return nil
}

func forgetSlot(program *ebpf.Program, packet []byte) error {
	for range forgetTries {
		verdict, err := program.Run(&ebpf.RunOptions{Data: packet})
		switch {
		case err != nil:
			return err
		case Verdict(verdict) == Pass:
			return nil
		case Verdict(verdict) != Drop:
			return fmt.Errorf("verdict %d", verdict)
		}
	}
	return errors.New("packets hold it all the time")
}
