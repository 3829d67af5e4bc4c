package steering

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/ethtool.h; x/sys has the commands but for this one, and not the structures.
const (
	ethtoolRings     = 0x2d       // ETHTOOL_GRXRINGS
	udpOverIPv4      = 0x02       // UDP_V4_FLOW
	anyLocation      = 0xffffffff // RX_CLS_LOC_ANY: the driver chooses
	locationsSpecial = 0x80000000 // RX_CLS_LOC_SPECIAL, in the answer's data: it can
	dropped          = ^uint64(0) // RX_CLS_FLOW_DISC, as a ring
	matched          = uint16(0xffff)
)

// flowUnion is union ethtool_flow_union with what of struct ethtool_tcpip4_spec is needed here.
type flowUnion struct {
	_        [8]byte // addresses
	_        uint16  // source port
	DestPort uint16  // big-endian
	Rest     [40]byte
}

// flowExt is struct ethtool_flow_ext, of which nothing is needed.
type flowExt struct{ All [20]byte }

// flowSpec is struct ethtool_rx_flow_spec.
type flowSpec struct {
	FlowType uint32
	Value    flowUnion
	ValueExt flowExt
	Mask     flowUnion
	MaskExt  flowExt
	_        [4]byte
	Ring     uint64
	Location uint32
	_        [4]byte
}

// request is struct ethtool_rxnfc, but for the locations that follow it in one command.
type request struct {
	Command   uint32
	FlowType  uint32
	Data      uint64
	Flow      flowSpec
	RuleCount uint32
}

// requestSize is where the locations begin.
const requestSize = int(unsafe.Offsetof(request{}.RuleCount)) + 4

// rule is the flow rule that keeps a port on a ring.
func rule(port uint16, ring uint64, location uint32) flowSpec {
	f := flowSpec{FlowType: udpOverIPv4, Ring: ring, Location: location}
	f.Value.DestPort = bigEndian(port)
	f.Mask.DestPort = matched
	return f
}

// port is what the rule steers, if it is one that rule makes, wherever it steers to. Drivers may leave what the mask
// does not ask for as it was, or clear it.
func (f *flowSpec) port() (port uint16, ok bool) {
	if f.FlowType != udpOverIPv4 || f.Mask != (flowUnion{DestPort: matched}) || f.MaskExt != (flowExt{}) || f.Ring == dropped {
		return 0, false
	}
	return bigEndian(f.Value.DestPort), true
}

// bigEndian swaps where the machine is little-endian; both ways.
func bigEndian(port uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	return binary.NativeEndian.Uint16(b[:])
}

// kernel asks a NIC's driver. The locations come back in the slice.
type kernel interface {
	ask(r *request, locations []uint32) error
	close() error
}

// socket is the real kernel: a socket of the interface's network namespace, and its name there.
type socket struct {
	fd   int
	name string
}

// ifreq is struct ifreq with a pointer in its union.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

func (s *socket) ask(r *request, locations []uint32) error {
	buffer := make([]byte, unsafe.Sizeof(*r)+4*uintptr(len(locations)))
	*(*request)(unsafe.Pointer(&buffer[0])) = *r
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&buffer[0])
	req := &ifreq{data: unsafe.Pointer(&buffer[0])}
	copy(req.name[:unix.IFNAMSIZ-1], s.name)
	pinned.Pin(req)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(req))); errno != 0 {
		return errno
	}
	*r = *(*request)(unsafe.Pointer(&buffer[0]))
	for i := range locations {
		locations[i] = binary.NativeEndian.Uint32(buffer[requestSize+4*i:])
	}
	return nil
}

func (s *socket) close() error { return unix.Close(s.fd) }

// unsupported reports whether the driver has no such thing as flow rules.
func unsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY)
}

// rings is how many receive queues the NIC has.
func rings(k kernel) (uint64, error) {
	r := request{Command: ethtoolRings}
	if err := k.ask(&r, nil); err != nil {
		return 0, fmt.Errorf("ask for the number of queues: %w", err)
	}
	return r.Data, nil
}

// rules are the flow rules that are there, with the size of their table and whether the driver chooses a rule's place itself.
func rules(k kernel) (all []flowSpec, size uint32, chooses bool, err error) {
	count := request{Command: unix.ETHTOOL_GRXCLSRLCNT}
	if err := k.ask(&count, nil); err != nil {
		return nil, 0, false, fmt.Errorf("count the flow rules: %w", err)
	}
	chooses = count.Data&locationsSpecial != 0
	locations := make([]uint32, count.RuleCount)
	list := request{Command: unix.ETHTOOL_GRXCLSRLALL, RuleCount: count.RuleCount}
	if err := k.ask(&list, locations); err != nil {
		return nil, 0, false, fmt.Errorf("list the flow rules: %w", err)
	}
	for _, at := range locations[:min(int(list.RuleCount), len(locations))] {
		one := request{Command: unix.ETHTOOL_GRXCLSRULE, Flow: flowSpec{Location: at}}
		if err := k.ask(&one, nil); err != nil {
			return nil, 0, false, fmt.Errorf("read flow rule %d: %w", at, err)
		}
		all = append(all, one.Flow)
	}
	return all, uint32(list.Data &^ locationsSpecial), chooses, nil
}

func insert(k kernel, f flowSpec) (location uint32, err error) {
	r := request{Command: unix.ETHTOOL_SRXCLSRLINS, Flow: f}
	if err := k.ask(&r, nil); err != nil {
		return 0, fmt.Errorf("steer port %d to queue %d: %w", bigEndian(f.Value.DestPort), f.Ring, err)
	}
	return r.Flow.Location, nil
}

func remove(k kernel, location uint32) error {
	r := request{Command: unix.ETHTOOL_SRXCLSRLDEL, Flow: flowSpec{Location: location}}
	if err := k.ask(&r, nil); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove flow rule %d: %w", location, err)
	}
	return nil
}
