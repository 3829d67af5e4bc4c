package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"spillway/loadtest/rack"
	"spillway/wire"
	"spillway/wire/hostile"
)

// floodFor is how long one attack lasts.
const floodFor = 300 * time.Millisecond

func hostileScenarios() []Scenario {
	return []Scenario{{
		Name:    "hostile",
		Summary: "a host of the rack that is no member floods garbage, mutants, replays and forged contributions",
		Story: "A host that takes no part in the job has heard packets of a member. As fast as it can it sends, for " + floodFor.String() + ": random bytes, mutants of those packets, the packets in its own name,\n" +
			"and in the member's name with guessed cookies. Nothing of it may change a sum.",
		Clock: clockRule, needs: needs{tor: true, outsider: true},
		prepare: func(ctx context.Context, s *stage) (err error) {
			s.attack, err = newAttack(ctx, s)
			return err
		},
		strike: func(ctx context.Context, s *stage) (incident, error) {
			at := monotonic()
			if err := s.attack.flood(ctx, floodFor); err != nil {
				return incident{}, err
			}
			return struck(at), nil
		},
	}}
}

// Offsets in an Ethernet frame with a Spillway packet in it.
const (
	atSource   = 26 // IPv4
	atHeader   = 42 // Spillway
	atCookie   = atHeader + 8
	atElements = atHeader + 24
	dataOffset = atHeader + wire.HeaderSize
)

// An attack is what an outsider knows, and its socket.
type attack struct {
	rng    *rand.Rand
	socket int
	own    netip.Addr
	heard  [][]byte // frames of a member
	sent   int

	closing sync.Once
	closed  error
}

// newAttack hears some packets of rank 0, and opens the outsider's socket.
func newAttack(ctx context.Context, s *stage) (*attack, error) {
	outsider := s.options.Workers
	a := &attack{rng: s.rng, own: rack.WorkerAddr(outsider)}
	listener, err := s.rack.PacketSocket(0, unix.ETH_P_ALL)
	if err != nil {
		return nil, err
	}
	a.heard, err = hear(ctx, listener, rack.WorkerAddr(0), 30)
	if err := errors.Join(err, unix.Close(listener)); err != nil {
		return nil, err
	}
	a.socket, err = s.rack.PacketSocket(outsider, 0)
	return a, err
}

// hear takes so many packets of DATA that a host sends: those that the kernel has not cut up yet, their first part.
func hear(ctx context.Context, socket int, from netip.Addr, count int) (frames [][]byte, err error) {
	if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return nil, fmt.Errorf("listen to a member: %w", err)
	}
	buffer := make([]byte, 1<<16)
	for len(frames) < count {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n, _, err := unix.Recvfrom(socket, buffer, 0)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listen to a member: %w", err)
		}
		f := buffer[:n]
		if n < dataOffset || binary.BigEndian.Uint16(f[12:]) != unix.ETH_P_IP || f[23] != unix.IPPROTO_UDP || [4]byte(f[atSource:]) != from.As4() ||
			f[atHeader] != wire.Version || f[atHeader+1] != byte(wire.Data) {
			continue
		}
		length := dataOffset + wire.ElementSize*int(binary.BigEndian.Uint16(f[atElements:]))
		if length > n {
			continue
		}
		f = slices.Clone(f[:length])
		binary.BigEndian.PutUint16(f[16:], uint16(length-14)) // of IPv4
		binary.BigEndian.PutUint16(f[38:], uint16(length-34)) // of UDP
		frames = append(frames, f)
	}
	return frames, nil
}

// flood sends for a while, as fast as the socket takes it.
func (a *attack) flood(ctx context.Context, d time.Duration) error {
	source := a.own.As4()
	world := hostile.World{
		Addrs: []netip.Addr{a.own, rack.HomeAddr(), netip.MustParseAddr("10.77.0.250")}, Ports: []uint16{9696, 9700, 9727, 9759}, Jobs: []uint16{0, 1, 2, 0xffff},
		Generations: []uint8{0, 1, 2, 0xff}, Cookies: []uint32{0, 1}, Bitmaps: []uint64{0, 1, 3, ^uint64(0)}, Slots: []uint16{0, 1, 0xffff}, Ring: 256,
		Elements: []int{0, 1, 31, 32, 64, 257},
	}
	heard := func() []byte { return slices.Clone(a.heard[a.rng.IntN(len(a.heard))]) }
	guessed := func() []byte {
		f := heard()
		binary.BigEndian.PutUint32(f[atCookie:], a.rng.Uint32())
		return f
	}
	kinds := []func() []byte{
		func() []byte { // garbage
			f := heard()
			copy(f[atSource:], source[:])
			for at := atHeader; at < len(f); at++ {
				f[at] = byte(a.rng.Uint32())
			}
			return f
		},
		func() []byte { // mutants; the cookie is the one thing that a wire tap at another host does not tell
			f, _ := world.Mutate(a.rng, guessed())
			return f[:min(len(f), 1500)]
		},
		func() []byte { // all that members know, in its own name
			f := heard()
			copy(f[atSource:], source[:])
			return f
		},
		guessed, // in a member's name
	}
	for over := time.Now().Add(d); time.Now().Before(over) && ctx.Err() == nil; {
		for _, kind := range kinds {
			if _, err := unix.Write(a.socket, kind()); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("flood: %w", err)
			}
			a.sent++
		}
	}
	return context.Cause(ctx)
}

// close closes the socket.
func (a *attack) close() error {
	a.closing.Do(func() { a.closed = unix.Close(a.socket) })
	return a.closed
}
