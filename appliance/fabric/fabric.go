package fabric

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/p4/client"
	"spillway/p4/pipeline"
)

// Events is where a Fabric says what happened; an events.Log is one.
type Events interface {
	Add(level v1.EventLevel, kind, job string, ranks []uint32, format string, args ...any)
}

// Config is what a Fabric must be told.
type Config struct {
	// Target is a gRPC target: host:port, or unix:PATH. Device is the P4Runtime device id, not 0.
	Target string
	Device uint64
	// Election is the id that the first session asks with; the zero one is 1.
	Election client.ElectionID
	// Program is the pipeline; see Software and BMv2.
	Program client.Pipeline
	// Hosts are the machines that the ToR forwards to, Flood the multicast group that broadcasts go to.
	Hosts []pipeline.Host
	Flood uint16
	// Check is how often all of the ToR is compared with what it should be; 0 is DefaultCheck.
	Check time.Duration
	// Dial are added to the dial options; credentials among them replace the default, which is none.
	Dial []grpc.DialOption
	// Events and Log may be nil.
	Events Events
	Log    *slog.Logger
}

// DefaultCheck is how often all of the ToR is compared with what it should be.
const DefaultCheck = 10 * time.Second

// Fabric keeps a ToR as it should be.
type Fabric struct {
	config Config
}

// Counters is what the ToR counted of a job.
type Counters struct {
	// Events are by name.
	Events map[string]uint64
	// Preempted counts the job's partial sums that were put out of their slot, Saturated its packets with a sum that left the int32 range.
	Preempted, Saturated uint64
}

// New is a Fabric that wants the hosts and no jobs; Run makes it so.
func New(config Config) (*Fabric, error) { return &Fabric{config: config}, nil }

// Run owns the session with the ToR. It returns nil when ctx ends, everything closed.
func (f *Fabric) Run(ctx context.Context) error { return errors.New("fabric: cannot run yet") }

// SetJob wants a job in the ToR, in the place of one with the same id.
func (f *Fabric) SetJob(job pipeline.Job) {}

// RemoveJob wants a job no more.
func (f *Fabric) RemoveJob(id uint16) {}

// Await waits until a job that was set is in the ToR. Errors are *refusal.Error: the ToR is away, or refuses the job.
func (f *Fabric) Await(ctx context.Context, id uint16, generation uint8) error {
	return errors.New("fabric: cannot wait yet")
}

// Limits is what the ToR can hold, as far as it was ever asked.
func (f *Fabric) Limits() (pipeline.Limits, bool) { return pipeline.Limits{}, false }

// Host is the host with an address.
func (f *Fabric) Host(addr netip.Addr) (pipeline.Host, bool) { return pipeline.Host{}, false }

// State says how the appliance and the ToR stand, and why in words when it is not in sync.
func (f *Fabric) State() (v1.SwitchState, string) { return v1.SwitchState_SWITCH_STATE_AWAY, "" }

// Changed is closed at the next change of state.
func (f *Fabric) Changed() <-chan struct{} { return nil }

// Describe says what is known of the ToR, and with slots what is in its slots, where the target can be asked. The job of a group
// or a slot is its id as a number.
func (f *Fabric) Describe(ctx context.Context, slots bool) (*v1.GetSwitchResponse, error) {
	return nil, errors.New("fabric: cannot describe yet")
}

// Counters is what the ToR counted of the job with a counter index, before reboots too, as far as it was read.
func (f *Fabric) Counters(ctx context.Context, index uint8) (Counters, error) {
	return Counters{}, errors.New("fabric: cannot count yet")
}
