package rack

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/loadtest/faults"
	"spillway/wire"
	"spillway/xdp"
)

// member is the least that a worker of a job is: a call to the daemon, and a socket that sends DATA and gets RESULTs.
type member struct {
	conn *net.UDPConn
	rank int
	said *v1.Parameters
}

// joinAll has the daemon admit a job, and makes a member of each rank.
func joinAll(t *testing.T, r *Rack, job Job) []*member {
	t.Helper()
	if err := r.AddJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	hosts := r.completed(job).Hosts
	members := make([]*member, len(hosts))
	var joining errgroup.Group
	for rank, host := range hosts {
		members[rank] = &member{rank: rank}
		joining.Go(func() (err error) {
			members[rank].said, err = ask(t.Context(), r, &v1.JoinRequest{Job: job.Name, Rank: uint32(rank), Address: WorkerAddr(host).String()})
			return err
		})
	}
	if err := joining.Wait(); err != nil {
		t.Fatal(err)
	}
	for rank, host := range hosts {
		members[rank].listen(t, r, host)
	}
	return members
}

// ask joins, as an operator may for anybody, and returns what the daemon has to say when all ranks have. The call lasts as long as ctx.
func ask(ctx context.Context, r *Rack, request *v1.JoinRequest) (*v1.Parameters, error) {
	call, err := v1.NewWorkerServiceClient(r.home().daemon.conn).Join(ctx, request)
	for err == nil {
		var response *v1.JoinResponse
		if response, err = call.Recv(); response.GetParameters() != nil {
			return response.GetParameters(), nil
		}
	}
	return nil, err
}

func (m *member) listen(t *testing.T, r *Rack, host int) {
	t.Helper()
	m.conn = socket(t, inWorker(r, host), fmt.Sprintf("0.0.0.0:%d", m.said.GetWorkerPort()))
	if m.said.GetGroup() == "" {
		return
	}
	err := r.InWorker(host, func() error {
		eth, err := net.InterfaceByName(hostInterface)
		if err != nil {
			return err
		}
		return ipv4.NewPacketConn(m.conn).JoinGroup(eth, &net.UDPAddr{IP: net.ParseIP(m.said.GetGroup())})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// home is where the member's DATA goes to.
func (m *member) home() netip.AddrPort {
	at := m.said.GetHomes()[0]
	return netip.AddrPortFrom(netip.MustParseAddr(at.GetAddress()), uint16(at.GetPort()))
}

// packet is the member's DATA for a chunk.
func (m *member) packet(seq uint32, elements []int32) []byte {
	h := wire.Header{Version: wire.Version, Type: wire.Data, Job: uint16(m.said.GetJobId()), Generation: uint8(m.said.GetGeneration()), Cookie: m.said.GetCookie(),
		Seq: seq, Bitmap: 1 << m.rank, Elems: uint16(len(elements)), Slot: wire.NoSlot}
	if g := m.said.GetTor(); g != nil && seq%g.GetPeriod() < g.GetSlots() {
		h.Priority, h.Slot = DefaultPriority, uint16(g.GetBase()+(seq%g.GetPeriod()+g.GetOffset())%g.GetSlots())
	}
	packet := make([]byte, wire.HeaderSize, wire.MaxPacket)
	h.Encode(packet)
	for _, e := range elements {
		packet = binary.BigEndian.AppendUint32(packet, uint32(e))
	}
	return packet
}

func (m *member) send(t *testing.T, seq uint32, elements []int32) {
	t.Helper()
	if _, err := m.conn.WriteToUDPAddrPort(m.packet(seq, elements), m.home()); err != nil {
		t.Fatal(err)
	}
}

func (m *member) receive(t *testing.T) (wire.Header, []int32) {
	t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4096)
	n, from, err := m.conn.ReadFromUDPAddrPort(buffer)
	if err != nil {
		t.Fatalf("rank %d: %v", m.rank, err)
	}
	if from.Addr().Unmap() != HomeAddr() {
		t.Errorf("rank %d: a packet from %v", m.rank, from)
	}
	var h wire.Header
	payload, err := h.Decode(buffer[:n])
	if err != nil {
		t.Fatal(err)
	}
	elements := make([]int32, h.Elems)
	for i := range elements {
		elements[i] = int32(binary.BigEndian.Uint32(payload[4*i:]))
	}
	return h, elements
}

func TestSumsThroughTheHome(t *testing.T) {
	for _, unicast := range []bool{false, true} {
		for _, elements := range []int{32, 256, 832} {
			t.Run(fmt.Sprintf("unicast=%t/%d", unicast, elements), func(t *testing.T) {
				const workers, chunks = 3, 20
				r := build(t, Config{Workers: workers, Elements: elements})
				if r.Mode() != xdp.Native {
					t.Errorf("mode %s", r.Mode())
				}
				job := Job{Name: "sums", Window: 32, Unicast: unicast}
				members := joinAll(t, r, job)
				for seq := range uint32(chunks) {
					for rank, m := range members {
						contribution := make([]int32, elements)
						for i := range contribution {
							contribution[i] = int32(i*(rank+1)) - int32(seq)
						}
						m.send(t, seq, contribution)
					}
					for rank, m := range members {
						h, sum := m.receive(t)
						if h.Type != wire.Result || h.Seq != seq || h.Bitmap != wire.FullBitmap(workers) || len(sum) != elements {
							t.Fatalf("rank %d got %+v", rank, h)
						}
						for i, got := range sum {
							if want := int32(i*6) - int32(3*seq); got != want {
								t.Fatalf("rank %d, chunk %d, element %d: %d, want %d", rank, seq, i, got, want)
							}
						}
					}
				}
				counters, tor, err := r.Counters(t.Context(), job.Name)
				if err != nil {
					t.Fatal(err)
				}
				if counters["published"] != chunks || counters["data"] != workers*chunks || tor.Events != nil {
					t.Errorf("counters %v, %v", counters, tor)
				}
				if err := r.RemoveJob(t.Context(), job.Name); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// RESULTs of a burst cross the bridge as super-packets, unless there are faults to inject.
func TestResultsCrossInBunches(t *testing.T) {
	for _, rates := range []faults.Rates{{}, {Loss: 1e-9}} {
		t.Run(fmt.Sprintf("faults=%t", rates.Any()), func(t *testing.T) {
			const workers, chunks, elements = 2, 16, 256
			r := build(t, Config{Workers: workers, Elements: elements, Faults: rates})
			members := joinAll(t, r, Job{Name: "bunches", Window: 32})
			before := packetsForwarded(t, r)
			for rank := range workers {
				option(t, members[rank].conn, unix.IPPROTO_UDP, unix.UDP_SEGMENT, wire.HeaderSize+4*elements)
				option(t, members[rank].conn, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
			}
			for _, m := range members {
				var burst []byte
				for seq := range uint32(chunks) {
					burst = append(burst, m.packet(seq, make([]int32, elements))...)
				}
				if _, err := m.conn.WriteToUDPAddrPort(burst, m.home()); err != nil {
					t.Fatal(err)
				}
			}
			for _, m := range members {
				got, reads := 0, 0
				for buffer := make([]byte, 1<<16); got < chunks*(wire.HeaderSize+4*elements); reads++ {
					if err := m.conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
						t.Fatal(err)
					}
					n, err := m.conn.Read(buffer)
					if err != nil {
						t.Fatalf("after %d bytes: %v", got, err)
					}
					got += n
				}
				// A receiving host may coalesce as well, so that reads alone would not tell.
				t.Logf("rank %d got %d bytes in %d reads", m.rank, got, reads)
			}
			forwarded := packetsForwarded(t, r) - before
			if bunched := forwarded < chunks; bunched == rates.Any() {
				t.Errorf("%d packets left the switch for worker 0", forwarded)
			}
			all, err := r.Faults()
			if err != nil {
				t.Fatal(err)
			}
			if rates.Any() && (all.Uplink.Packets != workers*chunks || all.Downlink.Packets != workers*chunks) {
				t.Errorf("%d packets up and %d down met the dice, %d each way were sent", all.Uplink.Packets, all.Downlink.Packets, workers*chunks)
			}
		})
	}
}

// packetsForwarded is how often the switch has sent something to worker 0.
func packetsForwarded(t *testing.T, r *Rack) uint64 {
	t.Helper()
	link, err := r.sw.link.LinkByIndex(r.links[0].port().index)
	if err != nil {
		t.Fatal(err)
	}
	return link.Attrs().Statistics.TxPackets
}

// option sets a socket option.
func option(t *testing.T, conn *net.UDPConn, level, name, value int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var set error
	if err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), level, name, value) }); err != nil || set != nil {
		t.Fatal(err, set)
	}
}
