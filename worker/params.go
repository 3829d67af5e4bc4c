package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"spillway/worker/engine"
	"spillway/worker/transport"
)

// Params are what a worker must know of its job.
type Params struct {
	Job        uint16 `json:"job"`
	Generation uint8  `json:"generation"`
	Cookie     uint32 `json:"cookie"`
	// Rank is this worker's, in [0, Workers).
	Rank    int `json:"rank"`
	Workers int `json:"workers"`
	// Elements is E, the elements of a full chunk: a multiple of 32 from 32 to 832, such that 56 + 4E bytes fit the MTU.
	Elements int `json:"elements"`
	// Window is W, the chunks in flight.
	Window int `json:"window"`
	// Policy is what the job does about stragglers; nil: it waits for them.
	Policy *Policy `json:"policy,omitempty"`
	// Priority is the urgency of the job's chunks in the ToR, 1 to 127 if Tor is set; Tor is the job's share of the ToR's slots, if it has one.
	Priority uint8      `json:"priority,omitempty"`
	Tor      *TorRegion `json:"tor,omitempty"`
	// Home is the aggregator's address and first port; HomePorts the number of its ports, a power of two (0 is 1).
	Home      netip.AddrPort `json:"home"`
	HomePorts uint16         `json:"home_ports,omitempty"`
	// Group is the job's multicast group; without one the home sends to each worker.
	Group netip.Addr `json:"group,omitzero"`
	// WorkerPort is the UDP port of every worker of the job.
	WorkerPort uint16 `json:"worker_port"`
	// Addr is this worker's own address; without one it is that of the interface that leads to the home.
	Addr netip.Addr `json:"addr,omitzero"`
	// MinRTO and MaxRTO bound the retransmission timer, Silence is how long a collective waits without any progress before it
	// fails. Zero values are DefaultMinRTO, DefaultMaxRTO and DefaultSilence.
	MinRTO  Duration `json:"min_rto,omitzero"`
	MaxRTO  Duration `json:"max_rto,omitzero"`
	Silence Duration `json:"silence,omitzero"`
}

// TorRegion is the part of the ToR's slots that a job was given.
type TorRegion = engine.TorRegion

// Defaults of the times in Params.
const (
	DefaultMinRTO  = Duration(time.Millisecond)
	DefaultMaxRTO  = Duration(250 * time.Millisecond)
	DefaultSilence = Duration(30 * time.Second)
)

// Duration is a time.Duration that is text in JSON, like "250ms".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = Duration(parsed)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// withDefaults fills in what may be left out.
func (p Params) withDefaults() Params {
	if p.HomePorts == 0 {
		p.HomePorts = 1
	}
	for _, d := range []struct {
		value    *Duration
		fallback Duration
	}{{&p.MinRTO, DefaultMinRTO}, {&p.MaxRTO, max(DefaultMaxRTO, p.MinRTO)}, {&p.Silence, DefaultSilence}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	return p
}

// Validate says everything that is wrong with the parameters, joined into one error.
func (p Params) Validate() error {
	p = p.withDefaults()
	var errs []error
	if !p.Home.IsValid() || !p.Home.Addr().Is4() || p.Home.Addr().IsMulticast() || p.Home.Addr().IsUnspecified() || p.Home.Port() == 0 {
		errs = append(errs, fmt.Errorf("home %q is not an IPv4 address and port", p.Home))
	} else if int(p.Home.Port())+int(p.HomePorts)-1 > 65535 {
		errs = append(errs, fmt.Errorf("home ports %d from %d are beyond 65535", p.HomePorts, p.Home.Port()))
	}
	if p.Group.IsValid() && (!p.Group.Is4() || !p.Group.IsMulticast()) {
		errs = append(errs, fmt.Errorf("group %s is not an IPv4 multicast address", p.Group))
	}
	if p.WorkerPort == 0 {
		errs = append(errs, errors.New("worker port is 0"))
	}
	if p.Addr.IsValid() && (!p.Addr.Is4() || p.Addr.IsMulticast() || p.Addr.IsUnspecified()) {
		errs = append(errs, fmt.Errorf("own address %s is not an IPv4 unicast address", p.Addr))
	}
	if p.Addr.IsValid() && p.Addr == p.Home.Addr() {
		errs = append(errs, fmt.Errorf("own address %s is the home's: a host drops multicast that comes from itself", p.Addr))
	}
	cfg := p.engine()
	if err := cfg.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("job parameters: %w", err)
	}
	return nil
}

func (p Params) engine() engine.Config {
	return engine.Config{
		Job: p.Job, Generation: p.Generation, Cookie: p.Cookie, Rank: p.Rank, Workers: p.Workers, Elements: p.Elements, Window: p.Window,
		Policy: p.Policy.engine(), Priority: p.Priority, Tor: p.Tor, HomePorts: p.HomePorts, MinRTO: int64(p.MinRTO), MaxRTO: int64(p.MaxRTO), Silence: int64(p.Silence),
	}
}

func (p Params) transport() transport.Config {
	return transport.Config{
		Home: p.Home, HomePorts: p.HomePorts, Group: p.Group, Addr: p.Addr, WorkerPort: p.WorkerPort, Elements: p.Elements, Window: p.Window,
	}
}

// addressTowards is the address from which this host sends to the home.
func addressTowards(home netip.AddrPort) (netip.Addr, error) {
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(home))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the own address towards home %s: %w", home, err)
	}
	addr := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	return addr, conn.Close()
}

// Source is where a worker gets its parameters.
type Source interface {
	Params(ctx context.Context, rank int) (Params, error)
}

// FileSource is the path of a JSON file with the job's parameters, the same for all ranks.
type FileSource string

// Params reads the file; rank takes the place of what the file says.
func (f FileSource) Params(_ context.Context, rank int) (Params, error) {
	content, err := os.ReadFile(string(f))
	if err != nil {
		return Params{}, fmt.Errorf("read job parameters: %w", err)
	}
	var p Params
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return Params{}, fmt.Errorf("read job parameters from %s: %w", string(f), err)
	}
	p.Rank = rank
	return p, nil
}
