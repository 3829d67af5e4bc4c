package rack

import (
	"fmt"
	"math/bits"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// TorKind says what stands at the top of the rack.
type TorKind string

// The kinds of ToR.
const (
	// TorNone is a bridge: it forwards and sums nothing.
	TorNone TorKind = "none"
	// TorSoft is the software ToR, as a process of its own.
	TorSoft TorKind = "soft"
	// TorBMv2 is p4lang's simple_switch_grpc, which must be on PATH. It shows behaviour, not speed.
	TorBMv2 TorKind = "bmv2"
)

// Tor says what the rack's ToR is like. The zero value is a rack without one.
type Tor struct {
	// Kind is TorNone if empty.
	Kind TorKind
	// Slots is how many chunks its memory holds. Without any it only forwards.
	Slots int
	// Jobs is how many jobs the memory is for; 0 is 1.
	Jobs int
	// Shared gives every job all of the memory. Otherwise each has an equal part of its own.
	Shared bool
	// FirstCome leaves a slot to the chunk that has it, however urgent the next one is.
	FirstCome bool
	// Check is how often the daemon compares all that the ToR has with what it should have; 0 is the daemon's default.
	Check time.Duration
	// Command is what runs the software ToR in its namespace: a program that reads a softtor.Config as a line of JSON from
	// stdin, says a line of JSON when it listens, and ends when its stdin does.
	Command Command
}

// Ports of the ToR, as P4 numbers them: worker rank + 1, and the home's.
const (
	torHomePort   = 64
	maxWorkerPort = 65
)

// torWorkerPort is the ToR's port of a worker. The last of 64 would have the home's number, and has the next.
func torWorkerPort(rank int) uint16 {
	if port := uint16(rank) + 1; port < torHomePort {
		return port
	}
	return uint16(rank) + 2
}

// TorAddr is what the ToR sends partial sums from.
func TorAddr() netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, 253}) }

// setDefaults fills in what is left out, and says what is wrong.
func (t *Tor) setDefaults(elements int) error {
	if t.Kind == "" {
		t.Kind = TorNone
	}
	t.Jobs = max(t.Jobs, 1)
	switch t.Kind {
	case TorNone, TorSoft:
	case TorBMv2:
		if elements != bmv2Elements {
			return fmt.Errorf("the P4 program for BMv2 sums chunks of %d elements, not of %d", bmv2Elements, elements)
		}
	default:
		return fmt.Errorf("a ToR is %s, %s or %s, not %q", TorSoft, TorNone, TorBMv2, t.Kind)
	}
	if most := t.maxSlots(); t.Slots < 0 || t.Slots > most {
		return fmt.Errorf("a ToR of kind %s has 0 to %d slots, not %d", t.Kind, most, t.Slots)
	}
	return nil
}

// ask adds to a job's specification what it is to have of the ToR's memory: a part of its own, as large as those of the others that may come, or
// a place in the memory of all. A region is a power of two of slots; what equal shares of that kind leave over is not used.
func (t *Tor) ask(spec *v1.JobSpec) {
	switch share := t.share(int(spec.GetWindow())); {
	case spec.GetWorkers() < 2: // there is nothing to sum
	case t.Shared && t.sharedSlots() > 0:
		spec.Tor, spec.FirstCome = v1.TorUse_TOR_USE_SHARED, t.FirstCome
	case !t.Shared && share > 0:
		spec.Tor, spec.TorSlots = v1.TorUse_TOR_USE_PRIVATE, share
	}
}

// share is the private region of a job with this window.
func (t *Tor) share(window int) uint32 {
	return min(floorPower(uint32(t.Slots/t.Jobs)), ceilPower(uint32(window)), maxRegion)
}

// sharedSlots is the region that all jobs share.
func (t *Tor) sharedSlots() uint32 {
	if !t.Shared {
		return 0
	}
	return min(floorPower(uint32(t.Slots)), maxRegion)
}

// SlotsForAll is how many slots hold all chunks that so many jobs of this window have in flight.
func SlotsForAll(jobs, window int) int {
	return int(ceilPower(uint32(jobs)) * ceilPower(uint32(window)))
}

// floorPower is the largest power of two up to n, and 0 for 0.
func floorPower(n uint32) uint32 {
	if n == 0 {
		return 0
	}
	return 1 << (bits.Len32(n) - 1)
}

// ceilPower is the least power of two from n on, at least 1.
func ceilPower(n uint32) uint32 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len32(n-1)
}

// maxRegion is the most slots of a region: a slot index has 16 bits, and 0xFFFF says that there is none.
const maxRegion = 1 << 15

// What each kind of ToR can hold. BMv2's are the sizes that are compiled into the program.
const (
	softSlots    = maxRegion
	bmv2Slots    = 4096
	bmv2Elements = 32
	bmv2Program  = "simple_switch_grpc"
)

func (t *Tor) maxSlots() int {
	switch t.Kind {
	case TorSoft:
		return softSlots
	case TorBMv2:
		return bmv2Slots
	}
	return 0
}

// findBMv2 is where BMv2 is, or how to get it.
func findBMv2() (string, *Lack) {
	path, err := exec.LookPath(bmv2Program)
	if err != nil {
		return "", &Lack{"BMv2 (" + bmv2Program + " on PATH)", "install p4lang's bmv2 package, or use --tor " + string(TorSoft), nil}
	}
	return path, nil
}

// ParseTorKind reads one of the kinds.
func ParseTorKind(text string) (TorKind, error) {
	for _, kind := range []TorKind{TorNone, TorSoft, TorBMv2} {
		if string(kind) == text {
			return kind, nil
		}
	}
	return "", fmt.Errorf("%q is none of %s", text, strings.Join([]string{string(TorSoft), string(TorNone), string(TorBMv2)}, ", "))
}
