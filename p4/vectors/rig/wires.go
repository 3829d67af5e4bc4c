package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"spillway/p4/vectors"
)

// wires are veth pairs: the switch has the ends called by switchEnd, packet
// sockets are on the others.
type wires struct {
	ports   []uint16
	sockets []int // of each port
}

// switchEnd is the name of the interface that a switch is given as port.
func switchEnd(port uint16) string { return fmt.Sprintf("port%d", port) }

func hostEnd(port uint16) string { return fmt.Sprintf("host%d", port) }

// newWires lays them in the namespace that the calling thread is in.
func newWires(ports []uint16) (*wires, error) {
	w := &wires{}
	for _, port := range ports {
		socket, err := newWire(port)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("wire of port %d: %w", port, err), w.close())
		}
		w.ports, w.sockets = append(w.ports, port), append(w.sockets, socket)
	}
	return w, nil
}

func newWire(port uint16) (socket int, err error) {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: hostEnd(port)}, PeerName: switchEnd(port)}
	if err := netlink.LinkAdd(veth); err != nil {
		return 0, err
	}
	var index int
	for _, name := range []string{switchEnd(port), hostEnd(port)} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return 0, err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return 0, err
		}
		index = link.Attrs().Index
	}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all))
	if err != nil {
		return 0, fmt.Errorf("packet socket: %w", err)
	}
	// Only what comes in, and room for what a step makes.
	err = errors.Join(
		unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}),
	)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("packet socket: %w", err), unix.Close(socket))
	}
	return socket, nil
}

// poll lets the far ends take frames from an XDP program, which a veth does
// only where it polls: with generic receive offload.
func (w *wires) poll() error {
	ethernet, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("ethtool: %w", err)
	}
	defer ethernet.Close()
	for _, port := range w.ports {
		if err := ethernet.Change(hostEnd(port), map[string]bool{"rx-gro": true}); err != nil {
			return fmt.Errorf("receive offload of %s: %w", hostEnd(port), err)
		}
	}
	return nil
}

func (w *wires) close() error {
	var all []error
	for _, s := range w.sockets {
		all = append(all, unix.Close(s))
	}
	return errors.Join(all...)
}

var errNoPort = errors.New("no wire leads to this port")

// send puts a frame into a port of the switch.
func (w *wires) send(port uint16, frame []byte) error {
	i := slices.Index(w.ports, port)
	if i < 0 {
		return fmt.Errorf("port %d: %w", port, errNoPort)
	}
	for {
		_, err := unix.Write(w.sockets[i], frame)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// ErrTimeout is that the switch did not give the marker back.
var ErrTimeout = errors.New("the marker did not come back by all ports")

// collect reads what leaves the switch until the marker has left by every port.
func (w *wires) collect(marker []byte, timeout time.Duration) ([]vectors.Emission, error) {
	var out []vectors.Emission
	missing := slices.Clone(w.ports)
	deadline := time.Now().Add(timeout)
	buffer := make([]byte, 1<<16)
	for len(missing) > 0 {
		left := time.Until(deadline)
		if left <= 0 {
			return out, fmt.Errorf("%w: not by %v within %v; %d frames had left", ErrTimeout, missing, timeout, len(out))
		}
		var polled []unix.PollFd
		for _, port := range missing {
			polled = append(polled, unix.PollFd{Fd: int32(w.sockets[slices.Index(w.ports, port)]), Events: unix.POLLIN})
		}
		if _, err := unix.Poll(polled, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return out, fmt.Errorf("poll: %w", err)
		}
		for i, port := range slices.Clone(missing) {
			if polled[i].Revents == 0 {
				continue
			}
			frames, marked, err := drain(int(polled[i].Fd), buffer, marker)
			if err != nil {
				return out, fmt.Errorf("port %d: %w", port, err)
			}
			for _, frame := range frames {
				out = append(out, vectors.Emission{Port: port, Frame: frame})
			}
			if marked {
				missing = slices.DeleteFunc(missing, func(p uint16) bool { return p == port })
			}
		}
	}
	return out, nil
}

// drain reads from a socket until it is empty or the marker comes. Old markers are dropped.
func drain(socket int, buffer, marker []byte) (frames [][]byte, marked bool, err error) {
	for {
		n, err := unix.Read(socket, buffer)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return frames, false, nil
		case err != nil:
			return frames, false, err
		}
		frame := slices.Clone(buffer[:n])
		if markerNumber(frame) == 0 {
			frames = append(frames, frame)
		} else if markerNumber(frame) == markerNumber(marker) {
			return frames, true, nil
		}
	}
}
