package worker

import (
	"fmt"
	"os"
	"time"

	"spillway/worker/transport"
)

// Transport is a way to move a worker's packets.
type Transport = transport.Kind

// The kinds of transport.
const (
	// TransportAuto is AF_XDP where the driver of the interface has it without copies and this process may use it, and UDP sockets elsewhere.
	// Stats say which it came to, and why.
	TransportAuto = transport.Auto
	// TransportUDP is UDP sockets, in bunches.
	TransportUDP = transport.UDP
	// TransportAFXDP is AF_XDP sockets at the queues of the interface, past the kernel's network stack. It needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, and
	// the interface's XDP hook to itself: one worker an interface.
	TransportAFXDP = transport.AFXDP
)

// ParseTransport reads the name of a kind; nothing is TransportAuto.
func ParseTransport(name string) (Transport, error) { return transport.ParseKind(name) }

// The variables of the environment that say what no option says.
const (
	transportVariable = "SPILLWAY_TRANSPORT"
	busyPollVariable  = "SPILLWAY_BUSY_POLL"
)

// MaxBusyPoll bounds WithBusyPoll: more is a core given away.
const MaxBusyPoll = 100 * time.Millisecond

// WithTransport says how packets are to be moved. Without it, or with the empty one, it is what the environment's SPILLWAY_TRANSPORT says: auto, udp or af_xdp; auto if that says nothing.
func WithTransport(kind Transport) Option { return func(o *options) { o.transport = kind } }

// WithBusyPoll has the worker look again and again for packets while a collective is in flight, for so long after the last one, before it sleeps. That saves the time to fall asleep and wake up in each round trip of a small
// collective, and costs what it says of a core; between two looks the core is given to whoever else wants it. At most MaxBusyPoll. Without it, it is what the environment's
// SPILLWAY_BUSY_POLL says, like 50us; not at all if that says nothing.
func WithBusyPoll(d time.Duration) Option { return func(o *options) { o.busyPoll = d } }

// fromEnvironment fills in what no option said.
func (o *options) fromEnvironment() error {
	if o.transport == "" {
		kind, err := transport.ParseKind(os.Getenv(transportVariable))
		if err != nil {
			return fmt.Errorf("environment variable %s: %w", transportVariable, err)
		}
		o.transport = kind
	}
	said := "WithBusyPoll"
	if o.busyPoll == -1 {
		o.busyPoll = 0
		if text := os.Getenv(busyPollVariable); text != "" {
			var err error
			if o.busyPoll, err = time.ParseDuration(text); err != nil {
				return fmt.Errorf("environment variable %s is %q, want a time like 50us", busyPollVariable, text)
			}
			said = "environment variable " + busyPollVariable
		}
	}
	if o.busyPoll < 0 || o.busyPoll > MaxBusyPoll {
		return fmt.Errorf("%s: %s is not between 0 and %s", said, o.busyPoll, MaxBusyPoll)
	}
	return nil
}
