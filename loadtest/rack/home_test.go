package rack

import (
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/net/ipv4"

	"spillway/wire"
	"spillway/xdp"
)

// member is the least that a worker of a job is: a socket that sends DATA and gets RESULTs.
type member struct {
	conn *net.UDPConn
	job  Job
	rank int
}

func join(t *testing.T, r *Rack, job Job, rank int) *member {
	t.Helper()
	m := &member{job: job, rank: rank}
	m.conn = socket(t, inWorker(r, rank), fmt.Sprintf("0.0.0.0:%d", workerPort))
	if group := job.group(); group.IsValid() {
		err := r.InWorker(rank, func() error {
			eth, err := net.InterfaceByName(hostInterface)
			if err != nil {
				return err
			}
			return ipv4.NewPacketConn(m.conn).JoinGroup(eth, &net.UDPAddr{IP: group.AsSlice()})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *member) send(t *testing.T, r *Rack, seq uint32, elements []int32) {
	t.Helper()
	h := wire.Header{Version: wire.Version, Type: wire.Data, Job: m.job.ID, Generation: m.job.Generation, Cookie: m.job.Cookie,
		Seq: seq, Bitmap: 1 << m.rank, Elems: uint16(len(elements))}
	packet := make([]byte, wire.HeaderSize, wire.MaxPacket)
	h.Encode(packet)
	for _, e := range elements {
		packet = binary.BigEndian.AppendUint32(packet, uint32(e))
	}
	if _, err := m.conn.WriteToUDPAddrPort(packet, r.homeAddrPort()); err != nil {
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
				job := Job{ID: 5, Generation: 2, Cookie: 77, Window: 32, Unicast: unicast}
				if err := r.AddJob(job); err != nil {
					t.Fatal(err)
				}
				members := make([]*member, workers)
				for rank := range members {
					members[rank] = join(t, r, job, rank)
				}
				for seq := range uint32(chunks) {
					for rank, m := range members {
						contribution := make([]int32, elements)
						for i := range contribution {
							contribution[i] = int32(i*(rank+1)) - int32(seq)
						}
						m.send(t, r, seq, contribution)
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
				counters, unassigned, err := r.Counters(job.ID)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("counters %v, of no job %v", counters, unassigned)
				if err := r.RemoveJob(job.ID); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
