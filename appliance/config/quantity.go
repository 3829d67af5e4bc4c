package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"spillway/p4/pipeline"
)

// Size is a number of bytes, written with a unit: 64MiB.
type Size uint64

// The units of a size, largest first.
var sizeUnits = []struct {
	suffix string
	bytes  uint64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String is the size with the largest unit that leaves it whole.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && uint64(s)%u.bytes == 0 {
			return strconv.FormatUint(uint64(s)/u.bytes, 10) + u.suffix
		}
	}
	return "0"
}

// MarshalText writes what Parse reads.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a whole number and a unit; 0 alone needs none.
func (s *Size) UnmarshalText(text []byte) error {
	if string(text) == "0" {
		*s = 0
		return nil
	}
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(string(text), u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || strings.HasPrefix(digits, "+") || n > 1<<63/u.bytes {
			break
		}
		*s = Size(n * u.bytes)
		return nil
	}
	return fmt.Errorf("%q is not a size: want a whole number and one of B, KiB, MiB, GiB", text)
}

// PortRange are UDP ports, the first to the last.
type PortRange struct{ First, Last uint16 }

// Len is how many there are.
func (r PortRange) Len() int { return int(r.Last) - int(r.First) + 1 }

// Contains reports whether the port is one of them.
func (r PortRange) Contains(port uint16) bool { return port >= r.First && port <= r.Last }

func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// MarshalText writes what Parse reads.
func (r PortRange) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads FIRST-LAST.
func (r *PortRange) UnmarshalText(text []byte) error {
	first, last, ok := strings.Cut(string(text), "-")
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	if !ok || errA != nil || errB != nil {
		return fmt.Errorf("%q is not a range of ports: want FIRST-LAST, each up to 65535", text)
	}
	*r = PortRange{uint16(a), uint16(b)}
	return nil
}

// MAC is an Ethernet address.
type MAC pipeline.MAC

func (m MAC) String() string { return pipeline.MAC(m).String() }

// MarshalText writes what Parse reads.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads six bytes in hexadecimal with colons between.
func (m *MAC) UnmarshalText(text []byte) error {
	address, err := net.ParseMAC(string(text))
	if err != nil || len(address) != len(m) {
		return fmt.Errorf("%q is not an Ethernet address: want one like 02:00:00:00:00:01", text)
	}
	copy(m[:], address)
	return nil
}
