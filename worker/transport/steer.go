package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// steering is the program at an interface that gives a worker's packets to its rings. It is gone when its file descriptors are closed, however the process ends.
type steering struct {
	objects  steerObjects
	attached link.Link
	native   bool
}

// openSteering loads the program for so many queues and puts it on an interface: in native mode if the driver has that.
func openSteering(ifindex, queues int, cfg Config) (s *steering, err error) {
	spec, err := loadSteer()
	if err != nil {
		return nil, fmt.Errorf("read the steering program: %w", err)
	}
	group := cfg.Group
	if !group.IsValid() {
		group = cfg.Addr
	}
	var port [2]byte
	binary.BigEndian.PutUint16(port[:], cfg.WorkerPort)
	if err := errors.Join(
		spec.Variables[steerVarOwnAddress].Set(inMemory(cfg.Addr)),
		spec.Variables[steerVarGroupAddress].Set(inMemory(group)),
		spec.Variables[steerVarWorkerPort].Set(binary.NativeEndian.Uint16(port[:])),
	); err != nil {
		return nil, fmt.Errorf("set the steering program up: %w", err)
	}
	spec.Maps["rings"].MaxEntries = uint32(queues)
	s = &steering{native: true}
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return nil, fmt.Errorf("load the steering program (needs CAP_BPF and CAP_NET_ADMIN, or root): %w", err)
	}
	options := link.XDPOptions{Program: s.objects.Steer, Interface: ifindex, Flags: link.XDPDriverMode}
	s.attached, err = link.AttachXDP(options)
	if errors.Is(err, unix.EOPNOTSUPP) {
		s.native, options.Flags = false, link.XDPGenericMode
		s.attached, err = link.AttachXDP(options)
	}
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		err = fmt.Errorf("it has an XDP program already, of another worker or somebody else: %w", err)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("put the steering program on interface %d: %w", ifindex, err), s.objects.Close())
	}
	return s, nil
}

// inMemory is an IPv4 address as it lies in memory.
func inMemory(addr netip.Addr) uint32 {
	b := addr.As4()
	return binary.NativeEndian.Uint32(b[:])
}

// give makes the program give the packets of a queue to a socket.
func (s *steering) give(id int, q *queue) error {
	if err := s.objects.Rings.Update(uint32(id), uint32(q.fd), ebpf.UpdateAny); err != nil {
		return fmt.Errorf("steer queue %d to its AF_XDP socket: %w", id, err)
	}
	return nil
}

func (s *steering) close() error {
	if s == nil {
		return nil
	}
	if err := errors.Join(s.attached.Close(), s.objects.Close()); err != nil {
		return fmt.Errorf("take the steering program off: %w", err)
	}
	return nil
}

// What the kernel says of an interface's XDP over generic netlink (Documentation/netlink/specs/netdev.yaml of Linux, from 6.3 on).
const (
	netdevGet         = 1 // NETDEV_CMD_DEV_GET
	netdevIfindex     = 1 // NETDEV_A_DEV_IFINDEX
	netdevXDPFeatures = 3 // NETDEV_A_DEV_XDP_FEATURES
	featureZeroCopy   = 1 << 3
)

// genericHeader is struct genlmsghdr. That of package nl leaves the reserved bytes to chance, which the kernel refuses here.
type genericHeader [4]byte

func (h genericHeader) Len() int          { return len(h) }
func (h genericHeader) Serialize() []byte { return h[:] }

// hasZeroCopy asks whether an interface's driver has AF_XDP without copies, without touching it: binding a socket to find out would interrupt its traffic.
func hasZeroCopy(ifindex int) (bool, error) {
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return false, fmt.Errorf("ask the kernel what it says of XDP (it does from 6.3 on): %w", err)
	}
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	request.AddData(genericHeader{netdevGet, 1, 0, 0})
	request.AddData(nl.NewRtAttr(netdevIfindex, nl.Uint32Attr(uint32(ifindex))))
	answers, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return false, fmt.Errorf("ask for the XDP features of interface %d: %w", ifindex, err)
	}
	for _, answer := range answers {
		if len(answer) < nl.SizeofGenlmsg {
			continue
		}
		attributes, err := nl.ParseRouteAttr(answer[nl.SizeofGenlmsg:])
		if err != nil {
			return false, fmt.Errorf("read the XDP features of interface %d: %w", ifindex, err)
		}
		for _, a := range attributes {
			if a.Attr.Type == netdevXDPFeatures && len(a.Value) == 8 {
				return binary.NativeEndian.Uint64(a.Value)&featureZeroCopy != 0, nil
			}
		}
	}
	return false, nil
}
