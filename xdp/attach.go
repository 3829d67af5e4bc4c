package xdp

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"spillway/xdp/steering"
)

// Mode is how the program sits on an interface.
type Mode string

// The modes, the faster first.
const (
	Native  Mode = "native"  // in the driver, before the kernel makes a socket buffer
	Generic Mode = "generic" // after; works on any interface, and is slow
)

// Attachment is an interface that the program is on.
type Attachment struct {
	Ifindex int
	Mode    Mode
}

// attachment is the program on one interface. It costs a netlink socket, and two more where the NIC has filters; they
// belong to the interface's network namespace, so that it can be taken off from any thread.
type attachment struct {
	ifindex int
	mode    Mode
	link    link.Link // nil: not there yet, or not any more
	record  attachmentRecord
	handle  *netlink.Handle // nil: not entered yet
	nic     *steering.NIC   // nil: likewise, or it has no filters
}

// Attach puts the program on the interface of the current network namespace
// (lock the OS thread when that is not the process's). It prefers native mode;
// Generic is a fallback that it logs a warning about. The replicator for unicast jobs goes to
// the interface's tc ingress, and where the NIC has filters, each home port to one of its queues.
//
// Where the program is already, also by a process before this one, what is missing or of an older build is replaced and
// the rest left alone. Another's program is a ForeignError, unless Open was told to take over.
func (a *Aggregator) Attach(ifindex int) (Mode, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.attached[ifindex]
	if at == nil {
		at = &attachment{ifindex: ifindex}
	}
	if err := at.enter(); err != nil {
		return "", fmt.Errorf("attach the aggregator to interface %d: %w", ifindex, err)
	}
	a.attached[ifindex] = at
	found := at.link != nil
	if err := a.attach(at); err != nil {
		err = fmt.Errorf("attach the aggregator to interface %d: %w", ifindex, err)
		if !found {
			err = errors.Join(err, a.takeOff(at))
		}
		return "", err
	}
	return at.mode, nil
}

// enter opens netlink in the interface's network namespace, which must be the thread's.
func (at *attachment) enter() error {
	netns, err := netnsCookie()
	if err != nil {
		return err
	}
	if at.record.Netns == 0 {
		at.record.Netns = netns
	}
	if at.record.Netns != netns {
		return fmt.Errorf("it was attached in another network namespace (cookie %d, this one's is %d): do this there", at.record.Netns, netns)
	}
	if at.handle == nil {
		if at.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
	}
	return nil
}

// attach brings everything about an interface to what it should be.
func (a *Aggregator) attach(at *attachment) error {
	if err := a.keepRecord(at); err != nil {
		return err
	}
	if at.link == nil {
		if err := a.attachProgram(at); err != nil {
			return err
		}
	} else if err := a.updateProgram(at); err != nil {
		return err
	}
	if err := a.attachReplicator(at); err != nil {
		return err
	}
	a.steer(at)
	return nil
}

func (a *Aggregator) attachProgram(at *attachment) (err error) {
	if err := a.vacate(at); err != nil {
		return err
	}
	at.mode = Native
	at.link, err = link.AttachXDP(link.XDPOptions{Program: a.objects.Aggregator, Interface: at.ifindex, Flags: link.XDPDriverMode})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		at.mode = Generic
		native := err
		at.link, err = link.AttachXDP(link.XDPOptions{Program: a.objects.Aggregator, Interface: at.ifindex, Flags: link.XDPGenericMode})
		if err != nil {
			err = fmt.Errorf("%w (native: %w)", err, native)
		} else {
			slog.Warn("the interface's driver has no native XDP: the aggregator runs in generic mode, which is slow", "ifindex", at.ifindex, "native", native)
		}
	}
	if err != nil {
		at.link = nil // and not an interface that holds a nil pointer
		return err
	}
	if a.pins != nil {
		if err := at.link.Pin(a.pins.link(at.ifindex)); err != nil {
			return fmt.Errorf("pin the link: %w", err)
		}
	}
	return nil
}

// updateProgram puts this process's program into a link that is there, at once for all packets.
func (a *Aggregator) updateProgram(at *attachment) error {
	info, err := at.link.Info()
	if err != nil {
		return err
	}
	ours, err := programID(a.objects.Aggregator)
	if err != nil {
		return err
	}
	if info.Program != ours {
		if err := at.link.Update(a.objects.Aggregator); err != nil {
			return fmt.Errorf("put the new program in the old one's place: %w", err)
		}
	}
	at.mode = at.presentMode()
	return nil
}

// presentMode asks the kernel how the program sits there; the thread is in the interface's network namespace. A link does not say.
func (at *attachment) presentMode() Mode {
	present, err := netlink.LinkByIndex(at.ifindex)
	if err != nil {
		return Native // it goes at this moment
	}
	if xdp := present.Attrs().Xdp; xdp != nil && xdp.AttachMode == nl.XDP_ATTACHED_SKB {
		return Generic
	}
	return Native
}

// steer keeps each home port on one queue where the NIC can. It is for speed alone, so a failure is no more than a warning.
func (a *Aggregator) steer(at *attachment) {
	var changes steering.Changes
	nic, err := steering.Open(at.ifindex)
	if err == nil {
		changes, err = nic.Steer(a.config.FirstPort, a.config.Ports, func(c steering.Changes) error {
			if c.Rules > 0 {
				at.record.Flags |= recordSteered
			}
			if c.Ntuple {
				at.record.Flags |= recordNtuple
			}
			return a.keepRecord(at)
		})
		if at.nic == nil && at.record.Flags&(recordSteered|recordNtuple) != 0 {
			at.nic = nic // to undo it from any thread
		} else {
			err = errors.Join(err, nic.Close())
		}
	}
	switch {
	case err != nil:
		slog.Warn("the NIC's filters were not set: packets of a chunk may meet on several queues, which is slower", "ifindex", at.ifindex, "error", err)
	case changes.Rules > 0:
		slog.Info("the NIC keeps each home port on one queue", "ifindex", at.ifindex, "rules", changes.Rules)
	}
}

// Withdraw takes the program off one interface of the current network namespace. It is no error that it is not there.
func (a *Aggregator) Withdraw(ifindex int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.attached[ifindex]
	if at == nil {
		return nil
	}
	return a.takeOff(at)
}

// takeOff undoes attach, also one that stopped half-way, and forgets the interface if nothing is left there.
func (a *Aggregator) takeOff(at *attachment) error {
	if err := at.detach(a.config.FirstPort, a.config.Ports); err != nil {
		return fmt.Errorf("detach from interface %d: %w", at.ifindex, err)
	}
	delete(a.attached, at.ifindex)
	err := at.close()
	if a.pins != nil {
		err = errors.Join(err, a.pins.forget(at.ifindex))
	}
	return err
}

// detach takes all off the interface that the record and the link say is there. What is gone already is no error.
func (at *attachment) detach(firstPort, ports uint16) error {
	present, err := at.present()
	if err != nil {
		return err
	}
	var errs []error
	if at.link != nil {
		if err := at.link.Detach(); err != nil {
			errs = append(errs, fmt.Errorf("take the XDP program off: %w", err))
		}
	}
	if present {
		errs = append(errs, at.detachReplicator())
		errs = append(errs, at.unsteer(firstPort, ports))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if at.link != nil {
		if err := at.link.Unpin(); err != nil {
			return err
		}
	}
	return nil
}

// unsteer undoes steer.
func (at *attachment) unsteer(firstPort, ports uint16) (err error) {
	changes := steering.Changes{Rules: int(at.record.Flags & recordSteered), Ntuple: at.record.Flags&recordNtuple != 0}
	if changes == (steering.Changes{}) {
		return nil
	}
	if at.nic == nil {
		if at.nic, err = steering.Open(at.ifindex); err != nil {
			return err
		}
	}
	return at.nic.Restore(firstPort, ports, changes)
}

// present opens what it takes to change the interface, and reports whether there is one. It may be in another network namespace
// than the thread, which is an error as long as the program is on it.
func (at *attachment) present() (bool, error) {
	if at.handle == nil {
		linked, err := at.linked()
		if err != nil {
			return false, err
		}
		here, err := netnsCookie()
		if err != nil {
			return false, err
		}
		if !linked && at.record.Netns != 0 && at.record.Netns != here {
			return false, nil
		}
		if err := at.enter(); err != nil {
			return false, err
		}
	}
	_, err := at.handle.LinkByIndex(at.ifindex)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return false, nil
	}
	return err == nil, err
}

// linked reports whether the program is on the interface. A link outlives its interface, and being detached by somebody.
func (at *attachment) linked() (bool, error) {
	if at.link == nil {
		return false, nil
	}
	info, err := at.link.Info()
	if err != nil {
		return false, err
	}
	return info.XDP() != nil && info.XDP().Ifindex != 0, nil
}

// close gives up the process's handles. A link that is not pinned ends with its handle.
func (at *attachment) close() error {
	var errs []error
	if at.handle != nil {
		at.handle.Close()
		at.handle = nil
	}
	if at.nic != nil {
		errs = append(errs, at.nic.Close())
		at.nic = nil
	}
	if at.link != nil {
		errs = append(errs, at.link.Close())
		at.link = nil
	}
	return errors.Join(errs...)
}

// keepRecord writes the interface's record to where the next process finds it.
func (a *Aggregator) keepRecord(at *attachment) error {
	if a.pins == nil {
		return nil
	}
	if err := a.pins.attachments.Put(uint32(at.ifindex), at.record); err != nil {
		return fmt.Errorf("write down what is done to interface %d (there is room for %d): %w", at.ifindex, maxAttachments, err)
	}
	return nil
}
