package steering

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// driver is a NIC that none of the project's machines has: it answers as linux/ethtool.h says that a driver does.
type driver struct {
	queues   uint64
	size     uint32 // of the table; 0: it has no rules
	chooses  bool
	table    map[uint32]flowSpec
	room     int // inserts until it refuses
	filters  ethtool.FeatureState
	switched []bool
}

func (d *driver) ask(r *request, locations []uint32) error {
	if r.Command != ethtoolRings && d.size == 0 {
		return unix.EOPNOTSUPP
	}
	switch r.Command {
	case ethtoolRings:
		r.Data = d.queues
	case unix.ETHTOOL_GRXCLSRLCNT:
		r.RuleCount, r.Data = uint32(len(d.table)), uint64(d.size)
		if d.chooses {
			r.Data |= locationsSpecial
		}
	case unix.ETHTOOL_GRXCLSRLALL:
		if int(r.RuleCount) < len(d.table) {
			return unix.EMSGSIZE
		}
		copy(locations, slices.Sorted(maps.Keys(d.table)))
		r.RuleCount, r.Data = uint32(len(d.table)), uint64(d.size)
	case unix.ETHTOOL_GRXCLSRULE:
		f, ok := d.table[r.Flow.Location]
		if !ok {
			return unix.ENOENT
		}
		r.Flow = f
	case unix.ETHTOOL_SRXCLSRLINS:
		if d.room--; d.room < 0 {
			return unix.ENOSPC
		}
		for at := range d.size {
			if _, taken := d.table[at]; r.Flow.Location == anyLocation && !taken {
				r.Flow.Location = at
			}
		}
		d.table[r.Flow.Location] = r.Flow
	case unix.ETHTOOL_SRXCLSRLDEL:
		if _, ok := d.table[r.Flow.Location]; !ok {
			return unix.ENOENT
		}
		delete(d.table, r.Flow.Location)
	default:
		return fmt.Errorf("command %#x", r.Command)
	}
	return nil
}

func (d *driver) close() error { return nil }

func (d *driver) FeaturesWithState(string) (map[string]ethtool.FeatureState, error) {
	return map[string]ethtool.FeatureState{ntuple: d.filters}, nil
}

func (d *driver) Change(_ string, config map[string]bool) error {
	d.filters.Active = config[ntuple]
	d.switched = append(d.switched, config[ntuple])
	return nil
}

func (d *driver) Close() {}

// steered is which port goes to which queue, by location.
func (d *driver) steered() (all []string) {
	for _, at := range slices.Sorted(maps.Keys(d.table)) {
		f := d.table[at]
		port, _ := f.port()
		all = append(all, fmt.Sprintf("%d: %d to %d", at, port, f.Ring))
	}
	return all
}

func TestSteer(t *testing.T) {
	operators := rule(9701, 9, 6) // an operator's own rule for a port of ours, and one for something else
	other := rule(22, 1, 7)
	on, off, fixed := ethtool.FeatureState{Available: true, Active: true}, ethtool.FeatureState{Available: true}, ethtool.FeatureState{Available: true, NeverChanged: true}
	for _, c := range []struct {
		name     string
		driver   driver
		rules    []flowSpec
		want     Changes
		steered  []string
		after    []string // after Restore
		switched []bool
		err      string
	}{
		{name: "round the queues from the table's end", driver: driver{queues: 2, size: 8, filters: on},
			want: Changes{Rules: 4}, steered: []string{"4: 9703 to 1", "5: 9702 to 0", "6: 9701 to 1", "7: 9700 to 0"}},
		{name: "the driver chooses", driver: driver{queues: 4, size: 8, chooses: true, filters: on},
			want: Changes{Rules: 4}, steered: []string{"0: 9700 to 0", "1: 9701 to 1", "2: 9702 to 2", "3: 9703 to 3"}},
		{name: "beside an operator's", driver: driver{queues: 4, size: 8, filters: fixed}, rules: []flowSpec{operators, other},
			want: Changes{Rules: 3}, steered: []string{"3: 9703 to 3", "4: 9702 to 2", "5: 9700 to 0", "6: 9701 to 9", "7: 22 to 1"}, after: []string{"7: 22 to 1"}},
		{name: "switched on and off", driver: driver{queues: 4, size: 4, filters: off}, want: Changes{Rules: 4, Ntuple: true},
			steered: []string{"0: 9703 to 3", "1: 9702 to 2", "2: 9701 to 1", "3: 9700 to 0"}, switched: []bool{true, false}},
		{name: "no rules", driver: driver{queues: 4}},
		{name: "one queue", driver: driver{queues: 1, size: 8}},
		{name: "no room", driver: driver{queues: 4, size: 5, filters: off}, rules: []flowSpec{{Location: 1}, {Location: 3}}, err: "room for 5 flow rules, and 2 are there",
			steered: []string{"1: 0 to 0", "3: 0 to 0"}, after: []string{"1: 0 to 0", "3: 0 to 0"}},
		{name: "refused half-way", driver: driver{queues: 4, size: 8, room: 2, filters: off}, err: "no space left", switched: []bool{true, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.driver
			if d.room == 0 {
				d.room = 100
			}
			d.table = make(map[uint32]flowSpec)
			for _, f := range c.rules {
				d.table[f.Location] = f
			}
			n := &NIC{name: "eth0", kernel: &d, features: &d}
			var noted Changes
			got, err := n.Steer(9700, 4, func(c Changes) error { noted = c; return nil })
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("got %v, want %q", err, c.err)
			}
			if got != c.want || err == nil && noted != c.want {
				t.Errorf("changes %+v, noted %+v, want %+v", got, noted, c.want)
			}
			if diff := cmp.Diff(c.steered, d.steered()); diff != "" {
				t.Error(diff)
			}
			if again, err := n.Steer(9700, 4, func(Changes) error { return errors.New("again") }); c.err == "" && (err != nil || again != (Changes{})) {
				t.Errorf("again: %+v, %v", again, err)
			}
			if kept, err := n.Steered(9700, 4); err != nil || c.err == "" && c.want.Rules > 0 != (kept == 4) {
				t.Errorf("%d ports are kept on a queue, %v", kept, err)
			}
			if err := n.Restore(9700, 4, got); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(c.after, d.steered()); diff != "" && c.err == "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.switched, d.switched); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNoteRefuses: nothing is changed that could not be written down.
func TestNoteRefuses(t *testing.T) {
	d := driver{queues: 4, size: 8, room: 9, table: make(map[uint32]flowSpec), filters: ethtool.FeatureState{Available: true}}
	n := &NIC{kernel: &d, features: &d}
	full := errors.New("full")
	if _, err := n.Steer(9700, 4, func(Changes) error { return full }); !errors.Is(err, full) || len(d.table) != 0 || len(d.switched) != 0 {
		t.Errorf("error %v, rules %v, switched %v", err, d.steered(), d.switched)
	}
}

// TestVirtual asks the real kernel about interfaces that have no filters: that is no error, and changes nothing.
func TestVirtual(t *testing.T) {
	runtime.LockOSThread() // for good: the thread dies with the test
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "data", NumRxQueues: 4, NumTxQueues: 4}, PeerName: "peer"}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data", "lo"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Open(l.Attrs().Index)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := n.Steer(9700, 64, func(Changes) error { return errors.New("something is about to be changed") })
		if err != nil || changes != (Changes{}) {
			t.Errorf("%s: %+v, error %v", name, changes, err)
		}
		if err := n.Restore(9700, 64, Changes{Rules: 1}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(12345); err == nil {
		t.Error("an interface that is not there was opened")
	}
}
