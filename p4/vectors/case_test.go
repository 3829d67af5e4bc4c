package vectors

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"
)

func load(t *testing.T) []*File {
	t.Helper()
	files, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestEveryEvent: no event is without a case that expects it.
func TestEveryEvent(t *testing.T) {
	missing := maps.Clone(events)
	for _, f := range load(t) {
		for _, c := range f.Cases {
			for _, s := range c.Steps {
				for _, counts := range s.Events {
					for event := range counts {
						delete(missing, event)
					}
				}
			}
		}
	}
	if len(missing) != 0 {
		t.Errorf("no case has %v", slices.Sorted(maps.Keys(missing)))
	}
}

// TestChecksumZero: the case that needs a checksum of 0 still has one.
func TestChecksumZero(t *testing.T) {
	for _, f := range load(t) {
		for _, c := range f.Cases {
			if !strings.HasPrefix(c.Name, "a UDP checksum that comes to 0") {
				continue
			}
			x, err := f.Fixture.resolve(&c.Steps[len(c.Steps)-1])
			if err != nil {
				t.Fatal(err)
			}
			if got := binary.BigEndian.Uint16(x.out[0].frame.Bytes()[ethernetSize+ipv4Size+6:]); got != 0xffff {
				t.Errorf("checksum is %#x: choose the last element anew", got)
			}
			return
		}
	}
	t.Error("the case is gone")
}

func TestParseRefuses(t *testing.T) {
	const fixture = `"fixture": {"hosts": {"w0": {"port": 1, "address": "10.0.0.1", "mac": "02:00:00:00:00:01"}}}`
	for _, c := range []struct{ name, cases, want string }{
		{"a misspelt field", `[{"name": "x", "steps": [{"in": {"from": "w0", "to": "w0", "playload": "x"}}]}]`, `unknown field "playload"`},
		{"an unknown host", `[{"name": "x", "steps": [{"in": {"from": "w9"}}]}]`, `from "w9" is no host`},
		{"an unknown job", `[{"name": "x", "steps": [{"in": {"from": "w0", "job": "A", "seq": 1}}]}]`, `job "A" does not exist`},
		{"an unknown event", `[{"name": "x", "steps": [{"in": {"from": "w0", "to": "w0"}, "events": {"": {"eaten": 1}}}]}]`, `event "eaten" does not exist`},
		{"an output that leaves nowhere", `[{"name": "x", "steps": [{"in": {"from": "w0", "to": "w0"}, "out": [{}]}]}]`, "it leaves by no port"},
		{"no destination", `[{"name": "x", "steps": [{"in": {"from": "w0", "dst": "::1"}}]}]`, "no destination address"},
		{"a number too large", `[{"name": "x", "steps": [{"in": {"from": "w0", "to": "w0", "ttl": 256}}]}]`, "0x100 does not fit"},
		{"two cases of one name", `[{"name": "x", "steps": []}, {"name": "x", "steps": []}]`, "a name of its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse([]byte(`{` + fixture + `, "cases": ` + c.cases + `}`))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
