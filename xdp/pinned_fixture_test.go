package xdp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"spillway/wire"
)

// bpffs mounts a BPF file system for the test, which any user may write to, and returns where Open may make a directory.
func bpffs(t *testing.T) string {
	t.Helper()
	at, err := os.MkdirTemp("", "spillway-bpffs-") // not t.TempDir, which only root can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(at); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("bpf", at, "bpf", 0, "mode=0777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(at, 0o777); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(at, "spillway")
}

// a cable is a veth pair in a network namespace of the test's thread: the aggregator goes to one end, packets to the other.
type cable struct {
	index int // of the aggregator's end
	name  string
	fd    int // packet socket on the other end
	peer  int
}

func newCable(t *testing.T) *cable {
	t.Helper()
	inNamespace(t)
	c := &cable{name: "data"}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: c.name}, PeerName: "peer"}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	for name, index := range map[string]*int{c.name: &c.index, "peer": &c.peer} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
		*index = l.Attrs().Index
	}
	proto := swap16(unix.ETH_P_IP)
	var err error
	if c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(proto)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(c.fd) })
	if err := unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: proto, Ifindex: c.peer}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		t.Fatal(err)
	}
	return c
}

// listen lets RESULTs in: a veth takes what its peer's XDP program sends back only if it has an XDP program itself.
func (c *cable) listen(t *testing.T) {
	t.Helper()
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(Pass)), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pass.Close() })
	l, err := link.AttachXDP(link.XDPOptions{Program: pass, Interface: c.peer, Flags: link.XDPDriverMode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

// contribute sends a rank's chunks of the seqs. Element i of rank r in seq s is value(r, s, i).
func (c *cable) contribute(t *testing.T, rank int, seqs []uint32, elems int) {
	t.Helper()
	for _, seq := range seqs {
		x := make([]int32, elems)
		for i := range x {
			x[i] = value(rank, seq, i)
		}
		if _, err := unix.Write(c.fd, frame(rank, header(wire.Data, rank, seq, elems), x)); err != nil {
			t.Fatal(err)
		}
	}
}

func value(rank int, seq uint32, i int) int32 {
	return int32(uint32(rank+1)*2654435761+seq*40503+uint32(i)*2246822519) >> 3
}

// results receives a RESULT for each of the seqs and holds it to the sum over n ranks.
func (c *cable) results(t *testing.T, n int, seqs []uint32, elems int) {
	t.Helper()
	left := slices.Clone(seqs)
	buffer := make([]byte, 9000)
	for len(left) > 0 {
		size, from, err := unix.Recvfrom(c.fd, buffer, 0)
		if err != nil {
			t.Fatalf("waiting for the results of %v: %v", left, err)
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		got := parseAnswer(t, buffer[:size])
		at := slices.Index(left, got.header.Seq)
		if got.header.Type != wire.Result || at < 0 || got.header.Bitmap != wire.FullBitmap(n) {
			t.Fatalf("unexpected %+v", got.header)
		}
		left = slices.Delete(left, at, at+1)
		want := make([]int32, elems)
		for rank := range n {
			for i := range want {
				want[i] += value(rank, got.header.Seq, i)
			}
		}
		if !slices.Equal(got.elements, want) {
			t.Fatalf("seq %d: got %v, want %v", got.header.Seq, got.elements, want)
		}
	}
}

func until(n uint32) (seqs []uint32) {
	for seq := range n {
		seqs = append(seqs, seq)
	}
	return seqs
}

// await polls until the condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func openPinned(t *testing.T, dir string, config Config, takeover Takeover) *Aggregator {
	t.Helper()
	a, err := Open(dir, config, takeover)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	return a
}

func attachTo(t *testing.T, a *Aggregator, ifindex int, want Mode) {
	t.Helper()
	if mode, err := a.Attach(ifindex); err != nil || mode != want {
		t.Fatalf("mode %q, error %v; want %q", mode, err, want)
	}
}

func release(t *testing.T, a *Aggregator) {
	t.Helper()
	if err := a.Release(); err != nil {
		t.Fatal(err)
	}
}

// expectClean fails if anything is left on the interface or in the directory.
func expectClean(t *testing.T, dir string, ifindex int) {
	t.Helper()
	if ifindex != 0 {
		l, err := netlink.LinkByIndex(ifindex)
		if err != nil {
			t.Fatal(err)
		}
		if xdp := l.Attrs().Xdp; xdp != nil && xdp.Attached {
			t.Errorf("program %d is still attached", xdp.ProgId)
		}
		qdiscs, err := netlink.QdiscList(l)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range qdiscs {
			if q.Type() == "clsact" {
				t.Error("the clsact qdisc is still there")
			}
		}
		filters, err := netlink.FilterList(l, netlink.HANDLE_MIN_INGRESS)
		if err == nil && len(filters) > 0 {
			t.Errorf("a filter is still there: %v", filters)
		}
	}
	if entries, err := os.ReadDir(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v, error %v", dir, entries, err)
	}
}

// expectGone waits until the kernel has freed the program, which it does a grace period after the last reference.
func expectGone(t *testing.T, id ebpf.ProgramID) {
	t.Helper()
	await(t, fmt.Sprintf("program %d is freed", id), func() bool {
		p, err := ebpf.NewProgramFromID(id)
		if err == nil {
			p.Close()
		}
		return errors.Is(err, os.ErrNotExist)
	})
}

// idOf is the id of the program that runs on the interface.
func idOf(t *testing.T, ifindex int) ebpf.ProgramID {
	t.Helper()
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil || l.Attrs().Xdp == nil || !l.Attrs().Xdp.Attached {
		t.Fatalf("no program on interface %d: %v", ifindex, err)
	}
	return ebpf.ProgramID(l.Attrs().Xdp.ProgId)
}

// filterID is the id of the replicator on the interface.
func filterID(t *testing.T, ifindex int) ebpf.ProgramID {
	t.Helper()
	filters, err := netlink.FilterList(byIndex(ifindex), netlink.HANDLE_MIN_INGRESS)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range filters {
		if bpf, ok := f.(*netlink.BpfFilter); ok && bpf.Name == replicatorName {
			return ebpf.ProgramID(bpf.Id)
		}
	}
	t.Fatalf("no replicator on interface %d: %v", ifindex, filters)
	return 0
}

// unicastJob is one whose copies go by the replicator.
func unicastJob(id uint16, ifindex int) Job {
	j := testJob(3, 256)
	j.ID, j.Group, j.Generation, j.Window = id, netip.Addr{}, 9, 20
	for i := range j.Members {
		j.Members[i].MAC, j.Members[i].Ifindex = workerMAC(i), ifindex
	}
	j.Members = append([]Member{{Addr: workerAddr(tor), Bits: 7}}, j.Members...)
	return j
}

// descriptors counts this process's open file descriptors.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
