package pipeline

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/testing/protocmp"

	"spillway/p4/p4info"
)

// testJob is a job of four workers and a home that can be.
func testJob() Job {
	job := Job{
		ID: 7, Generation: 3, Index: 1, Cookie: 0xdeadbeef, Key: 0x12345678,
		Home: netip.MustParseAddrPort("10.77.0.254:9696"), HomePorts: 4, HomePort: 64, HomeMAC: MAC{2, 0, 0, 0, 0, 64},
		TorAddr: netip.MustParseAddr("10.77.0.253"), Group: netip.MustParseAddr("239.129.2.3"), MulticastGroup: 1, WorkerPort: 9800,
		Region: &Region{Base: 64, Slots: 64, Mode: ModeShared},
	}
	for i := range 4 {
		job.Workers = append(job.Workers, Worker{Addr: netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}), Port: uint16(i + 1), Bits: 1 << i})
	}
	return job
}

// describe is an update in names: table or multicast group, and what it does.
func describe(t *testing.T, u *p4v1.Update) string {
	t.Helper()
	if group := u.GetEntity().GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); group != nil {
		return "multicast"
	}
	e, err := Software().Decode(u.GetEntity().GetTableEntry())
	if err != nil {
		t.Fatal(err)
	}
	return e.Table + " " + e.Do.Action
}

func TestEntriesAreInOrder(t *testing.T) {
	child := testJob()
	child.Parent = &Parent{Addr: netip.MustParseAddrPort("10.78.0.254:9700"), Port: 65, Bits: 2}
	child.Region = nil
	echo := testJob()
	echo.EchoPort = 68
	workers := []string{"member worker", "member worker", "member worker", "member worker"}
	for _, test := range []struct {
		name string
		job  Job
		want []string
	}{
		{"root", testJob(), append([]string{"multicast", "group to_group", "publish to_workers", "uplink send_up", "region shared_slots", "job set_job", "member home"}, workers...)},
		{"child", child, append([]string{"multicast", "group to_group", "publish to_parent", "uplink send_up", "job set_job", "member home", "member home"}, workers...)},
		{"echo", echo, append([]string{"multicast", "group to_group", "publish to_workers", "uplink send_up", "region shared_slots", "job set_job", "member home", "member echo"}, workers...)},
	} {
		t.Run(test.name, func(t *testing.T) {
			inserts, err := Entries(Software(), test.job)
			if err != nil {
				t.Fatal(err)
			}
			removals, err := Removal(Software(), test.job)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, u := range inserts {
				got = append(got, describe(t, u))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("insertion (-want +got):\n%s", diff)
			}
			slices.Reverse(removals)
			for n := range inserts {
				if inserts[n].GetType() != p4v1.Update_INSERT || removals[n].GetType() != p4v1.Update_DELETE {
					t.Errorf("update %d is %s, its removal %s", n, inserts[n].GetType(), removals[n].GetType())
				}
				if diff := cmp.Diff(inserts[n].GetEntity(), removals[n].GetEntity(), protocmp.Transform()); diff != "" {
					t.Errorf("the removal is not the insertion's reverse: %s", diff)
				}
			}
		})
	}
}

func TestEntriesSayWhatTheJobSays(t *testing.T) {
	job := testJob()
	inserts, err := Entries(Software(), job)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]p4info.Entry{
		"publish": {Table: "publish", Match: []p4info.Match{p4info.Exact("job", 7)}, Do: do("to_workers", arg("group", uint16(1)),
			arg("src_mac", uint64(0x020000000040)), arg("dst_mac", uint64(0x01005e010203)), arg("src", uint64(0x0a4d00fe)), arg("dst", uint64(0xef810203)),
			arg("src_port", uint16(9696)), arg("dst_port", uint16(9800)))},
		"uplink": {Table: "uplink", Match: []p4info.Match{p4info.Exact("job", 7)}, Do: do("send_up", arg("index", uint8(1)), arg("port", uint16(64)),
			arg("mac", uint64(0x020000000040)), arg("src", uint64(0x0a4d00fd)), arg("dst", uint64(0x0a4d00fe)), arg("first_port", uint16(9696)), arg("port_mask", uint16(3)),
			arg("cookie", uint32(0xdeadbeef)), arg("key", uint32(0x12345678)))},
		"region": {Table: "region", Priority: 1, Match: []p4info.Match{p4info.Exact("job", 7), p4info.Ternary("slot", 64, 0xffc0)}, Do: do("shared_slots")},
		"job":    {Table: "job", Match: []p4info.Match{p4info.Exact("job", 7)}, Do: do("set_job", arg("index", uint8(1)), arg("generation", uint8(3)), arg("cookie", uint32(0xdeadbeef)), arg("key", uint32(0x12345678)))},
		"member": {Table: "member", Match: []p4info.Match{p4info.Exact("port", 4), p4info.Exact("src", 0x0a4d0004), p4info.Exact("job", 7)}, Do: do("worker", arg("bits", uint64(8)), arg("rest", uint64(7)))},
	}
	got := map[string]p4info.Entry{}
	for _, u := range inserts[1:] {
		e, err := Software().Decode(u.GetEntity().GetTableEntry())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := want[e.Table]; ok {
			got[e.Table] = e // of the members, the last
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJobsThatCannotBe(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Job)
		want   string
	}{
		{"index", func(j *Job) { j.Index = 0 }, "index is 0"},
		{"no workers", func(j *Job) { j.Workers = nil }, "0 workers"},
		{"overlapping bits", func(j *Job) { j.Workers[1].Bits = 3 }, "worker 1: bits 0x1 are another's"},
		{"no bits", func(j *Job) { j.Workers[2].Bits = 0 }, "worker 2 has no bits"},
		{"port", func(j *Job) { j.Workers[2].Port = 512 }, "worker 2: switch port 512"},
		{"address", func(j *Job) { j.Workers[2].Addr = netip.MustParseAddr("::1") }, "worker 2: address"},
		{"home's address", func(j *Job) { j.Workers[2].Addr = j.Home.Addr() }, "also the home's"},
		{"twins", func(j *Job) { j.Workers[2].Addr, j.Workers[2].Port = j.Workers[1].Addr, j.Workers[1].Port }, "workers 1 and 2"},
		{"home", func(j *Job) { j.Home = netip.AddrPort{} }, "home"},
		{"home outside the block", func(j *Job) { j.Home = netip.MustParseAddrPort("10.77.0.254:9000") }, "not all within 9696 to 9727"},
		{"home ports beyond the block", func(j *Job) { j.Home = netip.MustParseAddrPort("10.77.0.254:9727") }, "not all within 9696 to 9727"},
		{"home ports", func(j *Job) { j.HomePorts = 3 }, "3 ports, not a power of two"},
		{"home's switch port", func(j *Job) { j.HomePort = 600 }, "home: switch port 600"},
		{"address of the ToR", func(j *Job) { j.TorAddr = netip.Addr{} }, "address of the ToR"},
		{"group", func(j *Job) { j.Group = netip.MustParseAddr("10.0.0.1") }, "not an IPv4 multicast address"},
		{"multicast group", func(j *Job) { j.MulticastGroup = 0 }, "multicast group is 0"},
		{"worker port", func(j *Job) { j.WorkerPort = 9700 }, "worker port 9700"},
		{"echo port", func(j *Job) { j.EchoPort = 512 }, "echo port 512"},
		{"region size", func(j *Job) { j.Region.Slots = 48 }, "48 slots: not a power of two"},
		{"empty region", func(j *Job) { j.Region.Slots = 0 }, "0 slots: not a power of two"},
		{"region base", func(j *Job) { j.Region.Base = 32 }, "64 slots from 32: not a multiple"},
		{"region with the index that is none", func(j *Job) { j.Region = &Region{Base: 0x8000, Slots: 0x8000} }, "there are 65535 slots"},
		{"region mode", func(j *Job) { j.Region.Mode = 9 }, "mode 9"},
		{"region of one worker", func(j *Job) { j.Workers = j.Workers[:1] }, "job of one worker"},
		{"parent", func(j *Job) { j.Parent = &Parent{Port: 1, Bits: 1} }, "parent"},
		{"parent's bits", func(j *Job) { j.Parent = &Parent{Addr: netip.MustParseAddrPort("10.0.0.1:9696")} }, "parent: no bits"},
	} {
		t.Run(test.name, func(t *testing.T) {
			job := testJob()
			test.change(&job)
			for name, f := range map[string]func(*p4info.Info, Job) ([]*p4v1.Update, error){"Entries": Entries, "Removal": Removal} {
				updates, err := f(Software(), job)
				if err == nil || !strings.Contains(err.Error(), test.want) || updates != nil {
					t.Errorf("%s: %d updates, error %v, want one with %q", name, len(updates), err, test.want)
				}
			}
		})
	}
}

func TestRegionOverlaps(t *testing.T) {
	for _, test := range []struct {
		a, b Region
		want bool
	}{
		{Region{Base: 0, Slots: 8}, Region{Base: 8, Slots: 8}, false},
		{Region{Base: 0, Slots: 16}, Region{Base: 8, Slots: 8}, true},
		{Region{Base: 8, Slots: 8}, Region{Base: 8, Slots: 8}, true},
		{Region{Base: 0x8000, Slots: 0x4000}, Region{Base: 0, Slots: 0x8000}, false},
	} {
		if test.a.Overlaps(test.b) != test.want || test.b.Overlaps(test.a) != test.want {
			t.Errorf("%v and %v: overlap is not %v", test.a, test.b, test.want)
		}
	}
}

func TestHostEntries(t *testing.T) {
	hosts := []Host{
		{netip.MustParseAddr("10.77.0.1"), MAC{2, 0, 0, 0, 0, 1}, 1},
		{netip.MustParseAddr("10.77.0.254"), MAC{2, 0, 0, 0, 0, 64}, 64},
	}
	updates, err := HostEntries(Software(), 9, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range updates {
		got = append(got, describe(t, u))
	}
	want := []string{"multicast", "bridge flood", "forward to_port", "bridge to_link", "forward to_port", "bridge to_link"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, wrong := range map[string]func() ([]*p4v1.Update, error){
		"no group": func() ([]*p4v1.Update, error) { return HostEntries(Software(), 0, hosts...) },
		"no hosts": func() ([]*p4v1.Update, error) { return HostEntries(Software(), 9) },
		"port":     func() ([]*p4v1.Update, error) { return HostEntries(Software(), 9, Host{hosts[0].Addr, MAC{}, 512}) },
		"address":  func() ([]*p4v1.Update, error) { return HostEntries(Software(), 9, Host{netip.Addr{}, MAC{}, 1}) },
	} {
		if _, err := wrong(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
