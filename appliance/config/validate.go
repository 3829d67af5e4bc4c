package config

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"spillway/p4/pipeline"
	"spillway/wire"
)

// Bounds that the packages below have, or that keep a slip of the finger from taking all memory.
const (
	maxWindow     = 1 << 20
	maxRegion     = 1 << 15 // slots of a region of the ToR: an index has 16 bits, and 0xFFFF says that there is none
	maxJobs       = 4096
	maxClassSlots = 1 << 22
	maxSocketPath = 107 // bytes of sun_path, less the terminator
	maxInterface  = 15  // IFNAMSIZ, less the terminator
)

// validate says what is wrong with values and with their combinations.
func (c *Config) validate(f *findings) {
	if c.Name != "" && !word.MatchString(c.Name) {
		f.wrong("name", "write 1 to 64 letters, digits, '-' or '.', such as rack7-a", "%q is not a name", c.Name)
	}
	c.validateInterfaces(f)
	c.validateAggregator(f)
	c.validateJobs(f)
	c.validateQuota(f)
	c.validateAPI(f)
	f.listen("metrics.listen", c.Metrics.Listen, "127.0.0.1:9691, or off")
	f.path("state", c.State, "/var/lib/spillway/state.db")
	c.validateSwitch(f)
	c.validateCluster(f)
	f.choice("log.level", c.Log.Level, "debug", "info", "warn", "error")
	f.choice("log.format", c.Log.Format, "text", "json")
}

var word = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$`)

func (c *Config) validateInterfaces(f *findings) {
	if len(c.Interfaces) == 0 {
		f.wrong("interfaces", "name those that the workers are behind: interfaces: [{name: eth0, address: 10.0.0.1}]", "the aggregator has no interface")
	}
	names, addresses := map[string]bool{}, map[netip.Addr]bool{}
	for i, n := range c.Interfaces {
		path := fmt.Sprintf("interfaces[%d]", i)
		switch {
		case n.Name == "":
			f.wrong(path+".name", "write its name, as ip link shows it, such as eth0", "the interface has no name")
		case len(n.Name) > maxInterface || strings.ContainsAny(n.Name, "/: \t\n\x00") || n.Name == "." || n.Name == "..":
			f.wrong(path+".name", fmt.Sprintf("write a name as ip link shows it, of up to %d characters", maxInterface), "%q cannot be an interface", n.Name)
		case names[n.Name]:
			f.wrong(path+".name", "name each interface once", "%s is in the list already", n.Name)
		}
		f.unicast(path+".address", n.Address, "the home's address on the interface, such as 10.0.0.1")
		if n.Address.IsValid() && addresses[n.Address] {
			f.wrong(path+".address", "give each interface an address of its own", "%s is another interface's already", n.Address)
		}
		names[n.Name], addresses[n.Address] = true, true
	}
}

func (c *Config) validateAggregator(f *findings) {
	a := &c.Aggregator
	f.path("aggregator.pin", a.Pin, "/sys/fs/bpf/spillway")
	if a.Pin == "/" {
		f.wrong("aggregator.pin", "write a directory of a bpffs, such as /sys/fs/bpf/spillway", "%q cannot be Spillway's alone", a.Pin)
	} else if strings.Contains(filepath.Base(a.Pin), ".") {
		f.wrong("aggregator.pin", "write another name for the directory, such as /sys/fs/bpf/spillway", "%q has a dot, which a bpffs does not allow in names", filepath.Base(a.Pin))
	}
	inRange(f, "aggregator.ports", a.Ports, 1, HomePorts/2)
	f.power("aggregator.ports", uint32(a.Ports))
	inRange(f, "aggregator.max_jobs", a.MaxJobs, 1, maxJobs)
	var largest uint32
	for i, n := range a.Slots.XDP() {
		key := "aggregator.slots." + keysOf(reflect.TypeFor[Slots]())[i]
		inRange(f, key, n, 0, maxClassSlots)
		largest = max(largest, n)
	}
	if largest == 0 {
		f.wrong("aggregator.slots", "give at least one class some", "there are no slots at all")
	} else if c.Jobs.Window >= 1 && c.Jobs.Window <= maxWindow && wire.RingSize(c.Jobs.Window) > largest && !f.has("aggregator.slots") {
		f.wrong("jobs.window", "write a smaller window, or more slots", "a job of window %d takes %d slots, and the largest class has %d (aggregator.slots)", c.Jobs.Window, wire.RingSize(c.Jobs.Window), largest)
	}
}

func (c *Config) validateJobs(f *findings) {
	j := &c.Jobs
	inRange(f, "jobs.window", j.Window, 1, maxWindow)
	if j.Elements != 0 && (j.Elements < wire.MinElements || j.Elements > wire.MaxElements || j.Elements%wire.ElementStep != 0) {
		f.wrong("jobs.elements", fmt.Sprintf("write a multiple of %d from %d to %d, such as 256, or 0 for the most that MTU and ToR can do, up to 256", wire.ElementStep, wire.MinElements, wire.MaxElements),
			"a chunk cannot have %d elements", j.Elements)
	}
	f.choice("jobs.tor", string(j.Tor), string(TorNone), string(TorPrivate), string(TorShared))
	if c.Switch == nil && j.Tor != TorNone {
		f.wrong("jobs.tor", "write none, or describe the ToR in a section switch", "jobs would be %s in a ToR, and there is none", j.Tor)
	}
	if c.Switch != nil && j.Tor == TorShared && c.Switch.SharedSlots == 0 {
		f.wrong("jobs.tor", "write switch.shared_slots, such as 1024, or jobs.tor: private", "jobs would share a region of the ToR, and switch.shared_slots is 0")
	}
	inRange(f, "jobs.tor_slots", j.TorSlots, 1, maxRegion)
	f.power("jobs.tor_slots", j.TorSlots)
	f.choice("jobs.publication", string(j.Publication), string(Multicast), string(Unicast))
	f.duration("jobs.grace", j.Grace, time.Second, 30*24*time.Hour)
	if j.LostAfter != 0 {
		f.duration("jobs.lost_after", j.LostAfter, 200*time.Millisecond, 24*time.Hour)
	}
	first := j.Groups.Masked().Addr()
	if !j.Groups.IsValid() || !first.Is4() || !first.IsMulticast() || j.Groups.Bits() < 4 || first.As4()[0] == 224 && j.Groups.Bits() < 8 {
		f.wrong("jobs.groups", "write one within 224.0.0.0/4, such as 239.77.0.0/16", "%s is not a network of IPv4 multicast groups", j.Groups)
	} else if first != j.Groups.Addr() {
		f.wrong("jobs.groups", fmt.Sprintf("write %s", j.Groups.Masked()), "%s has bits beyond its length", j.Groups)
	} else if netip.MustParsePrefix("224.0.0.0/24").Overlaps(j.Groups) {
		f.wrong("jobs.groups", "write one such as 239.77.0.0/16", "%s has groups of 224.0.0.0/24, which are for routing protocols", j.Groups)
	}
	switch p := j.WorkerPorts; {
	case p.First > p.Last:
		f.wrong("jobs.worker_ports", fmt.Sprintf("write %d-%d", p.Last, p.First), "%s ends before it begins", p)
	case p.First < 1024:
		f.wrong("jobs.worker_ports", "write ports from 1024 on, such as 9800-10055", "%s has ports that only root may use", p)
	case p.First < FirstHomePort+HomePorts && p.Last >= FirstHomePort:
		f.wrong("jobs.worker_ports", "write a range beside it, such as 9800-10055", "%s overlaps the homes' ports, %d-%d", p, FirstHomePort, FirstHomePort+HomePorts-1)
	}
}

func (c *Config) validateQuota(f *findings) {
	q := &c.Jobs.Quota
	inRange(f, "jobs.quota.workers", q.Workers, 0, wire.MaxChildren)
	inRange(f, "jobs.quota.window", q.Window, 0, maxWindow)
	inRange(f, "jobs.quota.tor_slots", q.TorSlots, 0, maxRegion)
	inRange(f, "jobs.quota.jobs", q.Jobs, 0, int(c.Aggregator.MaxJobs))
	if q.Window > 0 && q.Window < c.Jobs.Window {
		f.wrong("jobs.quota.window", fmt.Sprintf("write %d or more, or a smaller jobs.window", c.Jobs.Window), "%d is less than jobs.window, so that no job could have the default", q.Window)
	}
	if q.TorSlots > 0 && q.TorSlots < c.Jobs.TorSlots {
		f.wrong("jobs.quota.tor_slots", fmt.Sprintf("write %d or more, or a smaller jobs.tor_slots", c.Jobs.TorSlots), "%d is less than jobs.tor_slots, so that no job could have the default", q.TorSlots)
	}
	if e := max(c.Jobs.Elements, wire.MinElements); q.Memory > 0 && !f.has("jobs.window") && !f.has("jobs.elements") {
		if least := Size(wire.RingSize(c.Jobs.Window)) * Size(32+4*classElements(e)); q.Memory < least {
			f.wrong("jobs.quota.memory", fmt.Sprintf("write %s or more", least), "%s is less than a job of window %d and %d elements takes", q.Memory, c.Jobs.Window, e)
		}
	}
}

func (c *Config) validateAPI(f *findings) {
	a := &c.API
	f.path("api.socket", a.Socket, "/run/spillway/spillwayd.sock")
	if len(a.Socket) > maxSocketPath {
		f.wrong("api.socket", fmt.Sprintf("write a path of up to %d bytes, such as /run/spillway/spillwayd.sock", maxSocketPath), "a path of %d bytes, which is too long for a socket", len(a.Socket))
	}
	if a.Group != "" && !groupName.MatchString(a.Group) {
		f.wrong("api.group", "write the name of a group, such as spillway", "%q is not the name of a group", a.Group)
	}
	f.listen("api.listen", a.Listen, "10.0.0.1:9690, or off")
	f.tls("api.tls", a.TLS, true)
	if a.Plaintext != "" && !a.PlaintextAllowed() {
		f.wrong("api.plaintext", "write tls certificates instead, or, where everybody who can reach the port may take part in every job, plaintext: "+PlaintextSentence, "%q is not the sentence that allows it", a.Plaintext)
	}
	switch secured, open := a.TLS != nil, a.Plaintext != ""; {
	case a.Listen == "" && secured:
		f.wrong("api.tls", "write listen, such as 10.0.0.1:9690, or leave tls out", "there are certificates, and nothing listens (api.listen)")
	case a.Listen == "" && open:
		f.wrong("api.plaintext", "write listen, such as 10.0.0.1:9690, or leave plaintext out", "plain TCP is allowed, and nothing listens (api.listen)")
	case a.Listen != "" && secured && open:
		f.wrong("api.plaintext", "leave one of the two out", "plain TCP and certificates (api.tls) at once")
	case a.Listen != "" && !secured && !open:
		f.wrong("api.listen", "write tls: {certificate: FILE, key: FILE, ca: FILE} (spillctl certs makes some for a lab), or, where everybody who can reach the port may take part in every job, plaintext: "+PlaintextSentence,
			"workers would reach %s without TLS", a.Listen)
	}
	if a.Listen != "" && a.Listen == c.Metrics.Listen {
		f.wrong("metrics.listen", "write another port, such as 127.0.0.1:9691", "%s is the API's (api.listen)", a.Listen)
	}
	inRange(f, "api.limits.connections", a.Limits.Connections, 1, 65536)
	inRange(f, "api.limits.calls_per_second", a.Limits.CallsPerSecond, 1, 1_000_000)
	if m := a.Limits.Message; m < 4<<10 || m > 16<<20 {
		f.wrong("api.limits.message", "write 4KiB to 16MiB, such as 1MiB", "%s is out of range", m)
	}
}

// groupName is what Debian's adduser takes, and then some.
var groupName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)

func (c *Config) validateSwitch(f *findings) {
	s := c.Switch
	if s == nil {
		return
	}
	switch path, isUnix := strings.CutPrefix(s.Target, "unix:"); {
	case s.Target == "":
		f.wrong("switch.target", "write host:port of its P4Runtime server, such as 10.0.0.250:9559, or unix:PATH", "is missing")
	case isUnix:
		f.path("switch.target", path, "unix:/run/spill-tor.sock")
	default:
		if host, port, err := net.SplitHostPort(s.Target); err != nil || !word.MatchString(host) && net.ParseIP(host) == nil || !isPort(port) {
			f.wrong("switch.target", "write host:port, such as 10.0.0.250:9559, or unix:PATH", "%q is not a target", s.Target)
		}
	}
	inRange(f, "switch.device", s.Device, 1, 1<<63)
	f.choice("switch.program", string(s.Program), string(Software), string(BMv2), string(Tofino))
	inRange(f, "switch.election", s.Election, 1, 1<<63)
	f.unicast("switch.address", s.Address, "an address that nobody else has, for the ToR's partial sums to come from, such as 10.0.0.253")
	if _, ok := f.source.lines["switch.home_port"]; !ok {
		f.wrong("switch.home_port", "write the port of the switch that the first interface is at, such as 64", "is missing")
	}
	inRange(f, "switch.home_port", s.HomePort, 0, pipeline.MaxPort)
	f.tls("switch.tls", s.TLS, false)
	inRange(f, "switch.shared_slots", s.SharedSlots, 0, maxRegion)
	if s.SharedSlots > 0 {
		f.power("switch.shared_slots", s.SharedSlots)
	}
	inRange(f, "switch.flood_group", s.FloodGroup, 1, 65535)
	if c.Aggregator.MaxJobs > pipeline.MaxIndex {
		f.wrong("aggregator.max_jobs", fmt.Sprintf("write %d or less", pipeline.MaxIndex), "%d jobs are more than a ToR counts for", c.Aggregator.MaxJobs)
	} else if uint32(s.FloodGroup) <= c.Aggregator.MaxJobs {
		f.wrong("switch.flood_group", fmt.Sprintf("write %d", defaultFloodGroup), "%d may become a job's group: those are 1 to %d (aggregator.max_jobs)", s.FloodGroup, c.Aggregator.MaxJobs)
	}
	f.duration("switch.check", s.Check, 100*time.Millisecond, time.Hour)
	c.validateHosts(f)
}

func (c *Config) validateHosts(f *findings) {
	s := c.Switch
	if len(s.Hosts) == 0 {
		f.wrong("switch.hosts", `list the machines at its ports: hosts: [{address: 10.0.0.2, mac: "02:00:00:00:00:02", port: 2}]`, "the ToR would forward to nobody")
	}
	addresses, macs := map[netip.Addr]int{}, map[MAC]int{}
	if s.Address.IsValid() {
		for i, n := range c.Interfaces {
			if n.Address == s.Address {
				f.wrong("switch.address", "write an address that nobody else has", "%s is that of interfaces[%d]", s.Address, i)
			}
		}
	}
	for i, h := range s.Hosts {
		path := fmt.Sprintf("switch.hosts[%d]", i)
		f.unicast(path+".address", h.Address, "the host's address, such as 10.0.0.2")
		switch j, twice := addresses[h.Address]; {
		case !h.Address.IsValid():
		case twice:
			f.wrong(path+".address", "give each host one entry", "%s is that of hosts[%d] already", h.Address, j)
		case h.Address == s.Address:
			f.wrong(path+".address", "write another address in one of the two", "%s is the ToR's own (switch.address)", h.Address)
		case len(c.Interfaces) > 0 && h.Address == c.Interfaces[0].Address && h.Port != s.HomePort:
			f.wrong(path+".port", fmt.Sprintf("write %d, or leave the entry out", s.HomePort), "%s is this appliance, at port %d (switch.home_port)", h.Address, s.HomePort)
		}
		if h.MAC == (MAC{}) || h.MAC[0]&1 != 0 {
			f.wrong(path+".mac", "write the host's, such as \"02:00:00:00:00:01\"", "%s is no host's Ethernet address", h.MAC)
		} else if j, twice := macs[h.MAC]; twice && s.Hosts[j].Port != h.Port {
			f.wrong(path+".mac", "write the same port, or the right address", "%s is at port %d already (hosts[%d])", h.MAC, s.Hosts[j].Port, j)
		}
		if _, ok := f.source.lines[path+".port"]; !ok {
			f.wrong(path+".port", "write the port of the switch that the host is at, such as 2", "is missing")
		}
		inRange(f, path+".port", h.Port, 0, pipeline.MaxPort)
		addresses[h.Address], macs[h.MAC] = i, i
	}
}
