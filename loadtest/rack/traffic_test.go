package rack

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"spillway/loadtest/faults"
)

// blast sends count datagrams of 1000 bytes from a worker to the home and
// returns how many arrive before a quarter of a second of silence.
func blast(t *testing.T, r *Rack, count int, ecn bool) (arrived, marked int, order []int) {
	t.Helper()
	home := socket(t, r.InHome, HomeAddr().String()+plainPort)
	worker := socket(t, inWorker(r, 0), WorkerAddr(0).String()+":0")
	if err := home.SetReadBuffer(4 << 20); err != nil {
		t.Fatal(err)
	}
	if ecn {
		option(t, worker, unix.IPPROTO_IP, unix.IP_TOS, 2)
	}
	option(t, home, unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
	sent := make(chan error, 1)
	go func() {
		packet := make([]byte, 1000)
		for i := range count {
			packet[0], packet[1] = byte(i>>8), byte(i)
			if _, err := worker.WriteToUDP(packet, home.LocalAddr().(*net.UDPAddr)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	buffer, oob := make([]byte, 2048), make([]byte, 64)
	for {
		if err := home.SetReadDeadline(time.Now().Add(250 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, control, _, _, err := home.ReadMsgUDP(buffer, oob)
		if err != nil {
			break
		}
		arrived++
		order = append(order, int(buffer[0])<<8|int(buffer[1]))
		messages, err := unix.ParseSocketControlMessage(oob[:control])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if m.Header.Type == unix.IP_TOS && m.Data[0]&3 == 3 {
				marked++
			}
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return arrived, marked, order
}

// near fails the test when a count is more than a third off what is expected.
func near(t *testing.T, name string, got uint64, want float64) {
	t.Helper()
	if float64(got) < want*2/3 || float64(got) > want*4/3 {
		t.Errorf("%s: %d, want about %.0f", name, got, want)
	}
}

// tally is what the order in which packets arrived says was done to them.
type tally struct {
	lost, twice, more uint64 // packets that arrived never, two times, and more often
	// late are the packets that arrived once, and behind one that was sent later. A duplicate says nothing: it waits until the port has taken in
	// what came with the original, and how much that is depends on when the kernel comes round to the port.
	late uint64
}

func tallyOf(order []int, count int) (t tally) {
	copies := make([]int, count)
	for _, i := range order {
		copies[i]++
	}
	for _, n := range copies {
		switch {
		case n == 0:
			t.lost++
		case n == 2:
			t.twice++
		case n > 2:
			t.more++
		}
	}
	highest := -1
	for _, i := range order {
		if i < highest && copies[i] == 1 {
			t.late++
		}
		highest = max(highest, i)
	}
	return t
}

func TestFaults(t *testing.T) {
	const count = 4000
	for _, c := range []struct {
		name  string
		rates faults.Rates
	}{
		{"loss", faults.Rates{Loss: 0.1}},
		{"duplicate", faults.Rates{Duplicate: 0.1}},
		{"reorder", faults.Rates{Reorder: 0.05}},
		{"ecn", faults.Rates{ECN: 0.1}},
		{"all", faults.Rates{Loss: 0.1, Duplicate: 0.1, Reorder: 0.05, ECN: 0.1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := build(t, Config{Workers: 2, Rate: 200_000_000, Faults: c.rates})
			arrived, marked, order := blast(t, r, count, true)
			all, err := r.Faults()
			if err != nil {
				t.Fatal(err)
			}
			up := all.Uplink
			if up.Packets != count {
				t.Errorf("%d packets met the dice, %d were sent", up.Packets, count)
			}
			if all.Downlink.Packets != 0 {
				t.Errorf("%d packets went down", all.Downlink.Packets)
			}
			if want := up.Packets - up.Dropped + up.Duplicated; uint64(arrived) != want {
				t.Errorf("%d arrived, want %d by %+v", arrived, want, up)
			}
			survivors := count * (1 - c.rates.Loss)
			near(t, "dropped", up.Dropped, count*c.rates.Loss)
			near(t, "duplicated", up.Duplicated, survivors*c.rates.Duplicate)
			near(t, "reordered", up.Reordered, survivors*c.rates.Reorder)
			near(t, "marked", up.Marked, survivors*c.rates.ECN)
			if up.Returned != up.Reordered {
				t.Errorf("%d of %d reordered packets came back", up.Returned, up.Reordered)
			}
			if up.Failed != 0 {
				t.Errorf("%d faults failed", up.Failed)
			}
			if c.rates.Duplicate == 0 && uint64(marked) != up.Marked {
				t.Errorf("%d arrived with a mark, %d were marked", marked, up.Marked)
			}
			got := tallyOf(order, count)
			if got.lost != up.Dropped || got.twice != up.Duplicated || got.more != 0 {
				t.Errorf("%d never arrived, %d arrived twice and %d more often, but %+v", got.lost, got.twice, got.more, up)
			}
			// Each packet on the detour comes late, duplicated or not; of those that came once, nothing else makes late. (A few are
			// late by themselves, when the sender moves to another core.)
			if got.late > up.Reordered+count/100 {
				t.Errorf("%d packets that were not duplicated are out of order, and %d took the detour", got.late, up.Reordered)
			}
			if c.rates.Reorder > 0 {
				near(t, "late", got.late, float64(up.Reordered)*(1-c.rates.Duplicate))
			}
		})
	}
}

// A packet of a sender that does not speak ECN must not be marked.
func TestFaultsDoNotMarkNotECT(t *testing.T) {
	r := build(t, Config{Workers: 1, Faults: faults.Rates{ECN: 1}})
	arrived, marked, _ := blast(t, r, 100, false)
	all, err := r.Faults()
	if err != nil {
		t.Fatal(err)
	}
	if arrived != 100 || marked != 0 || all.Uplink.Marked != 0 || all.Uplink.Failed != 100 {
		t.Errorf("%d arrived, %d marked, %+v", arrived, marked, all.Uplink)
	}
}

// With offloads on, a send of many segments must still be many packets to the dice.
func TestFaultsSeeSegments(t *testing.T) {
	r := build(t, Config{Workers: 1, Faults: faults.Rates{Loss: 0.5}})
	worker := socket(t, inWorker(r, 0), WorkerAddr(0).String()+":0")
	option(t, worker, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000)
	to := net.UDPAddr{IP: HomeAddr().AsSlice(), Port: 5000}
	for range 20 {
		if _, err := worker.WriteToUDP(make([]byte, 50_000), &to); err != nil {
			t.Fatal(err)
		}
	}
	all, err := r.Faults()
	if err != nil {
		t.Fatal(err)
	}
	if all.Uplink.Packets != 1000 {
		t.Errorf("%d packets met the dice, 1000 were sent: %+v", all.Uplink.Packets, all.Uplink)
	}
	near(t, "dropped", all.Uplink.Dropped, 500)
}

// A flood must not cross a shaped link faster than the link's rate and bucket allow: judged
// by bytes that the bucket let through in the time between two readings.
func TestShaping(t *testing.T) {
	for _, rate := range []uint64{0, 20_000_000, 100_000_000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			r := build(t, Config{Workers: 1, Rate: rate, HomeRate: rate})
			const count = 4000
			start := time.Now()
			arrived, _, _ := blast(t, r, count, false)
			took := time.Since(start)
			if rate == 0 {
				if arrived < count/2 {
					t.Errorf("%d of %d crossed an unshaped link", arrived, count)
				}
				return
			}
			// 42 bytes of headers count.
			got, most := float64(arrived)*1042*8, float64(rate)*took.Seconds()+3*burst*8
			if got > most {
				t.Errorf("%.0f bits crossed in %v, at most %.0f can", got, took, most)
			}
			for name, shaped := range map[string]struct {
				host *namespace
				link string
			}{"uplink": {r.workers[0], hostInterface}, "downlink": {r.sw, "w0"}, "home": {r.sw, "home"}} {
				link, err := shaped.host.link.LinkByName(shaped.link)
				if err != nil {
					t.Fatal(err)
				}
				qdiscs, err := shaped.host.link.QdiscList(link)
				if err != nil {
					t.Fatal(err)
				}
				if len(qdiscs) != 1 {
					t.Fatalf("%s: %v", name, qdiscs)
				}
				bucket, ok := qdiscs[0].(*netlink.Tbf)
				if !ok || bucket.Rate != rate/8 {
					t.Errorf("%s: %v", name, qdiscs[0])
				}
				size := netlink.Xmitsize(bucket.Rate, bucket.Buffer)
				if size < burst*99/100 || size > burst {
					t.Errorf("%s: burst %d, want %d", name, size, burst)
				}
			}
		})
	}
}
