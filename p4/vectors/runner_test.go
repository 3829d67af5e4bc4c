package vectors

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// spoiler is a target that answers with what has to come out, changed. It shows
// what the runner notices.
type spoiler struct {
	want   []Emission
	spoil  func([]Emission) []Emission
	events [EventsPerJob]uint64
	count  uint64 // how much the event moves by
}

func (s *spoiler) Configure(*Fixture) error { return nil }

func (s *spoiler) Inject(uint16, []byte) ([]Emission, error) {
	s.events[events["passed"]] += s.count
	var out []Emission
	for _, e := range s.want {
		out = append(out, Emission{Port: e.Port, Frame: slices.Clone(e.Frame)})
	}
	return s.spoil(out), nil
}

func (s *spoiler) Events(index uint8) ([]uint64, error) {
	if index == 0 {
		return make([]uint64, EventsPerJob), nil
	}
	return s.events[:], nil
}
func (s *spoiler) Preempted(uint8) (uint64, error)                    { return 0, nil }
func (s *spoiler) Saturated(uint8) (uint64, error)                    { return 0, nil }
func (s *spoiler) Forwarded(netip.Prefix) (Traffic, error)            { return Traffic{}, nil }
func (s *spoiler) Member(uint16, netip.Addr, uint16) (Traffic, error) { return Traffic{}, nil }

const spoiled = `{
  "fixture": {
    "hosts": {
      "w0": {"port": 1, "address": "10.0.0.1", "mac": "02:00:00:00:00:01"},
      "home": {"port": 9, "address": "10.0.0.9", "mac": "02:00:00:00:00:09"}
    },
    "jobs": {"A": {"id": 7, "index": 1, "home": "home", "worker_port": 9801, "members": [{"host": "w0", "bits": 1}]}}
  },
  "cases": [{"name": "x", "steps": [
    {"in": {"from": "w0", "job": "A", "seq": 1, "elements": {"first": 5}}, "out": [{"host": "home"}], "events": {"A": {"passed": 1}}}
  ]}]
}`

// TestRunnerNotices: one wrong bit, copy or count is enough, and is named.
func TestRunnerNotices(t *testing.T) {
	change := func(offset int) func([]Emission) []Emission {
		return func(out []Emission) []Emission {
			out[0].Frame[offset] ^= 1
			return out
		}
	}
	for _, c := range []struct {
		name  string
		spoil func([]Emission) []Emission
		count uint64
		want  string
	}{
		{"nothing", func(out []Emission) []Emission { return out }, 1, ""},
		{"Ethernet destination", change(5), 1, "eth.dst is 0x020000000008, not 0x020000000009"},
		{"IP checksum", change(25), 1, "ip.checksum is"},
		{"UDP checksum", change(41), 1, "udp.checksum is"},
		{"bitmap", change(65), 1, "bitmap is 0x0000000000000000, not 0x0000000000000001"},
		{"an element", change(70 + 4*31 + 3), 1, "element 31 is 0x00000004, not 0x00000005"},
		{"a byte short", func(out []Emission) []Emission { out[0].Frame = out[0].Frame[:197]; return out }, 1, "length is 197, not 198"},
		{"by the wrong port", func(out []Emission) []Emission { out[0].Port = 3; return out }, 1, "nothing left by port 9"},
		{"nothing at all", func([]Emission) []Emission { return nil }, 1, "nothing left by port 9"},
		{"one copy too many", func(out []Emission) []Emission { return append(out, out[0]) }, 1, "nothing had to leave"},
		{"not counted", func(out []Emission) []Emission { return out }, 0, "event passed of A: moved by 0, not by 1"},
		{"counted twice", func(out []Emission) []Emission { return out }, 2, "event passed of A: moved by 2, not by 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := parse([]byte(spoiled))
			if err != nil {
				t.Fatal(err)
			}
			x, err := file.Fixture.resolve(&file.Cases[0].Steps[0])
			if err != nil {
				t.Fatal(err)
			}
			target := &spoiler{want: []Emission{{Port: x.out[0].port, Frame: x.out[0].frame.Bytes()}}, spoil: c.spoil, count: c.count}
			err = file.Run(target, &file.Cases[0])
			if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
