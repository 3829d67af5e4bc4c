package dataplane

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/wire"
)

// TestAdmission: each check refuses by name, in the order of docs/protocol.md,
// and leaves the slots as they are.
func TestAdmission(t *testing.T) {
	noJob := "[0]"
	change := func(f func(*packet)) func(packet) []byte {
		return func(p packet) []byte { return p.with(f).frame() }
	}
	patch := func(at int, b ...byte) func(packet) []byte {
		return func(p packet) []byte {
			frame := p.frame()
			copy(frame[at:], b)
			return frame
		}
	}
	for _, c := range []struct {
		name    string
		frame   func(packet) []byte
		counter string
	}{
		{"version 0", patch(42, 0), "bad_header" + noJob},
		{"version 2", patch(42, 2), "bad_header" + noJob},
		{"type 0", patch(43, 0), "bad_header" + noJob},
		{"type 6", patch(43, 6), "bad_header" + noJob},
		{"unknown flag", patch(44, 16), "bad_header" + noJob},
		{"unknown op", patch(45, 3), "bad_header" + noJob},
		{"no elements in DATA", patch(66, 0, 0), "bad_header" + noJob},
		{"elements in PROBE", patch(43, 5), "bad_header" + noJob},
		{"more elements than there are", patch(66, 0, 33), "bad_header" + noJob},
		{"fewer elements than there are", patch(66, 0, 31), "bad_header" + noJob},
		{"more elements than the protocol has", change(func(p *packet) {
			p.elements, p.header.Elems = make([]int32, 833), 833
		}), "bad_header" + noJob},
		{"UDP length", patch(38, 0, 8), "bad_header" + noJob},
		{"IP length", patch(16, 0, 28), "bad_header" + noJob},
		{"frame cut short", func(p packet) []byte { f := p.frame(); return f[:len(f)-1] }, "bad_header" + noJob},
		{"frame longer than its packet", func(p packet) []byte { return append(p.frame(), 0) }, "bad_header" + noJob},
		{"header cut short", func(p packet) []byte { return p.frame()[:69] }, "bad_header" + noJob},
		{"unknown job", change(func(p *packet) { p.header.Job = 9 }), "unknown_job" + noJob},
		{"another generation", change(func(p *packet) { p.header.Generation-- }), jobA.at("stale")},
		{"another cookie", change(func(p *packet) { p.header.Cookie++ }), jobA.at("bad_cookie")},
		{"another port", change(func(p *packet) { p.port = 2 }), jobA.at("not_member")},
		{"another address", change(func(p *packet) { p.src = withPort(workerAddr(1), workerPort) }), jobA.at("not_member")},
		{"an address of nobody", change(func(p *packet) { p.src = withPort(torAddr, workerPort) }), jobA.at("not_member")},
		{"the home's address", change(func(p *packet) { p.src = withPort(homeAddr, firstPort) }), jobA.at("not_member")},
		{"a member of another job only", change(func(p *packet) { p.port, p.src = 4, withPort(workerAddr(3), workerPort) }), jobA.at("not_member")},
		{"SOLICIT of a worker", change(func(p *packet) { p.header.Type, p.header.Elems, p.elements = wire.Solicit, 0, nil }), jobA.at("bad_direction")},
		{"PENDING of a worker", change(func(p *packet) { p.header.Type, p.header.Elems, p.elements = wire.Pending, 0, nil }), jobA.at("bad_direction")},
		{"DATA of the home", change(func(p *packet) { p.port, p.src = homePort, withPort(homeAddr, firstPort) }), jobA.at("bad_direction")},
		{"PROBE of the home", change(func(p *packet) {
			p.port, p.src = homePort, withPort(homeAddr, firstPort)
			p.header.Type, p.header.Elems, p.elements = wire.Probe, 0, nil
		}), jobA.at("bad_direction")},
		{"DATA of the echo", change(func(p *packet) { p.port, p.src = 68, withPort(torAddr, firstPort) }), jobA.at("bad_direction")},
		{"another's bit", change(func(p *packet) { p.header.Bitmap = 2 }), jobA.at("bad_bitmap")},
		{"another's bit besides", change(func(p *packet) { p.header.Bitmap = 3 }), jobA.at("bad_bitmap")},
		{"no bit", change(func(p *packet) { p.header.Bitmap = 0 }), jobA.at("bad_bitmap")},
		{"no bit in PROBE", change(func(p *packet) {
			p.header.Type, p.header.Elems, p.header.Bitmap, p.elements = wire.Probe, 0, 0, nil
		}), jobA.at("bad_bitmap")},
		{"no bit in RESULT", change(func(p *packet) { p.header.Type, p.header.Bitmap = wire.Result, 0 }), jobA.at("bad_bitmap")},
	} {
		r := setUp(t, 32, jobA, jobB)
		r.must(r.SetMember(MemberKey{68, torAddr, jobA.id}, &Member{Role: Echo}))
		r.must(r.SetMember(MemberKey{4, workerAddr(3), jobA.id}, &Member{Role: Stranger}))
		r.send("incumbent", jobA.data(2, 5, 32), nil, jobA.at("claimed"))
		slots := r.state().Slots
		p := jobA.data(0, 5, 32)
		port := p.port
		switch {
		case c.name == "another port":
			port = 2
		case c.name == "a member of another job only":
			port = 4
		case c.name == "DATA of the echo":
			port = 68
		case c.name == "DATA of the home", c.name == "PROBE of the home":
			port = homePort
		}
		r.sendFrame(c.name, port, c.frame(p), nil, c.counter)
		if diff := cmp.Diff(slots, r.state().Slots); diff != "" {
			t.Errorf("%s: slots (-want +got)\n%s", c.name, diff)
		}
		r.send("still well", jobA.data(1, 5, 32), nil, jobA.at("merged"))
	}
}

// TestControlPackets: PROBE, SOLICIT and PENDING just go on.
func TestControlPackets(t *testing.T) {
	r := setUp(t, 32, jobA)
	short := func(p packet, typ wire.Type) packet {
		return p.with(func(p *packet) { p.header.Type, p.header.Elems, p.elements = typ, 0, nil })
	}
	probe := short(jobA.data(1, 5, 32), wire.Probe)
	r.send("PROBE", probe, probe.passed(), jobA.at("forwarded"))
	pending := short(jobA.data(1, 5, 32), wire.Pending).with(func(p *packet) {
		p.port, p.src, p.dst, p.header.Bitmap = homePort, withPort(homeAddr, firstPort), withPort(workerAddr(1), workerPort), 0
	})
	r.send("PENDING", pending, []packet{pending.with(func(p *packet) { p.port, p.dstMAC = 2, workerMAC(1) })}, jobA.at("forwarded"))
	solicit := pending.with(func(p *packet) { p.header.Type, p.dst = wire.Solicit, withPort(jobA.groupAddr(), workerPort) })
	var all []packet
	for i := range 3 {
		all = append(all, solicit.with(func(p *packet) { p.port = Port(i + 1) }))
	}
	r.send("SOLICIT", solicit, all, jobA.at("forwarded"))
	if s := r.state().Slots; len(s) != 0 {
		t.Errorf("slots %v", s)
	}
}

// TestForwarding: what is not Spillway's goes by address, and counts nowhere but at its route.
func TestForwarding(t *testing.T) {
	r := setUp(t, 32, jobA)
	other := func(change func(*packet)) packet {
		return jobA.data(0, 5, 32).with(func(p *packet) { p.dst = withPort(homeAddr, 53) }).with(change)
	}
	patched := func(p packet, at int, b ...byte) []byte {
		f := p.frame()
		copy(f[at:], b)
		return f
	}
	toHome := func(f []byte) []Emission {
		out := append([]byte(nil), f...)
		copy(out, homeMAC[:])
		return []Emission{{homePort, out}}
	}
	spillway := jobA.data(0, 5, 32)
	unicast := other(func(*packet) {}).frame()
	group := other(func(p *packet) { p.dst = withPort(jobA.groupAddr(), 53) }).frame()
	arp := append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 2, 8, 6}, make([]byte, 46)...)
	ethernetTo := func(mac MAC) []byte {
		f := append([]byte(nil), arp...)
		copy(f, mac[:])
		return f
	}
	for name, c := range map[string]struct {
		in   []byte
		want []Emission
	}{
		"unicast":              {unicast, toHome(unicast)},
		"by a shorter prefix":  {other(func(p *packet) { p.dst = withPort(upper, 53) }).frame(), []Emission{{parentPort, other(func(p *packet) { p.dst, p.dstMAC = withPort(upper, 53), parentMAC }).frame()}}},
		"no route":             {other(func(p *packet) { p.dst = withPort(netip.MustParseAddr("10.79.0.1"), 53) }).frame(), nil},
		"group":                {group, []Emission{{1, group}, {2, group}, {3, group}}},
		"unknown group":        {other(func(p *packet) { p.dst = withPort(netip.MustParseAddr("239.1.1.1"), 53) }).frame(), nil},
		"not UDP":              {patched(spillway, 23, 6), toHome(patched(spillway, 23, 6))},
		"with options":         {patched(spillway, 14, 0x46), toHome(patched(spillway, 14, 0x46))},
		"first fragment":       {patched(spillway, 20, 0x20), toHome(patched(spillway, 20, 0x20))},
		"later fragment":       {patched(spillway, 20, 0, 1), toHome(patched(spillway, 20, 0, 1))},
		"UDP header cut short": {spillway.frame()[:41], toHome(spillway.frame()[:41])},
		"IP header cut short":  {spillway.frame()[:33], nil},
		"nothing but Ethernet": {arp[:14], []Emission{{2, arp[:14]}, {3, arp[:14]}, {4, arp[:14]}, {homePort, arp[:14]}}},
		"broadcast":            {arp, []Emission{{2, arp}, {3, arp}, {4, arp}, {homePort, arp}}},
		"bridged":              {ethernetTo(workerMAC(2)), []Emission{{3, ethernetTo(workerMAC(2))}}},
		"unknown MAC":          {ethernetTo(MAC{2, 9}), nil},
		"just below the block": {other(func(p *packet) { p.dst = withPort(homeAddr, 9695) }).frame(), toHome(other(func(p *packet) { p.dst = withPort(homeAddr, 9695) }).frame())},
		"just above the block": {other(func(p *packet) { p.dst = withPort(homeAddr, 9728) }).frame(), toHome(other(func(p *packet) { p.dst = withPort(homeAddr, 9728) }).frame())},
	} {
		before := r.state()
		got, err := r.Process(1, c.in)
		r.must(err)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if diff := cmp.Diff(before, r.state()); diff != "" {
			t.Errorf("%s: state (-want +got)\n%s", name, diff)
		}
	}
	for _, port := range []uint16{9696, 9727} {
		p := jobA.data(0, 5, 32).with(func(p *packet) { p.dst, p.header.Version = withPort(homeAddr, port), 9 })
		r.send("an end of the block", p, nil, "bad_header[0]")
		p = other(func(p *packet) { p.src, p.header.Version = withPort(workerAddr(0), port), 9 })
		r.send("an end of the block as source", p, nil, "bad_header[0]")
	}
	r.must(r.SetForward(netip.MustParsePrefix("10.78.0.254/32"), &ToPort{Drop: true}))
	r.sendFrame("a route to nowhere", 1, other(func(p *packet) { p.dst = withPort(upper, 53) }).frame(), nil)
}
