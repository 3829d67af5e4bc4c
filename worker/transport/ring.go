package transport

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is one of the four rings of an AF_XDP socket, shared with the kernel (Documentation/networking/af_xdp.rst of Linux). One side writes entries and then
// the producer's count, the other reads entries and then moves the consumer's; both counts run on, modulo 2^32. Go's atomics order them
// as that needs on every architecture.
type ring[T any] struct {
	memory             []byte
	producer, consumer *uint32
	flags              *uint32
	entries            []T // a power of two
}

// mapRing maps a ring of n entries at an offset of the socket's file.
func mapRing[T any](fd int, offset int64, at unix.XDPRingOffset, n int) (r ring[T], err error) {
	var entry T
	r.memory, err = unix.Mmap(fd, offset, int(at.Desc)+n*int(unsafe.Sizeof(entry)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return r, fmt.Errorf("map a ring of an AF_XDP socket: %w", err)
	}
	r.producer = (*uint32)(unsafe.Pointer(&r.memory[at.Producer]))
	r.consumer = (*uint32)(unsafe.Pointer(&r.memory[at.Consumer]))
	r.flags = (*uint32)(unsafe.Pointer(&r.memory[at.Flags]))
	r.entries = unsafe.Slice((*T)(unsafe.Pointer(&r.memory[at.Desc])), n)
	return r, nil
}

func (r *ring[T]) unmap() error {
	if r.memory == nil {
		return nil
	}
	err := unix.Munmap(r.memory)
	*r = ring[T]{}
	if err != nil {
		return fmt.Errorf("unmap a ring of an AF_XDP socket: %w", err)
	}
	return nil
}

func (r *ring[T]) at(count uint32) *T { return &r.entries[count&uint32(len(r.entries)-1)] }

// waiting is how many entries the producer has written and the consumer not taken.
func (r *ring[T]) waiting() uint32 {
	return atomic.LoadUint32(r.producer) - atomic.LoadUint32(r.consumer)
}

// needsWakeup reports whether the kernel looks at the ring only when it is called.
func (r *ring[T]) needsWakeup() bool {
	return atomic.LoadUint32(r.flags)&unix.XDP_RING_NEED_WAKEUP != 0
}

const (
	// frameSize is that of a frame of the shared memory: what the kernel takes on every architecture. Its driver keeps frameHeadroom for itself.
	frameSize     = 4096
	frameHeadroom = 256
)

// queue is an AF_XDP socket at one of an interface's queues, with memory of its own: frames to receive into, then frames to send.
type queue struct {
	fd         int
	memory     []byte
	fill       ring[uint64]
	completion ring[uint64]
	rx, tx     ring[unix.XDPDesc]
	free       []uint64 // frames to send, by their place in memory
}

// openQueue makes a socket with so many frames each way, powers of two.
func openQueue(ifindex, id, receive, send int, flags uint16) (q *queue, err error) {
	q = &queue{fd: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.close())
		}
	}()
	if q.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return q, fmt.Errorf("create an AF_XDP socket: %w", err)
	}
	if q.memory, err = unix.Mmap(-1, 0, (receive+send)*frameSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
		return q, fmt.Errorf("reserve %d frames of %d bytes: %w", receive+send, frameSize, err)
	}
	area := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&q.memory[0]))), Len: uint64(len(q.memory)), Size: frameSize}
	// The first form of the structure, which all kernels take.
	if err = setXDP(q.fd, unix.XDP_UMEM_REG, unsafe.Pointer(&area), unsafe.Offsetof(area.Flags)); err != nil {
		return q, fmt.Errorf("register %d bytes of memory with an AF_XDP socket (locked memory is limited by RLIMIT_MEMLOCK): %w", len(q.memory), err)
	}
	for _, r := range []struct{ name, size int }{
		{unix.XDP_UMEM_FILL_RING, receive}, {unix.XDP_UMEM_COMPLETION_RING, send}, {unix.XDP_RX_RING, receive}, {unix.XDP_TX_RING, send},
	} {
		if err = unix.SetsockoptInt(q.fd, unix.SOL_XDP, r.name, r.size); err != nil {
			return q, fmt.Errorf("give an AF_XDP socket a ring of %d entries: %w", r.size, err)
		}
	}
	if err = q.mapRings(receive, send); err != nil {
		return q, err
	}
	for i := range receive {
		*q.fill.at(uint32(i)) = uint64(i * frameSize)
	}
	atomic.StoreUint32(q.fill.producer, uint32(receive))
	q.free = make([]uint64, 0, send)
	for i := range send {
		q.free = append(q.free, uint64((receive+i)*frameSize))
	}
	if err = q.bind(&unix.SockaddrXDP{Flags: flags, Ifindex: uint32(ifindex), QueueID: uint32(id)}); err != nil {
		return q, fmt.Errorf("bind an AF_XDP socket to queue %d: %w", id, err)
	}
	return q, nil
}

// The kernel lets go of a queue only some time after the socket before is closed, and does not tell when.
const (
	bindPatience = time.Second
	bindPause    = 5 * time.Millisecond
)

func (q *queue) bind(to *unix.SockaddrXDP) error {
	for begin := time.Now(); ; time.Sleep(bindPause) {
		if err := unix.Bind(q.fd, to); err != unix.EBUSY || time.Since(begin) > bindPatience {
			return err
		}
	}
}

func (q *queue) mapRings(receive, send int) error {
	var at unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(at))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(q.fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS, uintptr(unsafe.Pointer(&at)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
		return fmt.Errorf("ask an AF_XDP socket where its rings are: %w", errno)
	}
	var errs [4]error
	q.fill, errs[0] = mapRing[uint64](q.fd, unix.XDP_UMEM_PGOFF_FILL_RING, at.Fr, receive)
	q.completion, errs[1] = mapRing[uint64](q.fd, unix.XDP_UMEM_PGOFF_COMPLETION_RING, at.Cr, send)
	q.rx, errs[2] = mapRing[unix.XDPDesc](q.fd, unix.XDP_PGOFF_RX_RING, at.Rx, receive)
	q.tx, errs[3] = mapRing[unix.XDPDesc](q.fd, unix.XDP_PGOFF_TX_RING, at.Tx, send)
	return errors.Join(errs[:]...)
}

func setXDP(fd, name int, value unsafe.Pointer, size uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(name), uintptr(value), size, 0); errno != 0 {
		return errno
	}
	return nil
}

// reclaim takes back the frames that have been sent.
func (q *queue) reclaim() {
	done, end := *q.completion.consumer, atomic.LoadUint32(q.completion.producer)
	for ; done != end; done++ {
		q.free = append(q.free, *q.completion.at(done)&^(frameSize-1))
	}
	atomic.StoreUint32(q.completion.consumer, done)
}

// zeroCopy reports whether the socket works without copies.
func (q *queue) zeroCopy() bool {
	options, err := unix.GetsockoptInt(q.fd, unix.SOL_XDP, unix.XDP_OPTIONS)
	return err == nil && options&unix.XDP_OPTIONS_ZEROCOPY != 0
}

func (q *queue) close() error {
	errs := []error{q.fill.unmap(), q.completion.unmap(), q.rx.unmap(), q.tx.unmap()}
	if q.fd >= 0 {
		errs = append(errs, unix.Close(q.fd))
	}
	if q.memory != nil {
		errs = append(errs, unix.Munmap(q.memory))
	}
	q.fd, q.memory = -1, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close an AF_XDP socket: %w", err)
	}
	return nil
}
