package sim

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"spillway/p4/softtor/dataplane"
	"spillway/wire"
	"spillway/xdp"
)

// Tor is the ToR as the fabric's switch: every frame from one link to another
// goes through the compiled program in the kernel.
type Tor struct {
	plane   *dataplane.Dataplane
	ports   map[netip.Addr]dataplane.Port
	addrs   map[dataplane.Port]netip.Addr
	tenants []tenant
	pushed  []func() error // take the tables' entries out again
	before  map[string]uint64
	Reboots int
}

// tenant is a job as the ToR's tables have it.
type tenant struct {
	job    xdp.Job // its Members are the workers and the ToR
	region *Share
}

// torHomePort is the ToR's port to the first home; workers have those that Link gave them.
const torHomePort dataplane.Port = 500

// torAddr is the ToR's address: what it sends partial sums from.
var torAddr = netip.AddrFrom4([4]byte{10, 77, 255, 253})

// NewTor makes a ToR of a data plane, whose slots it clears; Close takes the
// entries that it pushes out again.
func NewTor(plane *dataplane.Dataplane, homes ...netip.Addr) (*Tor, error) {
	t := &Tor{plane: plane, ports: make(map[netip.Addr]dataplane.Port), addrs: make(map[dataplane.Port]netip.Addr)}
	for n, home := range homes {
		port := torHomePort + dataplane.Port(n)
		t.ports[home], t.addrs[port] = port, home
	}
	if err := plane.ClearSlots(); err != nil {
		return nil, err
	}
	before, err := t.counts()
	t.before = before
	return t, err
}

// Link gives a worker a port.
func (t *Tor) Link(worker netip.Addr) {
	port := dataplane.Port(len(t.ports))
	t.ports[worker], t.addrs[port] = port, worker
}

// Serve has the ToR know a job, from the next Push on; share may be nil.
func (t *Tor) Serve(job xdp.Job, share *Share) {
	t.tenants = append(t.tenants, tenant{job, share})
}

// Forward implements Switch.
func (t *Tor) Forward(from netip.Addr, frame []byte) ([]Departure, error) {
	emissions, err := t.plane.Process(t.ports[from], frame)
	if err != nil {
		return nil, err
	}
	var out []Departure
	for _, e := range emissions {
		to, ok := t.addrs[e.Port]
		if !ok {
			return nil, fmt.Errorf("the ToR sent a frame to port %d, which nobody has", e.Port)
		}
		out = append(out, Departure{to, e.Frame})
	}
	return out, nil
}

// Reboot makes the ToR forget all sums, and its tables until the next Push if tables is set.
func (t *Tor) Reboot(tables bool) error {
	t.Reboots++
	if tables {
		if err := t.Close(); err != nil {
			return err
		}
	}
	return t.plane.ClearSlots()
}

// Renew has the ToR know a job by a new generation.
func (t *Tor) Renew(job xdp.Job) error {
	for i := range t.tenants {
		own := &t.tenants[i].job
		if own.ID != job.ID {
			continue
		}
		if int8(job.Generation-own.Generation) <= 0 {
			return nil // told late, of a generation before the last
		}
		*own = job
	}
	if len(t.pushed) == 0 {
		return nil
	}
	if err := t.Close(); err != nil {
		return err
	}
	return t.Push()
}

// Close empties the tables.
func (t *Tor) Close() error {
	var errs []error
	for _, remove := range t.pushed {
		errs = append(errs, remove())
	}
	t.pushed = nil
	return errors.Join(errs...)
}

// Push writes the tables, as a controller does that finds them empty. It does nothing if they are written.
func (t *Tor) Push() error {
	if len(t.pushed) > 0 {
		return nil
	}
	for addr, port := range t.ports {
		prefix := netip.PrefixFrom(addr, 32)
		if err := t.put(t.plane.SetForward(prefix, &dataplane.ToPort{Port: port, MAC: macOf(addr)}),
			func() error { return t.plane.SetForward(prefix, nil) }); err != nil {
			return err
		}
	}
	for i, tenant := range t.tenants {
		if err := t.pushTenant(uint8(i+1), &tenant); err != nil {
			return fmt.Errorf("job %d: %w", tenant.job.ID, err)
		}
	}
	return nil
}

// put notes how to undo what was written without an error.
func (t *Tor) put(err error, undo func() error) error {
	if err == nil {
		t.pushed = append(t.pushed, undo)
	}
	return err
}

func (t *Tor) pushTenant(index uint8, n *tenant) error {
	p, job, group := t.plane, n.job, uint16(index)
	var key uint32
	if n.region != nil {
		key = n.region.Key
	}
	errs := []error{
		t.put(p.SetJob(job.ID, &dataplane.JobParams{Index: index, Generation: job.Generation, Cookie: job.Cookie, Key: key}),
			func() error { return p.SetJob(job.ID, nil) }),
	}
	member := func(addr netip.Addr, m dataplane.Member) {
		k := dataplane.MemberKey{Port: t.ports[addr], Addr: addr, Job: job.ID}
		errs = append(errs, t.put(p.SetMember(k, &m), func() error { return p.SetMember(k, nil) }))
	}
	member(job.Home.Addr(), dataplane.Member{Role: dataplane.Home})
	var ports []dataplane.Port
	for _, m := range job.Members {
		if m.Addr != torAddr {
			member(m.Addr, dataplane.Member{Role: dataplane.Worker, Bits: m.Bits, Rest: wire.FullBitmap(job.Workers) &^ m.Bits})
			ports = append(ports, t.ports[m.Addr])
		}
	}
	errs = append(errs,
		t.put(p.SetMulticast(group, ports), func() error { return p.SetMulticast(group, nil) }),
		t.put(p.SetGroupRoute(job.Group, &group), func() error { return p.SetGroupRoute(job.Group, nil) }))
	if r := n.region; r != nil && r.Region.Slots > 0 {
		k := dataplane.RegionKey{Job: job.ID, Value: r.Region.Base, Mask: ^(r.Region.Slots - 1)}
		errs = append(errs, t.put(p.SetRegion(k, &r.Mode), func() error { return p.SetRegion(k, nil) }))
	}
	home, homePort := job.Home.Addr(), t.ports[job.Home.Addr()]
	publish := &dataplane.Publish{ToWorkers: &dataplane.ToWorkers{
		Group: group, SrcMAC: macOf(home), DstMAC: macOf(job.Group), Src: home, Dst: job.Group, SrcPort: job.Home.Port(), DstPort: job.WorkerPort,
	}}
	if job.Policy.Quorum != 0 || job.Parent != nil {
		// Not the root: the home could have released a chunk that is completed here, or has a parent.
		publish = &dataplane.Publish{ToParent: &dataplane.ToParent{
			Port: homePort, MAC: macOf(home), Src: torAddr, Dst: home,
			FirstPort: job.Home.Port(), PortMask: job.HomePorts - 1, Bits: wire.FullBitmap(job.Workers),
		}}
	}
	errs = append(errs,
		t.put(p.SetUplink(job.ID, &dataplane.Uplink{
			Index: index, Port: homePort, MAC: macOf(home), Src: torAddr, Dst: home,
			FirstPort: job.Home.Port(), PortMask: job.HomePorts - 1, Cookie: job.Cookie, Key: key,
		}), func() error { return p.SetUplink(job.ID, nil) }),
		t.put(p.SetPublish(job.ID, publish), func() error { return p.SetPublish(job.ID, nil) }))
	return errors.Join(errs...)
}

// Events are how often each rule of the ToR was used in this run, over all jobs.
func (t *Tor) Events() (map[string]uint64, error) {
	now, err := t.counts()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(now, func(name string, n uint64) bool { return n == t.before[name] })
	for name := range now {
		now[name] -= t.before[name]
	}
	return now, nil
}

var torEvents, errTorEvents = dataplane.EventNames()

// counts are the counters of all indices that a run uses, which are never reset.
func (t *Tor) counts() (map[string]uint64, error) {
	if errTorEvents != nil {
		return nil, errTorEvents
	}
	sum := make(map[string]uint64)
	for index := range uint8(mostJobs + 1) {
		for event, name := range torEvents {
			n, err := t.plane.EventCount(index, event)
			if err != nil {
				return nil, err
			}
			sum[name] += n
		}
		n, err := t.plane.PreemptedCount(index)
		if err != nil {
			return nil, err
		}
		sum["preempted"] += n
	}
	return sum, nil
}

// mostJobs is how many a run has.
const mostJobs = 2
