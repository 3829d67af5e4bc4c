package vectors_test

import (
	"errors"
	"net/netip"
	"testing"

	"spillway/p4/softtor/dataplane"
	"spillway/p4/vectors"
)

// softTor is the software ToR's compiled program, run frame by frame in the kernel.
type softTor struct{ *dataplane.Dataplane }

// Configure implements vectors.Target.
func (t softTor) Configure(f *vectors.Fixture) error {
	all := []error{t.Wipe()}
	add := func(err error) { all = append(all, err) }
	for id, ports := range f.Groups {
		var list []dataplane.Port
		for _, p := range ports {
			list = append(list, dataplane.Port(p))
		}
		add(t.SetMulticast(id, list))
	}
	for _, r := range f.Routes() {
		add(t.SetForward(r.Prefix, &dataplane.ToPort{Port: dataplane.Port(r.Port), MAC: r.MAC}))
	}
	for _, r := range f.Multicast {
		add(t.SetGroupRoute(r.Address, &r.Group))
	}
	for _, b := range f.Bridge {
		add(t.SetBridge(b.MAC, &dataplane.BridgeTo{Flood: b.Port == 0, Port: dataplane.Port(b.Port), Group: b.Flood}))
	}
	for _, j := range f.Jobs {
		add(t.configureJob(f, j))
	}
	return errors.Join(all...)
}

var regionModes = map[string]dataplane.RegionMode{
	vectors.Private: dataplane.PrivateSlots, vectors.Shared: dataplane.SharedSlots, vectors.FirstCome: dataplane.FirstComeSlots,
}

func (t softTor) configureJob(f *vectors.Fixture, j *vectors.Job) error {
	all := []error{t.SetJob(j.ID, &dataplane.JobParams{Index: j.Index, Generation: j.Generation, Cookie: uint32(j.Cookie), Key: uint32(j.Key)})}
	add := func(err error) { all = append(all, err) }
	for _, m := range j.Members {
		member := &dataplane.Member{Role: dataplane.Worker, Bits: uint64(m.Bits), Rest: j.Full() &^ uint64(m.Bits)}
		switch m.Role {
		case vectors.Home:
			member = &dataplane.Member{Role: dataplane.Home}
		case vectors.Echo:
			member = &dataplane.Member{Role: dataplane.Echo}
		}
		h := f.Hosts[m.Host]
		add(t.SetMember(dataplane.MemberKey{Port: dataplane.Port(h.Port), Addr: h.Address, Job: j.ID}, member))
	}
	for _, r := range j.Regions {
		mode := regionModes[r.Mode]
		add(t.SetRegion(dataplane.RegionKey{Job: j.ID, Value: r.Base, Mask: r.Mask()}, &mode))
	}
	if u := j.SendUp; u != nil {
		add(t.SetUplink(j.ID, &dataplane.Uplink{
			Index: j.Index, Port: dataplane.Port(u.Port), MAC: u.MAC, Src: u.Src, Dst: u.Dst,
			FirstPort: u.FirstPort, PortMask: u.PortMask(), Cookie: uint32(j.Cookie), Key: uint32(j.Key),
		}))
	}
	switch w, p := j.ToWorkers, j.ToParent; {
	case w != nil:
		add(t.SetPublish(j.ID, &dataplane.Publish{ToWorkers: &dataplane.ToWorkers{
			Group: w.Group, SrcMAC: w.SrcMAC, DstMAC: w.DstMAC, Src: w.Src, Dst: w.Dst, SrcPort: w.SrcPort, DstPort: w.DstPort,
		}}))
	case p != nil:
		add(t.SetPublish(j.ID, &dataplane.Publish{ToParent: &dataplane.ToParent{
			Port: dataplane.Port(p.Port), MAC: p.MAC, Src: p.Src, Dst: p.Dst, FirstPort: p.FirstPort, PortMask: p.PortMask(), Bits: uint64(p.Bits),
		}}))
	}
	return errors.Join(all...)
}

// Inject implements vectors.Target.
func (t softTor) Inject(port uint16, frame []byte) ([]vectors.Emission, error) {
	emissions, err := t.Process(dataplane.Port(port), frame)
	var out []vectors.Emission
	for _, e := range emissions {
		out = append(out, vectors.Emission{Port: uint16(e.Port), Frame: e.Frame})
	}
	return out, err
}

// Events implements vectors.Target.
func (t softTor) Events(index uint8) ([]uint64, error) {
	counts := make([]uint64, vectors.EventsPerJob)
	for event := range counts {
		var err error
		if counts[event], err = t.EventCount(index, event); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// Preempted implements vectors.Target.
func (t softTor) Preempted(index uint8) (uint64, error) { return t.PreemptedCount(index) }

// Saturated implements vectors.Target.
func (t softTor) Saturated(index uint8) (uint64, error) { return t.SaturatedCount(index) }

// Forwarded implements vectors.Target.
func (t softTor) Forwarded(prefix netip.Prefix) (vectors.Traffic, error) {
	packets, bytes, err := t.ForwardCount(prefix)
	return vectors.Traffic{Packets: packets, Bytes: bytes}, err
}

// Member implements vectors.Target.
func (t softTor) Member(port uint16, address netip.Addr, job uint16) (vectors.Traffic, error) {
	packets, bytes, err := t.MemberCount(dataplane.MemberKey{Port: dataplane.Port(port), Addr: address, Job: job})
	return vectors.Traffic{Packets: packets, Bytes: bytes}, err
}

// loadSoftTor loads the program with a limit of elements, and as few slots as the cases need.
func loadSoftTor(t *testing.T, elements int) softTor {
	t.Helper()
	d, err := dataplane.Load(dataplane.Config{Slots: 4096, Elements: elements})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return softTor{d}
}

// TestSoftTor runs all cases against the software ToR, set to each file's limit of elements.
func TestSoftTor(t *testing.T) {
	files, err := vectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	loaded := map[int]softTor{}
	for _, f := range files {
		tor, ok := loaded[f.Fixture.Elements]
		if !ok {
			tor = loadSoftTor(t, f.Fixture.Elements)
			loaded[f.Fixture.Elements] = tor
		}
		for _, c := range f.Cases {
			t.Run(f.Name+"/"+c.Name, func(t *testing.T) {
				if err := f.Run(tor, &c); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
