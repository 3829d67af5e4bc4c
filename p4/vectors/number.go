package vectors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"spillway/wire"
)

// Number is an unsigned number of a vector: a JSON number, or a string in the
// syntax of a Go literal ("0xfeedbeef"), which is how bitmaps and cookies read best.
type Number uint64

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseUint(strings.Trim(string(b), `"`), 0, 64)
	if err != nil {
		return fmt.Errorf("number %s: %w", b, err)
	}
	*n = Number(v)
	return nil
}

// MAC is an Ethernet address.
type MAC [6]byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *MAC) UnmarshalText(text []byte) error {
	a, err := net.ParseMAC(string(text))
	if err != nil {
		return err
	}
	if len(a) != len(m) {
		return fmt.Errorf("ethernet address %s has %d bytes", text, len(a))
	}
	copy(m[:], a)
	return nil
}

func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// named is a number that vectors call by name where it has one.
func named(b []byte, names map[string]uint8) (uint8, error) {
	if name, err := strconv.Unquote(string(b)); err == nil {
		if v, ok := names[name]; ok {
			return v, nil
		}
	}
	var n Number
	if err := n.UnmarshalJSON(b); err != nil || n > 255 {
		return 0, fmt.Errorf("%s is neither a name nor a byte", b)
	}
	return uint8(n), nil
}

// Type is a packet type by name ("DATA"), or by number where it has none.
type Type wire.Type

// UnmarshalJSON implements json.Unmarshaler.
func (t *Type) UnmarshalJSON(b []byte) error {
	v, err := named(b, map[string]uint8{
		"DATA": uint8(wire.Data), "RESULT": uint8(wire.Result), "SOLICIT": uint8(wire.Solicit),
		"PENDING": uint8(wire.Pending), "PROBE": uint8(wire.Probe),
	})
	*t = Type(v)
	return err
}

// Op is an operation by name ("SUM"), or by number where it has none.
type Op wire.Op

// UnmarshalJSON implements json.Unmarshaler.
func (o *Op) UnmarshalJSON(b []byte) error {
	v, err := named(b, map[string]uint8{"SUM": uint8(wire.Sum), "MAX": uint8(wire.Max), "MIN": uint8(wire.Min)})
	*o = Op(v)
	return err
}

// Flags are a list of names (["RESEND", "ECN"]), or a number where one has none.
type Flags wire.Flags

// UnmarshalJSON implements json.Unmarshaler.
func (f *Flags) UnmarshalJSON(b []byte) error {
	names := map[string]uint8{
		"RESEND": uint8(wire.Resend), "SATURATED": uint8(wire.Saturated),
		"PARTIAL": uint8(wire.Partial), "ECN": uint8(wire.ECN),
	}
	if !bytes.HasPrefix(b, []byte("[")) {
		v, err := named(b, nil)
		*f = Flags(v)
		return err
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*f = 0
	for _, name := range list {
		v, ok := names[name]
		if !ok {
			return fmt.Errorf("flag %q does not exist", name)
		}
		*f |= Flags(v)
	}
	return nil
}

// Elements are the elements of a packet: a list of all of them, or a ramp,
// {"first": 10, "step": 1, "count": 32, "set": {"3": 2147483647}}, whose element i
// is first + i·step but for those that set names. count is 32 where it is not given.
type Elements []int32

// UnmarshalJSON implements json.Unmarshaler.
func (e *Elements) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("[")) {
		var list []int32
		err := json.Unmarshal(b, &list)
		*e = list
		return err
	}
	ramp := struct {
		First, Step int32
		Count       int
		Set         map[int]int32
	}{Count: wire.MinElements}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&ramp); err != nil {
		return err
	}
	*e = make(Elements, ramp.Count)
	for i := range *e {
		(*e)[i] = ramp.First + int32(i)*ramp.Step
	}
	for i, v := range ramp.Set {
		if i < 0 || i >= ramp.Count {
			return fmt.Errorf("element %d of %d is set", i, ramp.Count)
		}
		(*e)[i] = v
	}
	return nil
}
