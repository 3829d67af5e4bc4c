package vectors

import (
	"fmt"
	"net/netip"
	"slices"

	"spillway/wire"
)

// Fixture is the state that every case of a file starts from: who is connected
// where, and the content of the pipeline's tables. Slots and counters are empty.
type Fixture struct {
	// Elements is the target's limit, a multiple of 32. 0 means 32, which is what
	// a switch holds; files for more need a target that can be set to it.
	Elements int `json:"elements"`
	// TorMAC is what hosts send to, unless a packet says otherwise.
	TorMAC MAC `json:"tor_mac"`
	// Hosts by name. Each is routed: its address as a /32 in the forward table.
	Hosts map[string]Host `json:"hosts"`
	// Groups are the multicast groups of the replication engine: the ports of each.
	Groups map[uint16][]uint16 `json:"groups"`
	// Forward are routes beside those of the hosts.
	Forward []Forward `json:"forward"`
	// Multicast is the group table.
	Multicast []GroupRoute `json:"multicast"`
	Bridge    []Bridge     `json:"bridge"`
	// Jobs by the name that packets and events use.
	Jobs map[string]*Job `json:"jobs"`
}

// Host is something connected to a port.
type Host struct {
	Port    uint16     `json:"port"`
	Address netip.Addr `json:"address"`
	MAC     MAC        `json:"mac"`
}

// Forward is a route: an entry of the forward table.
type Forward struct {
	Prefix netip.Prefix `json:"prefix"`
	Port   uint16       `json:"port"`
	MAC    MAC          `json:"mac"`
}

// GroupRoute is an entry of the group table.
type GroupRoute struct {
	Address netip.Addr `json:"address"`
	Group   uint16     `json:"group"`
}

// Bridge is an entry of the bridge table: Flood is a group, used where Port is 0.
type Bridge struct {
	MAC   MAC    `json:"mac"`
	Port  uint16 `json:"port"`
	Flood uint16 `json:"flood"`
}

// Job is a job as the ToR knows it, in all tables.
type Job struct {
	ID         uint16 `json:"id"`
	Index      uint8  `json:"index"`
	Generation uint8  `json:"generation"`
	Cookie     Number `json:"cookie"`
	// Key is what a slot's id is XORed with, so that jobs with the same seq differ.
	Key Number `json:"key"`
	// Priority, WorkerPort and Home are what the packets of the job's workers
	// carry unless they say otherwise; Home names a host.
	Priority   uint8    `json:"priority"`
	WorkerPort uint16   `json:"worker_port"`
	Home       string   `json:"home"`
	Members    []Member `json:"members"`
	Regions    []Region `json:"regions"`
	// SendUp is the uplink entry, where it has one.
	SendUp *SendUp `json:"send_up"`
	// ToWorkers or ToParent is the publish entry, where it has one.
	ToWorkers *ToWorkers `json:"to_workers"`
	ToParent  *ToParent  `json:"to_parent"`
}

// Member is an entry of the member table.
type Member struct {
	// Host gives port and address.
	Host string `json:"host"`
	// Role is worker (or empty), home or echo.
	Role string `json:"role"`
	// Bits are those that a worker may set; one, or for a lower ToR several.
	Bits Number `json:"bits"`
}

// The roles of a member.
const (
	Worker = "worker"
	Home   = "home"
	Echo   = "echo"
)

// Region is an entry of the region table: a power of two of slots from Base on,
// a multiple of Slots.
type Region struct {
	Base  uint16 `json:"base"`
	Slots uint16 `json:"slots"`
	// Mode is private, shared or first_come.
	Mode string `json:"mode"`
}

// The modes of a region.
const (
	Private   = "private"
	Shared    = "shared"
	FirstCome = "first_come"
)

// SendUp is an entry of the uplink table; index, cookie and key are the job's.
type SendUp struct {
	Port      uint16     `json:"port"`
	MAC       MAC        `json:"mac"`
	Src       netip.Addr `json:"src"`
	Dst       netip.Addr `json:"dst"`
	FirstPort uint16     `json:"first_port"`
	// Ports is a power of two; 0 means 1.
	Ports uint16 `json:"ports"`
}

// ToWorkers is an entry of the publish table at the root.
type ToWorkers struct {
	Group   uint16     `json:"group"`
	SrcMAC  MAC        `json:"src_mac"`
	DstMAC  MAC        `json:"dst_mac"`
	Src     netip.Addr `json:"src"`
	Dst     netip.Addr `json:"dst"`
	SrcPort uint16     `json:"src_port"`
	DstPort uint16     `json:"dst_port"`
}

// ToParent is an entry of the publish table where the sum goes further up.
type ToParent struct {
	SendUp
	// Bits are this ToR's at its parent.
	Bits Number `json:"bits"`
}

// role is the role with its default.
func (m Member) role() string {
	if m.Role == "" {
		return Worker
	}
	return m.Role
}

// Full is the job's full bitmap: the bits of all its workers.
func (j *Job) Full() uint64 {
	var full uint64
	for _, m := range j.Members {
		if m.role() == Worker {
			full |= uint64(m.Bits)
		}
	}
	return full
}

// member finds the job's member of that host.
func (j *Job) member(host string) (Member, bool) {
	i := slices.IndexFunc(j.Members, func(m Member) bool { return m.Host == host })
	if i < 0 {
		return Member{}, false
	}
	return j.Members[i], true
}

// PortMask is the mask of the home's ports for seq >> 6.
func (u SendUp) PortMask() uint16 { return max(u.Ports, 1) - 1 }

// DstPort is the UDP port of the home that chunk seq goes to.
func (u SendUp) DstPort(seq uint32) uint16 { return u.FirstPort + uint16(seq>>6)&u.PortMask() }

// Mask is the region's mask of slot indexes.
func (r Region) Mask() uint16 { return ^(r.Slots - 1) }

// Routes are all entries of the forward table: the hosts' and the fixture's own.
func (f *Fixture) Routes() []Forward {
	var routes []Forward
	for _, name := range f.hostNames() {
		h := f.Hosts[name]
		if h.Address.IsValid() {
			routes = append(routes, Forward{Prefix: netip.PrefixFrom(h.Address, 32), Port: h.Port, MAC: h.MAC})
		}
	}
	return append(routes, f.Forward...)
}

// Ports are all ports that hosts are connected to, in order.
func (f *Fixture) Ports() []uint16 {
	var ports []uint16
	for _, h := range f.Hosts {
		ports = append(ports, h.Port)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

func (f *Fixture) hostNames() []string {
	names := make([]string, 0, len(f.Hosts))
	for name := range f.Hosts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// check refuses a fixture that says something that no target could hold.
func (f *Fixture) check() error {
	if f.Elements == 0 {
		f.Elements = wire.MinElements
	}
	if f.Elements%wire.ElementStep != 0 || f.Elements > wire.MaxElements {
		return fmt.Errorf("elements: %d", f.Elements)
	}
	for name, j := range f.Jobs {
		if _, ok := f.Hosts[j.Home]; !ok {
			return fmt.Errorf("job %s: home %q is no host", name, j.Home)
		}
		for _, m := range j.Members {
			if _, ok := f.Hosts[m.Host]; !ok {
				return fmt.Errorf("job %s: member %q is no host", name, m.Host)
			}
			if !slices.Contains([]string{Worker, Home, Echo}, m.role()) {
				return fmt.Errorf("job %s: member %s: role %q", name, m.Host, m.Role)
			}
		}
		for _, r := range j.Regions {
			if r.Slots == 0 || r.Slots&(r.Slots-1) != 0 || r.Base%r.Slots != 0 {
				return fmt.Errorf("job %s: region of %d slots from %d", name, r.Slots, r.Base)
			}
			if !slices.Contains([]string{Private, Shared, FirstCome}, r.Mode) {
				return fmt.Errorf("job %s: region mode %q", name, r.Mode)
			}
		}
		if w := j.ToWorkers; w != nil && f.Groups[w.Group] == nil {
			return fmt.Errorf("job %s: group %d does not exist", name, w.Group)
		}
	}
	return nil
}
