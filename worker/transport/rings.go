package transport

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// What a queue has in frames, at least and at most, each way.
	leastFrames, mostFrames = 256, 8192
	mostQueues              = 64
	ringBatch               = 64 // frames taken from a ring at once
	// retryAfter is how long a Wait for room in the rings takes, ns. Nothing tells when a copying socket's frames are free again; packets of a full link are.
	retryAfter = 50_000
	// othersEvery is after how many calls of Receive that found nothing said by Wait the sockets and the monitor are looked at.
	othersEvery = 64
)

// written is a packet in a frame, not yet in the ring.
type written struct {
	frame uint64
	size  uint32 // of the payload
	home  uint16
	port  uint16
}

// rings is a Conn of AF_XDP sockets, one at each queue of the interface, on top of the UDP sockets: those own the port, join the group, and take what cannot go or
// come by the rings, such as packets to a neighbour whose hardware address the kernel has yet to find.
type rings struct {
	*sockets
	queues   []*queue
	steering *steering
	paths    *paths
	written  []written
	framed   []uint32 // by frame to send of the first queue: the stamp of the headers that it has
	halted   bool     // the interface took no packets when it was last looked at
	idle     int      // calls of Receive since the sockets and the monitor were looked at
	ready    func() bool
}

// openRings puts rings on top of sockets. If they are chosen and not asked for, only where the driver has them without copies.
func openRings(udp *sockets, chosen bool) (r *rings, err error) {
	r = &rings{sockets: udp}
	defer func() {
		if err != nil {
			r.closeRings(&err)
		}
	}()
	device, err := interfaceOf(udp.cfg.Addr.As4())
	if err != nil {
		return r, err
	}
	name, index := device.Attrs().Name, device.Attrs().Index
	if chosen {
		zero, err := hasZeroCopy(index)
		if err != nil {
			return r, err
		}
		if !zero {
			return r, fmt.Errorf("the driver of %s has no AF_XDP without copies, and with them bunches of UDP datagrams are faster", name)
		}
	}
	if r.paths, err = openPaths(device); err != nil {
		return r, err
	}
	count := queuesOf(name)
	if r.steering, err = openSteering(index, count, udp.cfg); err != nil {
		return r, err
	}
	flags := []uint16{unix.XDP_ZEROCOPY | unix.XDP_USE_NEED_WAKEUP, unix.XDP_COPY | unix.XDP_USE_NEED_WAKEUP}
	if !r.steering.native {
		flags = flags[1:]
		udp.cfg.Logger.Warn("the interface's driver has no XDP: packets are copied on a slow way", "interface", name)
	}
	for i, f := range flags {
		if err = r.openQueues(index, count, f); err == nil {
			break
		}
		if i < len(flags)-1 {
			err = r.closeQueues()
		}
		if err != nil {
			return r, fmt.Errorf("interface %s: %w", name, err)
		}
	}
	r.stats.Kind, r.stats.ZeroCopy, r.stats.Reason = AFXDP, r.queues[0].zeroCopy(), ""
	r.ready = func() bool { return r.arrived() > 0 }
	for _, q := range r.queues {
		r.polled = append(r.polled, unix.PollFd{Fd: int32(q.fd), Events: unix.POLLIN})
	}
	r.polled = append(r.polled, unix.PollFd{Fd: int32(r.paths.monitor), Events: unix.POLLIN})
	r.resting = slices.Clone(r.polled)
	r.look()
	return r, nil
}

// interfaceOf is the interface that has an address.
func interfaceOf(addr [4]byte) (netlink.Link, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	defer handle.Close()
	addrs, err := handle.AddrList(nil, unix.AF_INET)
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this host: %w", err)
	}
	for _, a := range addrs {
		if a.IP.Equal(addr[:]) {
			device, err := handle.LinkByIndex(a.LinkIndex)
			if err != nil {
				return nil, fmt.Errorf("find interface %d: %w", a.LinkIndex, err)
			}
			return device, nil
		}
	}
	return nil, fmt.Errorf("no interface has the address %d.%d.%d.%d", addr[0], addr[1], addr[2], addr[3])
}

// queuesOf is the number of an interface's queues that receive; 1 if the driver does not say.
func queuesOf(name string) int {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return 1
	}
	defer e.Close()
	channels, err := e.GetChannels(name)
	if err != nil {
		return 1
	}
	return int(min(max(channels.RxCount+channels.CombinedCount, 1), mostQueues))
}

// openQueues makes a socket at each queue. Only the first sends, which keeps packets in order.
func (r *rings) openQueues(ifindex, count int, flags uint16) error {
	window := r.cfg.Window
	for id := range count {
		receive, send := frames(2*window), 1
		if id == 0 {
			send = frames(window)
		}
		q, err := openQueue(ifindex, id, receive, send, flags)
		if err != nil {
			return err
		}
		r.queues = append(r.queues, q)
		if err := r.steering.give(id, q); err != nil {
			return err
		}
	}
	r.written = make([]written, 0, len(r.queues[0].tx.entries))
	r.framed = make([]uint32, len(r.queues[0].memory)/frameSize)
	r.enlarge(r.queues[0].fd) // a copying socket counts what it has sent against its queue
	// From Linux 6.17 on a call may send more than 32 packets; before, there are more calls.
	_ = unix.SetsockoptInt(r.queues[0].fd, unix.SOL_XDP, optionTxBudget, len(r.queues[0].tx.entries))
	return nil
}

// optionTxBudget is XDP_MAX_TX_SKB_BUDGET of linux/if_xdp.h.
const optionTxBudget = 9

// frames is how many frames hold so many packets.
func frames(packets int) int {
	return min(max(1<<bits.Len(uint(packets-1)), leastFrames), mostFrames)
}

// look looks the ways to the homes up.
func (r *rings) look() {
	r.halted = false
	r.paths.look(r.cfg.Addr.As4(), r.cfg.WorkerPort, r.homes)
}

// Packet is Conn's.
func (r *rings) Packet(seq uint32, size int) []byte {
	h := r.shard(seq)
	if !r.paths.resolved[h] || payloadAt-ipAt+size > r.paths.mtu {
		return r.sockets.Packet(seq, size)
	}
	q := r.queues[0]
	if len(q.free) == 0 {
		q.reclaim()
	}
	if len(q.free) == 0 || len(r.written) == cap(r.written) {
		return nil
	}
	at := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	_, port := r.towards(seq)
	r.written = append(r.written, written{frame: at, size: uint32(size), home: uint16(h), port: port})
	end := at + payloadAt + uint64(size)
	return q.memory[at+payloadAt : end : end]
}

// Flush is Conn's.
func (r *rings) Flush() (blocked bool, err error) {
	if blocked, err = r.sockets.Flush(); err != nil {
		return false, err
	}
	q := r.queues[0]
	if len(r.written) > 0 {
		now := time.Now()
		count := *q.tx.producer
		for i := range r.written {
			w := &r.written[i]
			frame := q.memory[w.frame : w.frame+payloadAt+uint64(w.size)]
			h := &r.paths.headers[w.home]
			if stamp := &r.framed[w.frame/frameSize]; *stamp != r.paths.stamps[w.home] {
				copy(frame, h.bytes[:])
				*stamp = r.paths.stamps[w.home]
			}
			h.finish(frame, w.port)
			*q.tx.at(count) = unix.XDPDesc{Addr: w.frame, Len: uint32(len(frame))}
			count++
			r.paths.use(int(w.home), now)
		}
		atomic.StoreUint32(q.tx.producer, count)
		r.stats.RingsSent += uint64(len(r.written))
		r.written = r.written[:0]
	}
	full, err := r.kick()
	return blocked || full, err
}

// kick makes the kernel send what is in the ring, and reports whether there is no room.
func (r *rings) kick() (blocked bool, err error) {
	if r.halted {
		return false, nil
	}
	q := r.queues[0]
	for stuck := 0; ; {
		waiting := q.tx.waiting()
		if waiting == 0 {
			break
		}
		if !q.tx.needsWakeup() {
			break // the driver takes them by itself
		}
		_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(q.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		r.stats.SendCalls++
		switch errno {
		case 0, unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS:
		case unix.EBUSY: // this packet found no room behind the interface, and is lost
			r.stats.SendDropped++
		case unix.ENETDOWN, unix.ENXIO, unix.ENETUNREACH:
			// The interface is down or gone, which the monitor tells as well. What is in the ring stays there; it counts as lost.
			r.down(unix.Errno(errno))
			return false, nil
		default:
			return false, fmt.Errorf("send by an AF_XDP socket: %w", errno)
		}
		if q.tx.waiting() < waiting {
			stuck = 0
			continue
		}
		if stuck++; stuck > 1 || errno == unix.EAGAIN {
			r.stats.SendBlocked++
			return true, nil
		}
	}
	q.reclaim()
	if len(q.free) == 0 {
		r.stats.SendBlocked++
		return true, nil
	}
	return false, nil
}

// down leaves everything to the sockets until the monitor says something else.
func (r *rings) down(reason error) {
	r.halted = true
	clear(r.paths.resolved)
	if r.stats.SendDropped == 0 {
		r.cfg.Logger.Warn("the interface takes no packets; they count as lost", "error", reason)
	}
	r.stats.SendDropped += uint64(r.queues[0].tx.waiting())
}

// arrived is how many packets wait in the rings.
func (r *rings) arrived() (n uint32) {
	for _, q := range r.queues {
		n += atomic.LoadUint32(q.rx.producer) - *q.rx.consumer
	}
	return n
}

// Receive is Conn's.
func (r *rings) Receive(to Receiver) (more bool, err error) {
	for _, q := range r.queues {
		r.receiveFrom(q, to)
	}
	if r.idle++; r.idle >= othersEvery || r.said() {
		r.idle, r.quiet = 0, [2]bool{}
		if r.paths.changed() {
			r.look()
		}
		if more, err = r.sockets.Receive(to); err != nil {
			return false, err
		}
	}
	return more || r.arrived() > 0, nil
}

// said reports whether the last Wait heard of anything but the rings, once.
func (r *rings) said() bool {
	found := false
	for i := 1; i < len(r.polled); i++ {
		ofRing := i >= len(r.polled)-1-len(r.queues) && i < len(r.polled)-1
		if !ofRing && r.polled[i].Revents != 0 {
			found = true
		}
		r.polled[i].Revents = 0
	}
	return found
}

// receiveFrom hands over packets of one queue, and gives their frames back.
func (r *rings) receiveFrom(q *queue, to Receiver) {
	begin, end := *q.rx.consumer, atomic.LoadUint32(q.rx.producer)
	if end-begin > ringBatch {
		end = begin + ringBatch
	}
	if begin == end {
		return
	}
	fill := *q.fill.producer
	for i := begin; i != end; i++ {
		d := q.rx.at(i)
		r.deliverFrame(q.memory[d.Addr:d.Addr+uint64(d.Len)], to)
		*q.fill.at(fill) = d.Addr &^ (frameSize - 1)
		fill++
	}
	atomic.StoreUint32(q.rx.consumer, end)
	atomic.StoreUint32(q.fill.producer, fill)
	r.stats.RingsReceived += uint64(end - begin)
	if q.fill.needsWakeup() {
		// An error is that of a socket without packets.
		_, _, _ = unix.Syscall6(unix.SYS_RECVFROM, uintptr(q.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		r.stats.ReceiveCalls++
	}
}

func (r *rings) deliverFrame(frame []byte, to Receiver) {
	p, v := parse(frame)
	switch {
	case v == damaged:
		r.stats.BadChecksums++
		return
	case v == foreign || !r.fromHome(p.from, p.port):
		r.stats.Strangers++
		return
	}
	ce := p.ecn&ecnMask == congestion
	if ce {
		r.stats.CEMarks++
	}
	to.Receive(p.payload, ce)
}

// Wait is Conn's.
func (r *rings) Wait(timeout int64, writable bool) error {
	if r.arrived() > 0 {
		return nil
	}
	r.polled[1].Events = unix.POLLIN
	if writable {
		r.polled[1].Events |= unix.POLLOUT
		if r.queues[0].tx.waiting() > 0 || len(r.queues[0].free) == 0 {
			r.polled[1].Events = unix.POLLIN // which has room, and would end the Wait at once
			timeout = min(timeout, retryAfter)
		}
	}
	return r.wait(timeout, r.ready)
}

// SetHomes is Conn's.
func (r *rings) SetHomes(said []Home) error {
	if err := r.sockets.SetHomes(said); err != nil {
		return err
	}
	for _, w := range r.written {
		r.queues[0].free = append(r.queues[0].free, w.frame)
	}
	r.written = r.written[:0]
	r.look()
	return nil
}

// Close is Conn's.
func (r *rings) Close() error {
	var err error
	r.closeRings(&err)
	return errors.Join(err, r.sockets.Close())
}

// closeRings closes all but the sockets, and joins what fails to an error. The program goes first, so that nothing is steered to sockets that go.
func (r *rings) closeRings(err *error) {
	errs := []error{*err, r.steering.close(), r.closeQueues()}
	if r.paths != nil {
		errs = append(errs, r.paths.close())
	}
	*err = errors.Join(errs...)
	r.steering, r.paths = nil, nil
}

func (r *rings) closeQueues() error {
	var errs []error
	for _, q := range r.queues {
		errs = append(errs, q.close())
	}
	r.queues = nil
	return errors.Join(errs...)
}
