package transport

import (
	"errors"
	"fmt"
	"net/netip"

	"spillway/wire"
)

// Home is one of the homes of a job: its address and first port, and how many ports there are from that one on, a power of two.
type Home struct {
	Addr  netip.AddrPort
	Ports uint16
}

func (h Home) String() string { return h.Addr.String() }

// Validate says what is wrong with a home, if anything is.
func (h Home) Validate() error {
	addr := h.Addr.Addr()
	switch {
	case !addr.Is4() || addr.IsMulticast() || addr.IsUnspecified() || h.Addr.Port() == 0:
		return fmt.Errorf("home %q is not an IPv4 address and port", h.Addr)
	case h.Ports == 0 || h.Ports&(h.Ports-1) != 0:
		return fmt.Errorf("home ports %d is not a power of two", h.Ports)
	case int(h.Addr.Port())+int(h.Ports)-1 > 65535:
		return fmt.Errorf("home ports %d from %d are beyond 65535", h.Ports, h.Addr.Port())
	}
	return nil
}

// home is a Home as the kernel has it.
type home struct {
	addr  [4]byte
	port  uint16
	ports uint16
}

// homesOf are the homes of all shards, in order.
func homesOf(said []Home) ([]home, error) {
	if len(said) == 0 {
		return nil, errors.New("there is no home")
	}
	homes := make([]home, len(said))
	for i, h := range said {
		if err := h.Validate(); err != nil {
			return nil, err
		}
		homes[i] = home{h.Addr.Addr().As4(), h.Addr.Port(), h.Ports}
	}
	return homes, nil
}

// SetHomes is Conn's.
func (c *sockets) SetHomes(said []Home) error {
	homes, err := homesOf(said)
	if err != nil {
		return err
	}
	c.homes = homes
	c.send.discard()
	return nil
}

// shard is the place among the homes of that which chunk seq is sent to.
func (c *sockets) shard(seq uint32) int {
	if len(c.homes) == 1 {
		return 0
	}
	return wire.Shard(seq, len(c.homes))
}

// towards is where chunk seq is sent.
func (c *sockets) towards(seq uint32) (addr [4]byte, port uint16) {
	h := &c.homes[c.shard(seq)]
	return h.addr, h.port + wire.ShardPort(seq, len(c.homes), h.ports)
}

// fromHome reports whether a packet came from one of the homes.
func (c *sockets) fromHome(addr [4]byte, port uint16) bool {
	for i := range c.homes {
		if h := &c.homes[i]; addr == h.addr && port-h.port < h.ports {
			return true
		}
	}
	return false
}
