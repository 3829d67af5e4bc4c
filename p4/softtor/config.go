package softtor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"spillway/p4/softtor/dataplane"
	"spillway/wire"
)

// Config is what a software ToR must be told; everything else comes over P4Runtime.
type Config struct {
	// Listen is where the P4Runtime server listens: an address and port of the loopback interface, for there is no authentication (port 0
	// takes a free one), or unix:PATH, a socket for its owner only.
	Listen string `json:"listen"`
	// Anybody lets Listen be any address: whoever reaches it may program the ToR. That is for a management network which only controllers are on.
	Anybody bool `json:"anybody,omitempty"`
	// DeviceID is the P4Runtime device id, not 0.
	DeviceID uint64 `json:"device_id"`
	// Slots is how many chunks can be in it at a time, and Elements the longest that can be, a multiple of 32. 0 is what a Tofino has.
	Slots    uint32 `json:"slots,omitempty"`
	Elements int    `json:"elements,omitempty"`
	// Ports are its ports.
	Ports []Port `json:"ports"`

	// Ready, when it is set, is called once the server listens, with its address.
	Ready func(net.Addr) `json:"-"`
}

// Port is a port of the ToR: the number it has in tables, and the interface that it is.
type Port struct {
	Port      uint16 `json:"port"`
	Interface string `json:"interface"`
}

// maxInterfaceName is the length of the kernel's longest (IFNAMSIZ, less the terminator).
const maxInterfaceName = 15

// maxSocketPath is the length of the longest path of a socket.
const maxSocketPath = 107

// ReadConfig reads a configuration and validates it. Fields that are not known are errors, as is anything after it.
func ReadConfig(r io.Reader) (Config, error) {
	var c Config
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Config{}, errors.New("configuration: there is something after its end")
	}
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	return c.withDefaults(), nil
}

// ReadConfigFile reads a configuration from a file.
func ReadConfigFile(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	c, err := ReadConfig(f)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c Config) withDefaults() Config {
	if c.Slots == 0 {
		c.Slots = dataplane.DefaultSlots
	}
	if c.Elements == 0 {
		c.Elements = dataplane.DefaultElements
	}
	return c
}

// Validate says everything that is wrong with the configuration, joined into one error. It does not look at the machine.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, _, err := c.address(); err != nil {
		wrong("listen: %w", err)
	}
	if c.DeviceID == 0 {
		wrong("device_id: 0 is none")
	}
	if c.Slots > 0xffff {
		wrong("slots: %d, the most is %d", c.Slots, 0xffff)
	}
	if c.Elements < wire.MinElements || c.Elements > wire.MaxElements || c.Elements%wire.ElementStep != 0 {
		wrong("elements: %d is not a multiple of %d from %d to %d", c.Elements, wire.ElementStep, wire.MinElements, wire.MaxElements)
	}
	if len(c.Ports) == 0 {
		wrong("ports: there are none")
	}
	numbers, interfaces := map[uint16]int{}, map[string]int{}
	for n, p := range c.Ports {
		if p.Port > dataplane.MaxPort {
			wrong("ports[%d].port: %d, the highest is %d", n, p.Port, dataplane.MaxPort)
		}
		if p.Interface == "" || len(p.Interface) > maxInterfaceName || strings.ContainsAny(p.Interface, "/ \t\n") {
			wrong("ports[%d].interface: %q is no interface's name", n, p.Interface)
		}
		if first, ok := numbers[p.Port]; ok {
			wrong("ports[%d].port: %d is that of ports[%d] too", n, p.Port, first)
		}
		if first, ok := interfaces[p.Interface]; ok {
			wrong("ports[%d].interface: %s is that of ports[%d] too", n, p.Interface, first)
		}
		numbers[p.Port], interfaces[p.Interface] = n, n
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}

// address is what to listen on.
func (c Config) address() (network, address string, err error) {
	if path, ok := strings.CutPrefix(c.Listen, "unix:"); ok {
		if !filepath.IsAbs(path) || len(path) > maxSocketPath {
			return "", "", fmt.Errorf("socket %q: not an absolute path of at most %d bytes", path, maxSocketPath)
		}
		return "unix", path, nil
	}
	ap, err := netip.ParseAddrPort(c.Listen)
	if err != nil {
		return "", "", fmt.Errorf("%q is neither ADDRESS:PORT nor unix:PATH", c.Listen)
	}
	if !ap.Addr().IsLoopback() && !c.Anybody {
		return "", "", fmt.Errorf("%s is not of the loopback interface, and the server asks nobody who they are: where only controllers can reach it, set anybody", ap)
	}
	return "tcp", ap.String(), nil
}
