package rack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/wire"
	"spillway/wire/hostile"
)

// rawSocket is a packet socket on a host's interface: it sends frames as they are, and with protocol 0 hears nothing.
func rawSocket(t *testing.T, r *Rack, host int, protocol uint16) int {
	t.Helper()
	var fd int
	err := r.InWorker(host, func() error {
		eth, err := net.InterfaceByName(hostInterface)
		if err != nil {
			return err
		}
		network := protocol<<8 | protocol>>8
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(network)); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: network, Ifindex: eth.Index})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	})
	return fd
}

// record listens at a host until it has sent so many packets of DATA, and returns them, as they are on the wire: those that the kernel has
// not cut up yet, their first part.
func record(t *testing.T, r *Rack, host, count int) (frames [][]byte) {
	t.Helper()
	fd := rawSocket(t, r, host, unix.ETH_P_ALL)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1<<16)
	for len(frames) < count {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.Fatalf("after %d packets: %v", len(frames), err)
		}
		f := buffer[:n]
		if n < 70 || binary.BigEndian.Uint16(f[12:]) != 0x0800 || f[23] != unix.IPPROTO_UDP || [4]byte(f[26:30]) != WorkerAddr(host).As4() ||
			[4]byte(f[30:34]) != HomeAddr().As4() || f[42] != wire.Version || f[43] != byte(wire.Data) {
			continue
		}
		length := 70 + 4*int(binary.BigEndian.Uint16(f[66:]))
		if length > n {
			t.Fatalf("a frame of %d bytes with DATA of %d", n, length)
		}
		f = slices.Clone(f[:length])
		binary.BigEndian.PutUint16(f[16:], uint16(length-14))
		binary.BigEndian.PutUint16(f[38:], uint16(length-34))
		frames = append(frames, f)
	}
	return frames
}

// An intruder is a host of the rack that is no member of the job, but knows, by whatever way, what a member sends.
type intruder struct {
	testing.TB
	fd   int
	rng  *rand.Rand
	sent atomic.Uint64
}

func (i *intruder) send(frame []byte) {
	if _, err := unix.Write(i.fd, frame); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) && !i.Failed() {
		i.Errorf("send a frame of %d bytes: %v", len(frame), err)
	}
	i.sent.Add(1)
}

// changed is a copy with other bytes in one place.
func changed(frame []byte, at int, value ...byte) []byte {
	frame = slices.Clone(frame)
	copy(frame[at:], value)
	return frame
}

// flood sends one packet of each kind after the other until ctx ends: old and live are what a member sent in another generation, and in this one.
func (i *intruder) flood(ctx context.Context, kinds []func() []byte) {
	for ctx.Err() == nil {
		for _, kind := range kinds {
			i.send(kind())
		}
	}
}

// common are the attacks that need nothing but a wire: whatever the rack is like, they come to nothing.
func (i *intruder) common(own netip.Addr, old, live [][]byte) map[string]func() []byte {
	world := hostile.World{
		Addrs: []netip.Addr{own, HomeAddr(), netip.MustParseAddr("10.77.0.200")}, Ports: []uint16{9696, 9700, 9727, 9759}, Jobs: []uint16{0, 1, 2, 0xffff},
		Generations: []uint8{0, 1, 2, 3, 0xff}, Cookies: []uint32{0, 1}, Bitmaps: []uint64{0, 1, 3, 7, ^uint64(0)}, Slots: []uint16{0, 1, 0xffff}, Ring: 256,
		Elements: []int{0, 1, 31, 32, 64, 257},
	}
	source := own.As4()
	pick := func(frames [][]byte) []byte { return frames[i.rng.IntN(len(frames))] }
	return map[string]func() []byte{
		"garbage": func() []byte {
			f := changed(pick(live), 26, source[:]...)
			for at := 42; at < len(f); at++ {
				f[at] = byte(i.rng.Uint32())
			}
			return f
		},
		"mutants of an old generation": func() []byte {
			f, _ := world.Mutate(i.rng, pick(old))
			return f[:min(len(f), 1500)]
		},
		"replays of an old generation": func() []byte { return pick(old) },
		"a member's name and a guessed cookie": func() []byte {
			return changed(pick(live), 50, binary.BigEndian.AppendUint32(nil, i.rng.Uint32())...)
		},
		"all that members know, in its own name": func() []byte { return changed(pick(live), 26, source[:]...) },
	}
}

// behindTheTor are attacks that a ToR knows by the port they come by.
func (i *intruder) behindTheTor(live [][]byte) map[string]func() []byte {
	next := func() []byte {
		f := live[i.rng.IntN(len(live))]
		seq := binary.BigEndian.Uint32(f[54:]) + i.rng.Uint32N(4096)
		return changed(f, 54, binary.BigEndian.AppendUint32(nil, seq)...)
	}
	return map[string]func() []byte{
		"contributions in a member's name": next,
		// The ToR lets these through: 9740 is one of the home's ports, and none of those that the ToR watches.
		"contributions in a member's name, around the ToR": func() []byte {
			return changed(next(), 36, binary.BigEndian.AppendUint16(nil, 9740)...)
		},
		"results in the home's name":                 func() []byte { return forged(next(), 9696) },
		"results in the home's name, around the ToR": func() []byte { return forged(next(), 9000) },
	}
}

// forged is a RESULT of rank 0's DATA for that rank, in the home's name, but for the source port.
func forged(data []byte, port uint16) []byte {
	f := changed(data, 43, byte(wire.Result))
	home, to := HomeAddr().As4(), WorkerAddr(0).As4()
	copy(f, hardwareAddr(WorkerAddr(0)))
	copy(f[26:], home[:])
	copy(f[30:], to[:])
	workerPort := binary.BigEndian.Uint16(f[34:])
	binary.BigEndian.PutUint16(f[34:], port)
	binary.BigEndian.PutUint16(f[36:], workerPort)
	binary.BigEndian.PutUint16(f[40:], 0) // no UDP checksum
	binary.BigEndian.PutUint64(f[58:], wire.FullBitmap(3))
	f[49] = 0
	checksumIP(f)
	return f
}

// checksumIP makes the header's checksum right.
func checksumIP(f []byte) {
	f[24], f[25] = 0, 0
	sum := uint32(0)
	for at := 14; at < 34; at += 2 {
		sum += uint32(binary.BigEndian.Uint16(f[at:]))
	}
	binary.BigEndian.PutUint16(f[24:], ^uint16(sum+sum>>16))
}

// summed is how many chunks of a job are done, wherever they were summed.
func summed(t *testing.T, r *Rack, job string) uint64 {
	t.Helper()
	home, tor, err := r.Counters(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	return home["published"] + tor.Events["completed"]
}

// dropsFound are the reasons of the findings that a diagnosis, made now, calls errors and has a remedy for, as level/reason.
func dropsFound(t *testing.T, r *Rack) (found []string) {
	t.Helper()
	diagnosis, err := r.home().daemon.node.Diagnose(t.Context(), &v1.DiagnoseRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range diagnosis.GetFindings() {
		if f.GetCheck() != "drops" || f.GetLevel() != v1.FindingLevel_FINDING_LEVEL_ERROR || f.GetRemedy() == "" {
			continue
		}
		level, _, _ := strings.Cut(strings.TrimPrefix(f.GetText(), "the "), " ")
		_, reason, _ := strings.Cut(f.GetText(), "(")
		reason, _, _ = strings.Cut(reason, ")")
		found = append(found, level+"/"+reason)
	}
	return found
}

// reduceAgain lets new processes of a job that is there reduce.
func reduceAgain(t *testing.T, r *Rack, job Job) (all []*Process) {
	t.Helper()
	invitations, err := r.Invite(job)
	if err != nil {
		t.Fatal(err)
	}
	for rank, host := range job.Hosts {
		p, err := r.StartWorker(host, Command{Env: []string{"SPILLWAY_TEST_ROLE=reducer"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Send(invitations[rank]); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for range 2 {
		for _, report := range reports(t, all) {
			if report.Error != "" {
				t.Fatal(report.Error)
			}
		}
	}
	return all
}

// While workers reduce, a host of their rack that is none of them floods all it can think of: every sum stays right to the last bit, which the
// workers themselves check, the job goes on, and what was dropped is counted by reason, which a diagnosis shows with what to do about it.
func TestIntruder(t *testing.T) {
	for _, c := range []struct {
		name string
		tor  Tor
		want []string // findings
	}{
		{"bridge", Tor{}, []string{
			"aggregator/bad_version", "aggregator/bad_generation", "aggregator/bad_cookie", "aggregator/not_member",
		}},
		{"ToR", softTor(32), []string{
			"ToR/bad_header", "ToR/stale", "ToR/bad_cookie", "ToR/not_member", "aggregator/unknown_job",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const outsider = 3
			r := build(t, Config{Workers: 4, Rate: 500_000_000, Tor: c.tor})
			job := Job{Name: "besieged", Window: 64, Hosts: []int{0, 1, 2}}
			first := startReducers(t, r, job)
			old := record(t, r, 0, 30)
			stop(t, first)
			all := reduceAgain(t, r, job)
			live := record(t, r, 0, 30)
			if was, is := old[0][48], live[0][48]; was == is {
				t.Fatalf("generations %d and %d", was, is)
			}
			i := &intruder{TB: t, fd: rawSocket(t, r, outsider, 0), rng: rand.New(rand.NewPCG(1, 1))}
			attacks := i.common(WorkerAddr(outsider), old, live)
			if c.tor.Kind != "" {
				for name, kind := range i.behindTheTor(live) {
					attacks[name] = kind
				}
			}
			var kinds []func() []byte
			for _, kind := range attacks {
				kinds = append(kinds, kind)
			}
			before := summed(t, r, job.Name)
			ctx, cancel := context.WithCancel(t.Context())
			var flooding sync.WaitGroup
			flooding.Go(func() { i.flood(ctx, kinds) })
			found := dropsFound(t, r)
			deadline := time.Now().Add(20 * time.Second)
			for time.Now().Before(deadline) && !containsAll(found, c.want) {
				found = dropsFound(t, r)
			}
			after := summed(t, r, job.Name)
			cancel()
			flooding.Wait()
			if !containsAll(found, c.want) {
				t.Errorf("the diagnosis has %v, want %v", found, c.want)
			}
			if after == before {
				t.Errorf("no chunk was summed during %d hostile packets", i.sent.Load())
			}
			t.Logf("%d hostile packets, %d chunks summed meanwhile; found %v", i.sent.Load(), after-before, found)
			stop(t, all)
		})
	}
}

func containsAll(all, want []string) bool {
	for _, w := range want {
		if !slices.Contains(all, w) {
			return false
		}
	}
	return true
}

// stop ends reducers, which end well only if every sum was right.
func stop(t *testing.T, all []*Process) {
	t.Helper()
	for rank, p := range all {
		if err := p.Stop(); err != nil {
			t.Errorf("reducer %d: %v", rank, err)
		}
	}
}

// TestSpoofedMember is what a ToR defends, and a rack without one does not: a host that learned the cookie contributes in a member's name. With a
// ToR it does not help to name a port that the ToR does not watch.
func TestSpoofedMember(t *testing.T) {
	const chunk = 16 // for the home: the ToR has memory for the first half of 32
	const elsewhere = 9740
	for _, c := range []struct {
		name    string
		tor     Tor
		port    uint16 // 0: the job's
		counted string
		right   bool
	}{
		{"bridge", Tor{}, 0, "claimed", false},
		{"ToR", softTor(16), 0, "not_member", true},
		{"around the ToR", softTor(16), elsewhere, "unknown_job", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			const elements = 32
			r := build(t, Config{Workers: 3, Tor: c.tor})
			members := joinAll(t, r, Job{Name: "spoofed", Window: 32, Hosts: []int{0, 1}})
			honest, forged := make([]int32, elements), make([]int32, elements)
			for i := range honest {
				honest[i], forged[i] = 1, 1000
			}
			to := members[0].home()
			if c.port != 0 {
				to = netip.AddrPortFrom(to.Addr(), c.port)
			}
			i := &intruder{TB: t, fd: rawSocket(t, r, 2, 0)}
			i.send(udpFrame(WorkerAddr(0), to, uint16(members[0].said.GetWorkerPort()), members[0].packet(chunk, forged)))
			await(t, r, "spoofed", c.counted)
			members[0].send(t, chunk, honest)
			members[1].send(t, chunk, honest)
			want := int32(1001)
			if c.right {
				want = 2
			}
			// Without a ToR the home answers the honest contribution, a duplicate, with a PENDING.
			h, got := members[0].receive(t)
			for h.Type != wire.Result {
				h, got = members[0].receive(t)
			}
			if got[0] != want {
				t.Errorf("the sum is %d, want %d", got[0], want)
			}
		})
	}
}

// A home that makes copies for a job without a group takes up what its own program hands on, and nothing from the wire that looks like it: it would
// send copies of a stranger's packet to all members, in its own name, and past any ToR.
func TestReplicatorTakesNothingFromTheWire(t *testing.T) {
	for _, tagged := range []bool{false, true} {
		t.Run(fmt.Sprintf("tagged=%t", tagged), func(t *testing.T) {
			const elements = 32
			r := build(t, Config{Workers: 3})
			members := joinAll(t, r, Job{Name: "copied", Window: 4, Hosts: []int{0, 1}, Unicast: true})
			m := members[0]
			packet := m.packet(0, make([]int32, elements))
			packet[1] = byte(wire.Result)
			binary.BigEndian.PutUint64(packet[16:], wire.FullBitmap(2))
			f := udpFrame(HomeAddr(), netip.AddrPortFrom(HomeAddr(), uint16(m.said.GetWorkerPort())), m.home().Port(), packet)
			copy(f[6:], hardwareAddr(WorkerAddr(2))) // or else the bridge would not know where the home is
			if tagged {
				f = slices.Insert(f, 12, 0x81, 0, 0, 0) // of no VLAN: taken for untagged in the end
			}
			i := &intruder{TB: t, fd: rawSocket(t, r, 2, 0)}
			for range 3 {
				i.send(f)
			}
			reduce(t, members, 0, elements) // fails on a RESULT that is not the sum
		})
	}
}

// await waits until a packet was counted under a name, at some level, for the job or for none.
func await(t *testing.T, r *Rack, job, name string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		home, tor, err := r.Counters(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		none, err := r.Unassigned(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if home[name]+tor.Events[name]+none[name] != 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing was counted as %s: %v, %v, %v", name, home, tor, none)
		}
	}
}

// udpFrame is a packet from a worker's address to the home.
func udpFrame(from netip.Addr, to netip.AddrPort, port uint16, payload []byte) []byte {
	f := make([]byte, 42, 42+len(payload))
	copy(f, hardwareAddr(to.Addr()))
	copy(f[6:], hardwareAddr(from))
	binary.BigEndian.PutUint16(f[12:], 0x0800)
	f[14], f[22], f[23] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(f[16:], uint16(28+len(payload)))
	copy(f[26:], from.AsSlice())
	copy(f[30:], to.Addr().AsSlice())
	checksumIP(f)
	binary.BigEndian.PutUint16(f[34:], port)
	binary.BigEndian.PutUint16(f[36:], to.Port())
	binary.BigEndian.PutUint16(f[38:], uint16(8+len(payload)))
	return append(f, payload...)
}
