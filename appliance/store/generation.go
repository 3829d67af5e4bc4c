package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Generation is what the data plane was told of one, and what its members know of it: it can be put back as it was.
type Generation struct {
	Cookie uint32
	Key    uint32
	// Homes are at different nodes: shard s of the job is at number s mod their number. There is one at least.
	Homes []Home
	// Through says that the generation goes through the ToR. Why not, where it could, is in Reason.
	Through bool
	Reason  string
	// Multicast says that results go to the job's group. Grouped says that the workers were told the group, whether or not results go there now: as long as one
	// generation follows another, that stays as it is.
	Multicast bool
	Grouped   bool
	Members   []Member
	// Before are the parts that its members had in the generations that it goes on from, the oldest first. None: it began anew.
	Before []Part
}

// Home is where chunks go to.
type Home struct {
	Node string `json:"node,omitempty"`
	// Addr is the aggregator's address and first port, Ports the number of its ports.
	Addr  netip.AddrPort `json:"addr"`
	Ports uint16         `json:"ports"`
	// Port is the ToR's port that it is at, and MAC its Ethernet address there, where the generation goes through the ToR.
	Port uint16  `json:"port,omitempty"`
	MAC  [6]byte `json:"mac,omitzero"`
	// Ways are those from there to the members, by rank.
	Ways []Way `json:"ways"`
}

// Way is how an aggregator reaches a member.
type Way struct {
	MAC     []byte `json:"mac"`
	Ifindex int    `json:"ifindex"`
}

// Member is a rank of a generation.
type Member struct {
	Addr netip.Addr
	// Port is the ToR's.
	Port uint16
	// Left says that it has left in good order.
	Left        bool
	Since       time.Time
	Description string
}

// Part is what a worker knows of a generation that it has a part in.
type Part struct {
	Generation uint32 `json:"generation"`
	Cookie     uint32 `json:"cookie"`
}

// Home is that of a shard.
func (g *Generation) Home(shard int) *Home { return &g.Homes[shard%len(g.Homes)] }

// At is the home at a node; nil: it has none there.
func (g *Generation) At(node string) *Home {
	for i := range g.Homes {
		if g.Homes[i].Node == node {
			return &g.Homes[i]
		}
	}
	return nil
}

// writtenGeneration is the form in the file. The first home is written as a daemon had it that knew of one only, and can read the file still.
type writtenGeneration struct {
	Cookie    uint32          `json:"cookie"`
	Key       uint32          `json:"key"`
	Home      netip.AddrPort  `json:"home"`
	HomePorts uint16          `json:"home_ports"`
	Node      string          `json:"node,omitempty"`
	Through   bool            `json:"through,omitempty"`
	HomePort  uint16          `json:"home_port,omitempty"`
	HomeMAC   [6]byte         `json:"home_mac,omitzero"`
	Reason    string          `json:"reason,omitempty"`
	Multicast bool            `json:"multicast,omitempty"`
	Grouped   bool            `json:"grouped,omitempty"`
	Members   []writtenMember `json:"members"`
	More      []Home          `json:"more_homes,omitempty"`
	Before    []Part          `json:"before,omitempty"`
}

// writtenMember has the way from the first home with it.
type writtenMember struct {
	Addr        netip.Addr `json:"addr"`
	MAC         []byte     `json:"mac"`
	Ifindex     int        `json:"ifindex"`
	Port        uint16     `json:"port,omitempty"`
	Left        bool       `json:"left,omitempty"`
	Since       time.Time  `json:"since"`
	Description string     `json:"description,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (g Generation) MarshalJSON() ([]byte, error) {
	if len(g.Homes) == 0 {
		return nil, errors.New("a generation without a home")
	}
	first := g.Homes[0]
	w := writtenGeneration{
		Cookie: g.Cookie, Key: g.Key, Home: first.Addr, HomePorts: first.Ports, Node: first.Node, Through: g.Through, HomePort: first.Port, HomeMAC: first.MAC,
		Reason: g.Reason, Multicast: g.Multicast, Grouped: g.Grouped && !g.Multicast, More: g.Homes[1:], Before: g.Before,
	}
	for rank, m := range g.Members {
		member := writtenMember{Addr: m.Addr, Port: m.Port, Left: m.Left, Since: m.Since, Description: m.Description}
		if rank < len(first.Ways) {
			member.MAC, member.Ifindex = first.Ways[rank].MAC, first.Ways[rank].Ifindex
		}
		w.Members = append(w.Members, member)
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler.
func (g *Generation) UnmarshalJSON(text []byte) error {
	var w writtenGeneration
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	first := Home{Node: w.Node, Addr: w.Home, Ports: w.HomePorts, Port: w.HomePort, MAC: w.HomeMAC}
	*g = Generation{
		Cookie: w.Cookie, Key: w.Key, Through: w.Through, Reason: w.Reason, Multicast: w.Multicast, Grouped: w.Grouped || w.Multicast, Before: w.Before,
	}
	for _, m := range w.Members {
		first.Ways = append(first.Ways, Way{m.MAC, m.Ifindex})
		g.Members = append(g.Members, Member{Addr: m.Addr, Port: m.Port, Left: m.Left, Since: m.Since, Description: m.Description})
	}
	g.Homes = append([]Home{first}, w.More...)
	for _, h := range g.Homes {
		if len(h.Ways) != len(g.Members) {
			return fmt.Errorf("home %q knows the way to %d of %d members", h.Node, len(h.Ways), len(g.Members))
		}
	}
	return nil
}
