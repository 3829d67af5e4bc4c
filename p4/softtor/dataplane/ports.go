package dataplane

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netns"
)

// AttachPort puts the program on the interface of the current network namespace
// (lock the OS thread when that is not the process's), in native mode, as port.
// All ports must be of one namespace.
//
// Two things are up to what is at the far end of a veth. It must poll, or what is
// redirected to it is lost: it needs an XDP program of its own, or GRO. And it must not leave
// checksums to its device (ethtool -K ... tx off) for anything but Spillway's packets:
// they are forwarded as they are.
func (d *Dataplane) AttachPort(port Port, ifindex int) error {
	if err := checkPort(port); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, at := range d.attached {
		if p == port {
			return fmt.Errorf("port %d: is attached to interface %d already", port, at.ifindex)
		}
		if at.ifindex == ifindex {
			return fmt.Errorf("port %d: interface %d is port %d already", port, ifindex, p)
		}
	}
	space, err := currentNamespace()
	if err != nil {
		return fmt.Errorf("port %d: %w", port, err)
	}
	at := attachment{ifindex: ifindex, space: space}
	if err := d.attach(port, &at); err != nil {
		return errors.Join(fmt.Errorf("attach the software ToR to interface %d as port %d: %w", ifindex, port, err),
			d.unmap(port, ifindex), space.Close())
	}
	d.attached[port] = at
	if err := d.rebuildGroupsOf(port); err != nil {
		return errors.Join(err, d.detach(port))
	}
	return nil
}

func (d *Dataplane) attach(port Port, at *attachment) error {
	if err := d.objects.Devices.Put(uint32(port), uint32(at.ifindex)); err != nil {
		return err
	}
	if err := d.objects.Ports.Put(uint32(at.ifindex), uint32(port)); err != nil {
		return err
	}
	var err error
	at.link, err = link.AttachXDP(link.XDPOptions{Program: d.objects.Tor, Interface: at.ifindex, Flags: link.XDPDriverMode})
	return err
}

// unmap undoes attach, but for the link.
func (d *Dataplane) unmap(port Port, ifindex int) error {
	var errs []error
	for _, err := range []error{d.objects.Devices.Delete(uint32(port)), d.objects.Ports.Delete(uint32(ifindex))} {
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// DetachPort takes the program off again.
func (d *Dataplane) DetachPort(port Port) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.attached[port]; !ok {
		return fmt.Errorf("port %d: is not attached", port)
	}
	return d.detach(port)
}

func (d *Dataplane) detach(port Port) error {
	at := d.attached[port]
	delete(d.attached, port)
	err := errors.Join(at.link.Close(), d.unmap(port, at.ifindex), d.rebuildGroupsOf(port), at.space.Close())
	if err != nil {
		return fmt.Errorf("detach port %d: %w", port, err)
	}
	return nil
}

// Ports are the attached ports, ascending.
func (d *Dataplane) Ports() []Port {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.attached))
}

// namespace is a network namespace.
type namespace struct{ handle netns.NsHandle }

func currentNamespace() (namespace, error) {
	handle, err := netns.Get()
	if err != nil {
		return namespace{}, fmt.Errorf("open the network namespace: %w", err)
	}
	return namespace{handle}, nil
}

// Close forgets it.
func (n namespace) Close() error { return n.handle.Close() }

// run calls f in the namespace: a device map takes the index of an interface
// for one of the caller's namespace.
func (n namespace) run(f func() error) error {
	done := make(chan error)
	go func() {
		// Never unlocked: the thread is not to be used again, in whatever
		// namespace it is, and ends with this goroutine.
		runtime.LockOSThread()
		if err := netns.Set(n.handle); err != nil {
			done <- fmt.Errorf("enter the network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}
