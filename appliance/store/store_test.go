package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/ledger"
)

func openStore(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// sample is a job that has everything.
func sample(name string) Job {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return Job{
		Spec: &v1.JobSpec{Name: name, Workers: 2, Elements: 256, Window: 255, Tor: v1.TorUse_TOR_USE_PRIVATE, Grace: durationpb.New(time.Minute)},
		Allocation: ledger.Allocation{
			ID: 3, Places: []ledger.Place{{Node: "a", First: 512}, {Node: "b", First: 0}}, Slots: 512, ClassElements: 256, WorkerPort: 9802, Group: netip.MustParseAddr("239.77.0.2"),
			Region: &ledger.Region{Base: 64, Slots: 64, Period: 256},
		},
		Created: now, Since: now, Draining: true, Generation: 300, Moves: 2,
		Running: &Generation{
			Cookie: 0xfeedbeef, Key: 7, Through: true, Multicast: true, Grouped: true,
			Homes: []Home{
				{
					Node: "a", Addr: netip.MustParseAddrPort("10.77.0.254:9696"), Ports: 32, Port: 1, MAC: [6]byte{2, 1},
					Ways: []Way{{[]byte{2, 0, 0, 0, 0, 1}, 4}, {[]byte{2, 0, 0, 0, 0, 2}, 4}},
				},
				{Node: "b", Addr: netip.MustParseAddrPort("10.77.0.252:9696"), Ports: 16, Ways: []Way{{[]byte{2, 0, 0, 0, 0, 1}, 7}, {nil, 8}}},
			},
			Members: []Member{
				{Addr: netip.MustParseAddr("10.77.0.1"), Port: 2, Since: now, Description: "host a"},
				{Addr: netip.MustParseAddr("10.77.0.2"), Port: 3, Since: now, Left: true},
			},
			Before: []Part{{298, 1}, {299, 0xffffffff}},
		},
	}
}

var sameAddresses = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), protocmp.Transform(),
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := openStore(t, path)
	if _, known, err := s.Limits(); known || err != nil {
		t.Errorf("limits of a new file: %v, %v", known, err)
	}
	plain := Job{Spec: &v1.JobSpec{Name: "plain", Workers: 1}, Allocation: ledger.Allocation{Places: []ledger.Place{{}}}}
	for _, job := range []Job{sample("b"), sample("a"), plain} {
		if err := s.Put(job); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Delete("b"), s.Delete("never was"), s.PutLimits(Limits{Slots: 32768, Elements: 32}), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, path)
	jobs, err := s.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Job{sample("a"), plain}, jobs, sameAddresses); diff != "" {
		t.Error(diff)
	}
	if limits, known, err := s.Limits(); limits != (Limits{Slots: 32768, Elements: 32}) || !known || err != nil {
		t.Errorf("limits %v, %v, %v", limits, known, err)
	}
	if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("a file with cookies in it has mode %v, %v", stat.Mode(), err)
	}
}

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	openStore(t, path)
	_, err := Open(path)
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("%v", err)
	}
	if want := fmt.Sprintf("process %d (", os.Getpid()); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "systemctl stop spillwayd") {
		t.Errorf("the text does not say who has it (%s) and what to do: %v", want, err)
	}
}

func TestNewer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := openStore(t, path)
	if err := s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keySchema, []byte("2")) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	var newer *NewerError
	if !errors.As(err, &newer) || newer.Has != 2 || !strings.Contains(err.Error(), "install the newer version") {
		t.Errorf("%v", err)
	}
}

func TestNoDirectory(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "not", "there")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestDamage breaks a file in every place: it is refused with what to do, or read as it was, and the process lives.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	s := openStore(t, path)
	for i := range 40 {
		if err := s.Put(sample(fmt.Sprintf("job-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	try := func(name string, damaged []byte) {
		path := filepath.Join(dir, "damaged.db")
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if err == nil {
			_, err = s.Jobs()
			if err := s.Close(); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
		}
		if err == nil {
			return
		}
		refused++
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: %v", name, err)
		}
	}
	page := os.Getpagesize()
	for offset := 0; offset < len(good); offset += page {
		for name, b := range map[string]byte{"zeros": 0, "ones": 0xff} {
			damaged := append([]byte(nil), good...)
			for i := range min(page, len(damaged)-offset) {
				damaged[offset+i] = b
			}
			try(fmt.Sprintf("page %d of %s", offset/page, name), damaged)
		}
		if offset > 0 {
			try(fmt.Sprintf("cut off at page %d", offset/page), good[:offset])
		}
		// The number of elements on the page.
		damaged := append([]byte(nil), good...)
		binary.NativeEndian.PutUint16(damaged[offset+10:], 0x7fff)
		try(fmt.Sprintf("page %d with too many elements", offset/page), damaged)
	}
	try("another file", []byte(strings.Repeat("not a database ", 2000)))
	if refused < 5 {
		t.Errorf("only %d kinds of damage were noticed", refused)
	}
}

// TestUnknownFields holds that an older daemon reads what a newer one has added to.
func TestUnknownFields(t *testing.T) {
	text, err := json.Marshal(sample("a"))
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(text), `{"spec":{`, `{"colour":"red","spec":{"shape":{"round":true},`, 1)
	got, err := Decode([]byte(newer))
	if err != nil {
		t.Fatalf("%v in %s", err, newer)
	}
	if diff := cmp.Diff(sample("a"), got, sameAddresses); diff != "" {
		t.Error(diff)
	}
}

// FuzzRecord holds that whatever is in a file is refused, or read and written again the same.
func FuzzRecord(f *testing.F) {
	text, err := json.Marshal(sample("a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"spec":{"name":"x","workers":1},"running":{"members":[{}]}}`))
	f.Add([]byte(`{"spec":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		job, err := Decode(text)
		if err != nil {
			return
		}
		written, err := json.Marshal(job)
		if err != nil {
			return // a value that JSON reads and cannot write; Put says so
		}
		again, err := Decode(written)
		if err != nil {
			t.Fatalf("%v in %s", err, written)
		}
		if !proto.Equal(job.Spec, again.Spec) || job.Generation != again.Generation || (job.Running == nil) != (again.Running == nil) {
			t.Errorf("%s became %s", text, written)
		}
	})
}

// TestOldRecord reads a job as a daemon has written it that knew of one node only; and such a daemon can read what this one writes of a job with one home.
func TestOldRecord(t *testing.T) {
	const old = `{"spec":{"name":"train","workers":1},"allocation":{"id":3,"first":512,"slots":16,"class_elements":256,"worker_port":9802,"group":"239.77.0.2"},` +
		`"created":"2026-01-02T03:04:05Z","since":"2026-01-02T03:04:05Z","generation":7,` +
		`"running":{"cookie":5,"key":6,"home":"10.77.0.254:9696","home_ports":32,"through":true,"home_port":1,"home_mac":[2,1,0,0,0,0],"multicast":true,` +
		`"members":[{"addr":"10.77.0.1","mac":"AgAAAAAB","ifindex":4,"port":2,"since":"2026-01-02T03:04:05Z"}]}}`
	job, err := Decode([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Job{
		Spec:       &v1.JobSpec{Name: "train", Workers: 1},
		Allocation: ledger.Allocation{ID: 3, Slots: 16, ClassElements: 256, Places: []ledger.Place{{First: 512}}, WorkerPort: 9802, Group: netip.MustParseAddr("239.77.0.2")},
		Created:    since, Since: since, Generation: 7,
		Running: &Generation{
			Cookie: 5, Key: 6, Through: true, Multicast: true, Grouped: true,
			Homes:   []Home{{Addr: netip.MustParseAddrPort("10.77.0.254:9696"), Ports: 32, Port: 1, MAC: [6]byte{2, 1}, Ways: []Way{{[]byte{2, 0, 0, 0, 0, 1}, 4}}}},
			Members: []Member{{Addr: netip.MustParseAddr("10.77.0.1"), Port: 2, Since: since}},
		},
	}
	if diff := cmp.Diff(want, job, sameAddresses); diff != "" {
		t.Error(diff)
	}
	written, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	var was, is map[string]any
	if err := errors.Join(json.Unmarshal([]byte(old), &was), json.Unmarshal(written, &is)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Error(diff)
	}
	job.Running.Homes = nil
	if _, err := json.Marshal(job); err == nil {
		t.Error("a generation without a home was written")
	}
	if _, err := Decode([]byte(strings.Replace(string(written), `"members":[`, `"more_homes":[{"node":"b","addr":"10.77.0.250:9696","ports":32,"ways":[]}],"members":[`, 1))); err == nil ||
		!strings.Contains(err.Error(), `home "b" knows the way to 0 of 1 members`) {
		t.Errorf("%v", err)
	}
}
