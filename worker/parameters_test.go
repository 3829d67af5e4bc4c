package worker

import (
	"crypto/tls"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
)

var noCertificates = &tls.Config{MinVersion: tls.VersionTLS13}

// complete are parameters with everything that can be said.
func complete() Params {
	return Params{
		Job: 65535, Generation: 7, Cookie: math.MaxUint32, Rank: 3, Workers: 64, Elements: 832, Window: 255, WireBits: 16, Priority: 127,
		Tor:   &TorRegion{Base: 512, Slots: 256, Period: 256, Offset: 16},
		Homes: []Home{{Addr: netip.MustParseAddrPort("10.77.0.254:9696"), Ports: 64}}, Group: netip.MustParseAddr("239.77.0.9"), WorkerPort: 9809,
		Addr: netip.MustParseAddr("10.77.0.4"), MinRTO: time.Millisecond, MaxRTO: time.Second, Silence: time.Minute,
		Policy: Policy{Quorum: 60, After: 20 * time.Millisecond, MaxLag: 100},
	}
}

func TestParametersAsTheyAreSaid(t *testing.T) {
	want := complete()
	got, err := paramsOf(said(want), 3)
	if err != nil || !cmp.Equal(got, want, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
	// Packets carry the generation modulo 256.
	long := said(want)
	long.Generation = 256 + 7
	if got, err := paramsOf(long, 3); err != nil || got.Generation != 7 {
		t.Errorf("generation %d, %v", got.Generation, err)
	}
	// Several homes, of which one may be there twice.
	want.Tor = nil
	want.Homes = append(want.Homes, Home{Addr: netip.MustParseAddrPort("10.77.0.253:9728"), Ports: 32}, want.Homes[0])
	if got, err := paramsOf(said(want), 3); err != nil || !slices.Equal(got.Homes, want.Homes) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
	// What may be left out.
	short := said(want)
	short.Quorum, short.Tor, short.Group, short.MinRto, short.MaxRto, short.Silence, short.Priority, short.WireBits = nil, nil, "", nil, nil, nil, 0, 0
	got, err = paramsOf(short, 3)
	if err != nil || got.Tor != nil || got.Policy != (Policy{}) || got.WireBits != 0 || got.Group.IsValid() || got.withDefaults().Silence != DefaultSilence {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestParametersThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*v1.Parameters){
		"job id 65536":         func(p *v1.Parameters) { p.JobId = 65536 },
		"not 3":                func(p *v1.Parameters) { p.Rank = 4 },
		"workers 65":           func(p *v1.Parameters) { p.Workers = 65 },
		"elements 65568":       func(p *v1.Parameters) { p.Elements = 65536 + 32 },
		"window 65791":         func(p *v1.Parameters) { p.Window = 65536 + 255 },
		"elements of 8 bits":   func(p *v1.Parameters) { p.WireBits = 8 },
		"bits of an element":   func(p *v1.Parameters) { p.WireBits = 256 },
		"priority 256":         func(p *v1.Parameters) { p.Priority = 256 },
		"tor base 65536":       func(p *v1.Parameters) { p.Tor.Base = 65536 },
		"tor slots 3":          func(p *v1.Parameters) { p.Tor.Slots = 3 },
		"0 homes":              func(p *v1.Parameters) { p.Homes = nil },
		"has one home, not 2":  func(p *v1.Parameters) { p.Homes = append(p.Homes, p.Homes[0]) },
		"65 homes":             func(p *v1.Parameters) { p.Tor, p.Homes = nil, slices.Repeat(p.Homes, 65) },
		"quorum 65536 is":      func(p *v1.Parameters) { p.Quorum.Workers = 65536 },
		"quorum 65 is":         func(p *v1.Parameters) { p.Quorum.Workers = 65 },
		"a lag of 32769":       func(p *v1.Parameters) { p.Quorum.MaxLag = 32769 },
		"before a release 25h": func(p *v1.Parameters) { p.Quorum.After = durationpb.New(25 * time.Hour) },
		"the time is not abov": func(p *v1.Parameters) { p.Quorum.After = nil },
		"home: ParseAddr":      func(p *v1.Parameters) { p.Homes[0].Address = "home" },
		"home port 65537":      func(p *v1.Parameters) { p.Homes[0].Port = 65537 },
		"has no ports":         func(p *v1.Parameters) { p.Homes[0].Ports = 0 },
		"IPv4 address and":     func(p *v1.Parameters) { p.Homes[0].Address = "fe80::1%eth0" },
		"group 10.0.0.1":       func(p *v1.Parameters) { p.Group = "10.0.0.1" },
		"worker port is 0":     func(p *v1.Parameters) { p.WorkerPort = 0 },
		"own address: Parse":   func(p *v1.Parameters) { p.Address = "" },
		"is that of a home":    func(p *v1.Parameters) { p.Address = "10.77.0.254" },
		"retransmission timeo": func(p *v1.Parameters) { p.MaxRto = durationpb.New(-1) },
		"silence 25h0m0s":      func(p *v1.Parameters) { p.Silence = durationpb.New(25 * time.Hour) },
		"silence 2562047h":     func(p *v1.Parameters) { p.Silence = &durationpb.Duration{Seconds: math.MaxInt64} },
	} {
		p := said(complete())
		change(p)
		if _, err := paramsOf(p, 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// Whatever bytes come, there is an error, or parameters that the engine and the sockets take.
func FuzzParameters(f *testing.F) {
	for _, p := range []*v1.Parameters{{}, said(complete()), {Homes: []*v1.Home{nil, {}}, Tor: &v1.Region{}, Silence: &durationpb.Duration{Nanos: -1}}} {
		seed, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, message []byte, rank int) {
		var p v1.Parameters
		if proto.Unmarshal(message, &p) != nil {
			return
		}
		params, err := paramsOf(&p, rank)
		if err != nil {
			return
		}
		if err := params.withDefaults().Validate(); err != nil || params.Rank != rank || !params.Addr.IsValid() {
			t.Errorf("%v from %v: %v", params, &p, err)
		}
		if again, err := paramsOf(said(params), rank); err != nil || !cmp.Equal(again, params, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
			cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })) {
			t.Errorf("%v, said again: %v, %v", params, again, err)
		}
	})
}
