package jobs

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/ledger"
	"spillway/appliance/refusal"
	"spillway/appliance/store"
	"spillway/p4/pipeline"
	"spillway/wire"
	library "spillway/worker"
	"spillway/worker/engine"
	"spillway/xdp"
)

const (
	torNone    = v1.TorUse_TOR_USE_NONE
	torPrivate = v1.TorUse_TOR_USE_PRIVATE
	torShared  = v1.TorUse_TOR_USE_SHARED
	multicast  = v1.Publication_PUBLICATION_MULTICAST
	unicast    = v1.Publication_PUBLICATION_UNICAST
)

// bigSite is a node that has everything, with a ToR of few elements.
func bigSite() site {
	return site{
		defaults: Defaults{Window: 255, Elements: 256, Tor: torPrivate, Publication: multicast, Grace: time.Minute},
		mtu:      3498, multicast: true, tor: true, torElements: 128, sharedSlots: 64,
	}
}

// TestWorkerConstants holds what is copied here to what the worker says, which this package must not import.
func TestWorkerConstants(t *testing.T) {
	if maxWindow != engine.MaxWindow || DefaultMinRTO != time.Duration(library.DefaultMinRTO) || DefaultMaxRTO != time.Duration(library.DefaultMaxRTO) ||
		DefaultSilence != time.Duration(library.DefaultSilence) || maxLag != engine.MaxWindow {
		t.Error("the worker has other bounds")
	}
}

func TestChosen(t *testing.T) {
	for _, c := range []struct {
		name string
		site func(*site)
		spec *v1.JobSpec
		want *v1.JobSpec
	}{
		{"everything", func(*site) {}, &v1.JobSpec{}, &v1.JobSpec{Elements: 128, Window: 255, Priority: 64, Tor: torPrivate, TorSlots: 256, Publication: multicast}},
		{"without the ToR", func(*site) {}, &v1.JobSpec{Tor: torNone}, &v1.JobSpec{Elements: 256, Window: 255, Priority: 64, Tor: torNone, Publication: multicast}},
		{"unicast", func(*site) {}, &v1.JobSpec{Publication: unicast}, &v1.JobSpec{Elements: 256, Window: 255, Priority: 64, Tor: torNone, Publication: unicast}},
		{"one worker", func(*site) {}, &v1.JobSpec{Workers: 1}, &v1.JobSpec{Workers: 1, Elements: 256, Window: 255, Priority: 64, Tor: torNone, Publication: multicast}},
		{"shared", func(*site) {}, &v1.JobSpec{Tor: torShared}, &v1.JobSpec{Elements: 128, Window: 255, Priority: 64, Tor: torShared, Publication: multicast}},
		{"a small MTU", func(s *site) { s.mtu = 1000 }, &v1.JobSpec{Tor: torNone}, &v1.JobSpec{Elements: 224, Window: 255, Priority: 64, Tor: torNone, Publication: multicast}},
		{"the largest chunk", func(*site) {}, &v1.JobSpec{Tor: torNone, Elements: 832}, &v1.JobSpec{Elements: 832, Window: 255, Priority: 64, Tor: torNone, Publication: multicast}},
		{"a small window", func(*site) {}, &v1.JobSpec{Window: 5}, &v1.JobSpec{Elements: 128, Window: 5, Priority: 64, Tor: torPrivate, TorSlots: 8, Publication: multicast}},
		{"few slots by default", func(s *site) { s.defaults.TorSlots = 16 }, &v1.JobSpec{Priority: 127}, &v1.JobSpec{Elements: 128, Window: 255, Priority: 127, Tor: torPrivate, TorSlots: 16, Publication: multicast}},
		{"no groups", func(s *site) { s.multicast = false; s.defaults.Publication = unicast; s.defaults.Tor = torNone }, &v1.JobSpec{}, &v1.JobSpec{Elements: 256, Window: 255, Priority: 64, Tor: torNone, Publication: unicast}},
		{"16 bits on the wire", func(*site) {}, &v1.JobSpec{WireBits: 16}, &v1.JobSpec{Elements: 128, Window: 255, Priority: 64, Tor: torPrivate, TorSlots: 256, Publication: multicast, WireBits: 16}},
		{"a quorum", func(*site) {}, &v1.JobSpec{Quorum: &v1.Quorum{Workers: 3}}, &v1.JobSpec{Elements: 128, Window: 255, Priority: 64, Tor: torPrivate, TorSlots: 256, Publication: multicast,
			Quorum: &v1.Quorum{Workers: 3, After: durationpb.New(50 * time.Millisecond), MaxLag: 1530}}},
		{"a quorum, with all of it", func(*site) {}, &v1.JobSpec{Tor: torNone, Quorum: &v1.Quorum{Workers: 1, After: durationpb.New(time.Second), MaxLag: 7}},
			&v1.JobSpec{Elements: 256, Window: 255, Priority: 64, Tor: torNone, Publication: multicast, Quorum: &v1.Quorum{Workers: 1, After: durationpb.New(time.Second), MaxLag: 7}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := bigSite()
			c.site(&s)
			c.spec.Name = "a"
			if c.spec.Workers == 0 {
				c.spec.Workers = 4
			}
			got, err := s.complete(c.spec)
			if err != nil {
				t.Fatal(err)
			}
			c.want.Name, c.want.Workers = c.spec.Name, c.spec.Workers
			if c.want.WireBits == 0 {
				c.want.WireBits = 32
			}
			c.want.MinRto, c.want.MaxRto = durationpb.New(time.Millisecond), durationpb.New(250*time.Millisecond)
			c.want.Silence, c.want.Grace = durationpb.New(30*time.Second), durationpb.New(time.Minute)
			if !proto.Equal(got, c.want) {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}

func TestRefusedSpecs(t *testing.T) {
	for _, c := range []struct {
		field string
		text  string
		site  func(*site)
		spec  func(*v1.JobSpec)
	}{
		{"name", `""`, nil, func(s *v1.JobSpec) { s.Name = "" }},
		{"name", `"Big"`, nil, func(s *v1.JobSpec) { s.Name = "Big" }},
		{"name", "a-", nil, func(s *v1.JobSpec) { s.Name = "a-" }},
		{"name", "63", nil, func(s *v1.JobSpec) { s.Name = strings.Repeat("a", 64) }},
		{"name", "…", nil, func(s *v1.JobSpec) { s.Name = strings.Repeat("a", 1<<20) }},
		{"workers", "want 1 to 64", nil, func(s *v1.JobSpec) { s.Workers = 65 }},
		{"workers", "want 1 to 64", nil, func(s *v1.JobSpec) { s.Workers = 0 }},
		{"elements", "multiple of 32", nil, func(s *v1.JobSpec) { s.Elements = 33 }},
		{"elements", "832", nil, func(s *v1.JobSpec) { s.Elements = 864 }},
		{"elements", "832", nil, func(s *v1.JobSpec) { s.Elements = 1 << 31 }},
		{"elements", "at most 128", nil, func(s *v1.JobSpec) { s.Elements = 256 }},
		{"elements", "a packet of 1464 bytes, and the MTU of the aggregator's interfaces is 1450: want at most 320", func(s *site) { s.mtu = 1450 }, func(s *v1.JobSpec) { s.Elements, s.Tor = 352, torNone }},
		{"window", "32768", nil, func(s *v1.JobSpec) { s.Window = 1<<15 + 1 }},
		{"wire_bits", "want 16 (half the traffic, coarser sums) or 32", nil, func(s *v1.JobSpec) { s.WireBits = 8 }},
		{"priority", "127", nil, func(s *v1.JobSpec) { s.Priority = 128 }},
		{"tor", "no use of the ToR", nil, func(s *v1.JobSpec) { s.Tor = 9 }},
		{"tor", "no ToR", func(s *site) { s.tor = false }, func(s *v1.JobSpec) { s.Tor = torPrivate }},
		{"tor", "nothing to sum", nil, func(s *v1.JobSpec) { s.Workers, s.Tor = 1, torPrivate }},
		{"tor", "shared_slots", func(s *site) { s.sharedSlots = 0 }, func(s *v1.JobSpec) { s.Tor = torShared }},
		{"tor_slots", "power of two", nil, func(s *v1.JobSpec) { s.TorSlots = 3 }},
		{"tor_slots", "at most 256", nil, func(s *v1.JobSpec) { s.TorSlots = 512 }},
		{"tor_slots", "only a private region", nil, func(s *v1.JobSpec) { s.TorSlots, s.Tor = 64, torShared }},
		{"publication", "no publication", nil, func(s *v1.JobSpec) { s.Publication = 7 }},
		{"publication", "ask for multicast", nil, func(s *v1.JobSpec) { s.Publication, s.Tor = unicast, torPrivate }},
		{"publication", "needs a group", func(s *site) { s.multicast = false }, func(s *v1.JobSpec) { s.Publication = multicast }},
		{"min_rto", "0s", nil, func(s *v1.JobSpec) { s.MinRto = durationpb.New(0) }},
		{"max_rto", "less than min_rto", nil, func(s *v1.JobSpec) { s.MaxRto = durationpb.New(time.Microsecond) }},
		{"silence", "-1s", nil, func(s *v1.JobSpec) { s.Silence = durationpb.New(-time.Second) }},
		{"grace", "1ms", nil, func(s *v1.JobSpec) { s.Grace = durationpb.New(time.Millisecond) }},
		{"grace", "out-of-range", nil, func(s *v1.JobSpec) { s.Grace = &durationpb.Duration{Nanos: -1 << 31} }},
		{"quorum", "want 1 to 3, one less than the job has", nil, func(s *v1.JobSpec) { s.Quorum = &v1.Quorum{} }},
		{"quorum", "workers: 5: want 1 to 3", nil, func(s *v1.JobSpec) { s.Quorum = &v1.Quorum{Workers: 5} }},
		{"quorum", "4 of 4 workers are all: leave it out", nil, func(s *v1.JobSpec) { s.Quorum = &v1.Quorum{Workers: 4} }},
		{"quorum", "waits for nobody", nil, func(s *v1.JobSpec) { s.Workers, s.Tor, s.Quorum = 1, torNone, &v1.Quorum{Workers: 1} }},
		{"quorum", "quorum: after: 0s: want 1ns to 1h", nil, func(s *v1.JobSpec) { s.Quorum = &v1.Quorum{Workers: 3, After: durationpb.New(0)} }},
		{"quorum", "after: 2s is longer than silence, 1s", nil, func(s *v1.JobSpec) {
			s.Silence, s.Quorum = durationpb.New(time.Second), &v1.Quorum{Workers: 3, After: durationpb.New(2 * time.Second)}
		}},
		{"quorum", "max_lag: 32769 chunks: want at most 32768", nil, func(s *v1.JobSpec) { s.Quorum = &v1.Quorum{Workers: 3, MaxLag: 1<<15 + 1} }},
		{"workers,priority", "workers: 100: want 1 to 64; priority: 200", nil, func(s *v1.JobSpec) { s.Workers, s.Priority = 100, 200 }},
	} {
		t.Run(c.field+" "+c.text, func(t *testing.T) {
			s, spec := bigSite(), &v1.JobSpec{Name: "a", Workers: 4}
			if c.site != nil {
				c.site(&s)
			}
			c.spec(spec)
			_, err := s.complete(spec)
			refused(t, err, codes.InvalidArgument, refusal.BadRequest, c.text, "job \"")
			if got := refusal.Of(err).Metadata["field"]; got != c.field {
				t.Errorf("field %q, want %q: %v", got, c.field, err)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("a text of %d characters", len(err.Error()))
			}
		})
	}
	if _, err := bigSite().complete(nil); refusal.Of(err) == nil {
		t.Error(err)
	}
}

// FuzzSpec holds that a specification is refused with a text that names a field, or is admitted, and then makes jobs that the aggregator, the ToR and a worker
// take.
func FuzzSpec(f *testing.F) {
	for _, spec := range []*v1.JobSpec{
		{Name: "a", Workers: 4}, {Name: "a-1", Workers: 64, Elements: 832, Tor: torNone}, {Name: "b", Workers: 1, Publication: unicast},
		{Name: "c", Workers: 2, Tor: torShared, Window: 1 << 15}, {Name: "d", Workers: 3, Tor: torPrivate, TorSlots: 64, Elements: 32, Priority: 127},
		{Name: "e", Workers: 8, Quorum: &v1.Quorum{Workers: 7}}, {Name: "f", Workers: 2, Tor: torNone, Quorum: &v1.Quorum{Workers: 1, After: durationpb.New(1), MaxLag: 1 << 15}},
		{Name: "g", Workers: 4, WireBits: 16}, {Name: "?", Workers: 99, MinRto: durationpb.New(-1)},
	} {
		text, err := proto.Marshal(spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, true, uint16(3498))
		f.Add(text, false, uint16(1500))
	}
	f.Fuzz(func(t *testing.T, text []byte, tor bool, mtu uint16) {
		asked := &v1.JobSpec{}
		if proto.Unmarshal(text, asked) != nil {
			return
		}
		s := bigSite()
		s.mtu = max(int(mtu), packetBytes(wire.MinElements))
		if s.tor = tor; !tor {
			s.defaults.Tor = torNone
		}
		spec, err := s.complete(asked)
		if err != nil {
			got := refusal.Of(err)
			if got == nil || got.Metadata["field"] == "" {
				t.Fatalf("%v: %v", asked, err)
			}
			for _, field := range strings.Split(got.Metadata["field"], ",") {
				if asked.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(field)) == nil || !strings.Contains(err.Error(), field+": ") {
					t.Fatalf("%v: the field %q: %v", asked, field, err)
				}
			}
			return
		}
		if again, err := s.complete(spec); err != nil || !proto.Equal(spec, again) {
			t.Fatalf("what was chosen is not what would be chosen: %v, %v, %v", spec, again, err)
		}
		admitted(t, s, spec)
	})
}

// admitted makes all that a job with this specification needs.
func admitted(t *testing.T, s site, spec *v1.JobSpec) {
	config := Config{
		Ledger: ledger.Config{Slots: xdp.Slots{1 << 17, 1 << 17, 1 << 17, 1 << 17}, Groups: netip.MustParsePrefix("239.77.0.0/16"), FirstWorkerPort: 9800, LastWorkerPort: 9800, SharedSlots: 64},
		Nodes:  []Node{{Paths: oneInterface{}, MTU: s.mtu}},
	}
	if s.tor {
		config.Switch, config.TorAddress = &torStub{hosts: 64}, torAddr
	}
	config = config.withDefaults()
	account, err := ledger.New(config.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	account.SetTorSlots(1 << 16)
	m := &Manager{config: config, ledger: account, nodes: map[string]*node{}, ctx: t.Context()}
	m.addNode(config.Nodes[0]).clean = true
	allocation, err := account.Reserve(request(spec), "")
	if err != nil {
		refused(t, err, codes.ResourceExhausted, refusal.NoRoom, "asked for")
		return
	}
	var calls []*call
	for rank := range spec.Workers {
		path, err := oneInterface{}.To(t.Context(), workerAddr(int(rank)))
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, &call{rank: rank, address: workerAddr(int(rank)), paths: map[string]Path{"": path}})
	}
	base := &store.Job{Spec: spec, Allocation: allocation}
	record, _, err := m.propose(newJob(base, time.Time{}), base, calls)
	if err != nil {
		t.Fatal(err)
	}
	job := aggregatorJob(record, record.Running.Home(0), config.TorAddress)
	if err := job.Validate(); err != nil {
		t.Fatalf("%v: aggregator: %v", spec, err)
	}
	if job.Ring() != allocation.Slots {
		t.Fatalf("%v: a ring of %d slots, and %d are set aside", spec, job.Ring(), allocation.Slots)
	}
	if record.Running.Through {
		job := switchJob(record, config.TorAddress)
		if (job.Parent != nil) != (spec.Quorum != nil) {
			t.Fatalf("%v: the ToR's parent is %v", spec, job.Parent)
		}
		if err := job.Validate(); err != nil {
			t.Fatalf("%v: ToR: %v", spec, err)
		}
	}
	if usesTor(spec) != (record.Running.Through && allocation.Region != nil) {
		t.Fatalf("%v: %+v", spec, record.Running)
	}
	for rank := range spec.Workers {
		p := parameters(record, rank)
		c := engine.Config{
			Job: uint16(p.JobId), Rank: int(p.Rank), Workers: int(p.Workers), Elements: int(p.Elements), Window: int(p.Window), Priority: uint8(p.Priority), WireBits: int(p.WireBits),
			Shards: len(p.Homes), MinRTO: int64(p.MinRto.AsDuration()), MaxRTO: int64(p.MaxRto.AsDuration()), Silence: int64(p.Silence.AsDuration()),
		}
		if r := p.Tor; r != nil {
			c.Tor = &engine.TorRegion{Base: uint16(r.Base), Slots: uint16(r.Slots), Period: r.Period, Offset: uint16(r.Offset)}
		}
		if q := p.Quorum; q != nil {
			c.Policy = engine.Policy{Quorum: int(q.Workers), After: int64(q.After.AsDuration()), MaxLag: int(q.MaxLag)}
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("%v: worker: %v", spec, err)
		}
	}
	if job.Home.Port() < pipeline.FirstPort {
		t.Fatalf("home %v", job.Home)
	}
}
