package jobs

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/ledger"
	"spillway/appliance/refusal"
	"spillway/wire"
)

// Bounds of what a specification may ask for.
const (
	maxWindow   = 1 << 15 // what a worker can keep
	maxShards   = 64      // runs of 64 chunks go round them, and a window has few such runs
	maxPriority = 127
	maxTorSlots = 1 << 15 // a slot index has 16 bits, one of which says that there is none
	maxTimer    = time.Hour
	minGrace    = time.Second
	maxGrace    = 30 * 24 * time.Hour
)

// jobName is what a name is like.
var jobName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// site is what of the node decides over a specification.
type site struct {
	defaults  Defaults
	mtu       int // the least of all nodes
	nodes     int
	multicast bool // there are groups
	tor       bool // there is a ToR
	// torElements is the most that a chunk may have to be summed in the ToR; 0: not known.
	torElements int
	sharedSlots uint32
}

// fault collects what is wrong with a specification, by field.
type fault struct {
	texts, fields []string
}

func (f *fault) add(field, format string, args ...any) {
	f.texts = append(f.texts, field+": "+fmt.Sprintf(format, args...))
	f.fields = append(f.fields, field)
}

// complete is the specification with everything chosen that was left open. The error is a *refusal.Error that names the fields.
func (s site) complete(asked *v1.JobSpec) (*v1.JobSpec, error) {
	if asked == nil {
		return nil, refusal.New(codes.InvalidArgument, refusal.BadRequest, "spec: there is none: name and workers are needed at least").With("field", "spec")
	}
	spec := proto.CloneOf(asked)
	var f fault
	if !jobName.MatchString(spec.Name) {
		f.add("name", "%q: want 1 to 63 small letters, digits and '-', beginning with a letter and not ending with '-'", shorten(spec.Name))
	}
	if spec.Workers < 1 || spec.Workers > wire.MaxChildren {
		f.add("workers", "%d: want 1 to %d", spec.Workers, wire.MaxChildren)
	}
	if spec.Window == 0 {
		spec.Window = s.defaults.Window
	}
	if spec.Window > maxWindow {
		f.add("window", "%d: want 1 to %d chunks", spec.Window, maxWindow)
	}
	if spec.Priority == 0 {
		spec.Priority = DefaultPriority
	}
	if spec.Priority > maxPriority {
		f.add("priority", "%d: want 1 (least urgent) to %d", spec.Priority, maxPriority)
	}
	if spec.WireBits == 0 {
		spec.WireBits = DefaultWireBits
	}
	if spec.WireBits != 16 && spec.WireBits != 32 {
		f.add("wire_bits", "%d: want 16 (half the traffic, coarser sums) or 32", spec.WireBits)
	}
	s.completeTimers(spec, &f)
	s.checkShards(spec, &f)
	completeQuorum(spec, &f)
	s.completeElastic(spec, &f)
	s.completePath(spec, asked, &f)
	if len(f.texts) == 0 { // what follows goes by the window and by the use of the ToR
		s.completeTorSlots(spec, &f)
		s.completeElements(spec, &f)
	}
	if len(f.texts) > 0 {
		return nil, refusal.New(codes.InvalidArgument, refusal.BadRequest, "job %q cannot be: %s", shorten(spec.Name), strings.Join(f.texts, "; ")).
			With("job", shorten(spec.Name)).With("field", strings.Join(f.fields, ","))
	}
	if usesTor(spec) && s.torElements == 0 {
		return nil, refusal.New(codes.Unavailable, refusal.SwitchAway,
			"tor: the ToR was never reached, so its memory is not known: ask again when it is (spillctl switch says why it is not), or ask for tor: none").With("field", "tor")
	}
	return spec, nil
}

// completePath chooses how the ToR is used and how results are published, which go together: a ToR publishes to a group.
func (s site) completePath(spec, asked *v1.JobSpec, f *fault) {
	const (
		unspecified, none = v1.TorUse_TOR_USE_UNSPECIFIED, v1.TorUse_TOR_USE_NONE
		unicast           = v1.Publication_PUBLICATION_UNICAST
		multicast         = v1.Publication_PUBLICATION_MULTICAST
	)
	if spec.Tor == unspecified {
		spec.Tor = s.defaults.Tor
		if spec.Workers == 1 || spec.Publication == unicast || spec.Tor == unspecified || shards(spec) > 1 {
			spec.Tor = none // the default is for jobs that can
		}
	}
	if v1.TorUse_name[int32(spec.Tor)] == "" {
		f.add("tor", "%d is no use of the ToR: want none, private or shared", spec.Tor)
		return
	}
	if spec.Publication == v1.Publication_PUBLICATION_UNSPECIFIED {
		spec.Publication = s.defaults.Publication
		switch {
		case usesTor(spec):
			spec.Publication = multicast
		case shards(spec) > 1 && s.tor:
			spec.Publication = unicast
		}
	}
	switch {
	case v1.Publication_name[int32(spec.Publication)] == "":
		f.add("publication", "%d is no publication: want multicast or unicast", spec.Publication)
	case spec.Publication == multicast && !s.multicast:
		f.add("publication", "multicast needs a group, and this appliance has none: ask for unicast, or write groups into its configuration")
	case spec.Publication == multicast && shards(spec) > 1 && s.tor:
		f.add("publication", "what a ToR publishes has one home, and %d shards have several: ask for unicast, or for one shard", spec.Shards)
	}
	if spec.FirstCome && spec.Tor != v1.TorUse_TOR_USE_SHARED {
		f.add("first_come", "only in a shared region does anybody else come: leave it out, or ask for tor: shared")
	}
	if !usesTor(spec) {
		return
	}
	switch {
	case !s.tor:
		f.add("tor", "this appliance has no ToR: ask for none, or write the switch into its configuration")
	case shards(spec) > 1:
		f.add("tor", "the ToR sums for one home, and %d shards have several: ask for none, or for one shard", spec.Shards)
	case spec.Workers == 1:
		f.add("tor", "a job of one worker has nothing to sum: ask for none")
	case asked.Publication == unicast:
		f.add("publication", "the ToR publishes to a multicast group: ask for multicast, or for tor: none")
	case spec.Tor == v1.TorUse_TOR_USE_SHARED && s.sharedSlots == 0:
		f.add("tor", "this appliance has no shared region: ask for private or none, or write shared_slots into its configuration")
	}
}

// checkShards looks at among how many homes the chunks are shared out.
func (s site) checkShards(spec *v1.JobSpec, f *fault) {
	if most := min(uint32(s.nodes), maxShards); spec.Shards > most {
		f.add("shards", "%d: want 1 to %d, a home for each among the appliances", spec.Shards, most)
	}
}

// completeTorSlots chooses the size of a private region.
func (s site) completeTorSlots(spec *v1.JobSpec, f *fault) {
	if spec.Tor != v1.TorUse_TOR_USE_PRIVATE {
		if spec.TorSlots != 0 {
			f.add("tor_slots", "%d, and only a private region has a size: leave it out, or ask for tor: private", spec.TorSlots)
		}
		return
	}
	most := min(ledger.Period(spec.Window), maxTorSlots)
	if spec.TorSlots == 0 {
		spec.TorSlots = most
		if s.defaults.TorSlots > 0 {
			spec.TorSlots = min(s.defaults.TorSlots, most)
		}
	}
	switch {
	case spec.TorSlots&(spec.TorSlots-1) != 0:
		f.add("tor_slots", "%d: want a power of two", spec.TorSlots)
	case spec.TorSlots > most:
		f.add("tor_slots", "%d: want at most %d, more than that a window of %d never uses", spec.TorSlots, most, spec.Window)
	}
}

// completeElements chooses E, or says what does not carry the one that was asked for.
func (s site) completeElements(spec *v1.JobSpec, f *fault) {
	fits := min((s.mtu-packetBytes(0))/wire.ElementSize/wire.ElementStep*wire.ElementStep, wire.MaxElements)
	limited := usesTor(spec) && s.torElements > 0
	if spec.Elements == 0 {
		spec.Elements = uint32(min(int(s.defaults.Elements), fits))
		if limited {
			spec.Elements = min(spec.Elements, uint32(s.torElements/wire.ElementStep*wire.ElementStep))
		}
	}
	e := int(min(spec.Elements, 1<<20)) // far more than there can be, and a number that can be multiplied
	switch {
	case e < wire.MinElements || e > wire.MaxElements || e%wire.ElementStep != 0:
		f.add("elements", "%d: want a multiple of %d from %d to %d", spec.Elements, wire.ElementStep, wire.MinElements, wire.MaxElements)
	case e > fits:
		f.add("elements", "a chunk of %d is a packet of %d bytes, and the MTU of the aggregator's interfaces is %d: want at most %d, or a larger MTU", e, packetBytes(e), s.mtu, fits)
	case limited && e > s.torElements:
		f.add("elements", "%d, and the ToR sums chunks of at most %d: ask for that, or for tor: none", e, s.torElements)
	}
}

// completeTimers fills in the bounds of the workers' timers and the grace.
func (s site) completeTimers(spec *v1.JobSpec, f *fault) {
	minRTO := completeDuration(&spec.MinRto, DefaultMinRTO, 1, maxTimer, "min_rto", f)
	maxRTO := completeDuration(&spec.MaxRto, max(DefaultMaxRTO, minRTO), 1, maxTimer, "max_rto", f)
	if maxRTO < minRTO {
		f.add("max_rto", "%v is less than min_rto, %v", maxRTO, minRTO)
	}
	completeDuration(&spec.Silence, DefaultSilence, 1, 24*time.Hour, "silence", f)
	completeDuration(&spec.Grace, s.defaults.Grace, minGrace, maxGrace, "grace", f)
}

// completeDuration fills in one duration, and returns it, or the one that would have been chosen when it is out of its bounds.
func completeDuration(field **durationpb.Duration, chosen, least, most time.Duration, name string, f *fault) time.Duration {
	if *field == nil {
		*field = durationpb.New(chosen)
		return chosen
	}
	if err := (*field).CheckValid(); err != nil {
		f.add(name, "%v", err)
		return chosen
	}
	d := (*field).AsDuration()
	if d < least || d > most {
		f.add(name, "%v: want %v to %v", d, least, most)
		return chosen
	}
	return d
}

// usesTor reports whether the ToR sums anything of the job.
func usesTor(spec *v1.JobSpec) bool {
	return spec.Tor == v1.TorUse_TOR_USE_PRIVATE || spec.Tor == v1.TorUse_TOR_USE_SHARED
}

// shorten keeps a text that is not ours from filling an error.
func shorten(text string) string {
	if len(text) <= 80 {
		return text
	}
	return strings.ToValidUTF8(text[:80], "") + "…"
}
