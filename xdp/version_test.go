package xdp

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/version.txt, after the version in description.go was raised")

// TestVersions fails when the compiled programs or the layout of the maps change and their versions do not: the next spillwayd would
// take what it finds for its own, or put an older program in place of a newer one.
func TestVersions(t *testing.T) {
	spec, err := loadAggregator()
	if err != nil {
		t.Fatal(err)
	}
	var layout []string
	for _, name := range slices.Sorted(maps.Keys(spec.Maps)) {
		m := spec.Maps[name]
		if !strings.HasPrefix(name, ".") {
			layout = append(layout, fmt.Sprintf("map %s: %v, key %d bytes, value %d bytes", name, m.Type, m.KeySize, m.ValueSize))
		}
	}
	for _, value := range []any{
		aggregatorJob{}, aggregatorMemberKey{}, aggregatorMember{}, aggregatorReplica{}, aggregatorSlot{}, aggregatorActivity{}, aggregatorJobCounters{}, aggregatorJobProgress{}, aggregatorRankLateness{}, aggregatorJobLateness{}, aggregatorAcquaintance{}, aggregatorJobKnown{}, aggregatorUplink{}, aggregatorParentKey{}, aggregatorBelow{},
		description{}, attachmentRecord{},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(value)) {
			if f.Type.Size() > 0 {
				layout = append(layout, fmt.Sprintf("%T.%s at %d: %v", value, f.Name, f.Offset, f.Type))
			}
		}
	}
	layout = append(layout, "counters "+strings.Join(shared.names, " "))
	digest := sha256.New()
	for _, name := range []string{"aggregator", "clock", "replicator"} {
		p := spec.Programs[name]
		for _, ins := range p.Instructions {
			// Not the constants that Load sets, and not the lines of the source.
			fmt.Fprintf(digest, "%v %d %v %s %s\n", ins.OpCode, ins.Offset, ins.Constant, ins.Reference(), registers(ins.Dst, ins.Src))
		}
	}
	got := fmt.Sprintf("layout %d\n%s\nprogram %d\n%x\n", layoutVersion, strings.Join(layout, "\n"), programVersion, digest.Sum(nil))
	golden := filepath.Join("testdata", "version.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("what is pinned changes: raise programVersion in description.go, or layoutVersion if a map changes, and run `go test ./xdp -run TestVersions -update`:\n%s", diff)
	}
}

func registers(dst, src fmt.Stringer) string { return dst.String() + " " + src.String() }

// TestPinNames holds the names that are pinned and adopted to the compiled program's maps and programs.
func TestPinNames(t *testing.T) {
	spec, err := loadAggregator()
	if err != nil {
		t.Fatal(err)
	}
	compiled := slices.DeleteFunc(slices.Sorted(maps.Keys(spec.Maps)), func(name string) bool { return strings.HasPrefix(name, ".") })
	if want := slices.Sorted(maps.Keys(shared.maps())); !slices.Equal(compiled, want) {
		t.Errorf("the program has the maps %v, pinned are %v", compiled, want)
	}
	if got, want := slices.Sorted(maps.Keys(spec.Programs)), slices.Sorted(maps.Keys(shared.programs())); !slices.Equal(got, want) {
		t.Errorf("the compiled programs are %v, pinned are %v", got, want)
	}
	seen := make(map[*ebpf.Map]bool)
	for name, m := range shared.maps() {
		if seen[*m] || *m == nil {
			t.Errorf("map %s is another one, or none", name)
		}
		seen[*m] = true
	}
}
