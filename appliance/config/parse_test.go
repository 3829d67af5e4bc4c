package config

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the golden files again")

// compare is equality of what configurations say, wherever in their files they say it.
var compare = cmp.Options{cmpopts.IgnoreUnexported(Config{}), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})}

// least is the shortest configuration that can be.
const least = "interfaces: [{name: eth0, address: 10.0.0.1}]\n"

func TestLeast(t *testing.T) {
	got, err := Parse("f", []byte(least))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Interfaces = []Interface{{"eth0", netip.MustParseAddr("10.0.0.1")}}
	want.Jobs.Tor = TorNone
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Error(diff)
	}
}

func TestEverything(t *testing.T) {
	path := filepath.Join("testdata", "everything.yaml")
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr
	want := &Config{
		Name:       "rack7-a",
		Interfaces: []Interface{{"enp1s0f0", addr("10.0.0.1")}, {"enp1s0f1", addr("10.0.1.1")}},
		Aggregator: Aggregator{Pin: "/sys/fs/bpf/rack7", Ports: 8, Slots: Slots{0, 1024, 2048, 512}, MaxJobs: 64, Upgrade: true},
		Jobs: Jobs{
			Window: 127, Elements: 256, Tor: TorShared, TorSlots: 128, Publication: Unicast, Grace: 90 * time.Second, LostAfter: 2 * time.Second,
			Groups: netip.MustParsePrefix("239.78.0.0/20"), WorkerPorts: PortRange{20000, 20999},
			Quota: Quota{Workers: 32, Window: 255, Memory: 64 << 20, TorSlots: 1024, Jobs: 16},
		},
		API: API{
			Socket: "/run/spillway/s.sock", Group: "operators", Listen: "10.0.0.1:9690",
			TLS:    &TLS{"/etc/spillway/tls/server.crt", "/etc/spillway/tls/server.key", "/etc/spillway/tls/ca.crt"},
			Limits: Limits{Connections: 256, CallsPerSecond: 50, Message: 512 << 10},
		},
		State: "/var/lib/spillway/rack7.db",
		Switch: &Switch{
			Target: "10.0.0.250:9559", Device: 7, Program: BMv2, Election: 3, Address: addr("10.0.0.253"), HomePort: 64,
			TLS: &TLS{CA: "/etc/spillway/tor-ca.pem"}, SharedSlots: 1024, FloodGroup: 4096, Check: 10 * time.Second,
			Hosts: []Host{{addr("10.0.0.11"), MAC{2, 0, 0, 0, 0, 0x11}, 1}, {addr("10.0.0.12"), MAC{2, 0, 0, 0, 0, 0x12}, 2}},
		},
		Log: Log{Level: "debug", Format: "json"},
	}
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Error(diff)
	}
	if got.API.PlaintextAllowed() || got.NodeName() != "rack7-a" {
		t.Errorf("plaintext %v, name %s", got.API.PlaintextAllowed(), got.NodeName())
	}
}

// TestProblems holds the message of every mistake to a golden file: each testdata/wrong/NAME.yaml to NAME.txt.
func TestProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/wrong/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(path), text)
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v", err)
			}
			golden := strings.TrimSuffix(path, ".yaml") + ".txt"
			got := err.Error() + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOne has one mistake each, in an otherwise good file, and what must be said of it: line 2 is the mistake's.
func TestOne(t *testing.T) {
	for text, want := range map[string]string{
		"jobs: {grace: 10}":                      `f:2: jobs.grace: "10" is not a duration; write 10s, or 10m if minutes are meant`,
		"jobs: {grace: 10min}":                   `f:2: jobs.grace: "10min" is not a duration; write one such as 10m`,
		"jobs: {windw: 10}":                      `f:2: jobs.windw: there is no such key; did you mean "window"?`,
		"window: 10":                             `f:2: window: there is no such key; did you mean "jobs.window" or "jobs.quota.window"?`,
		"jobs: {window: lots}":                   `f:2: jobs.window: "lots" is not a whole number; write one such as 64`,
		"jobs: {window: 2.5}":                    `f:2: jobs.window: "2.5" is not a whole number; write one such as 64`,
		"jobs: {window: 0}":                      `f:2: jobs.window: 0 is out of range; write 1 to 1048576`,
		"jobs: {tor_slots: 100}":                 `f:2: jobs.tor_slots: 100 is not a power of two; write 64 or 128`,
		"jobs: {tor: privat}":                    `f:2: jobs.tor: "privat" is none of the choices; write private (the choices are none, private and shared)`,
		"jobs: {tor: shared}":                    `f:2: jobs.tor: jobs would be shared in a ToR, and there is none; write none, or describe the ToR in a section switch`,
		"jobs: {quota: {memory: 64MB}}":          `f:2: jobs.quota.memory: "64MB" is not a size; write one such as 64MiB`,
		"jobs: {worker_ports: 9700-9799}":        `f:2: jobs.worker_ports: 9700-9799 overlaps the homes' ports, 9696-9759; write a range beside it, such as 9800-10055`,
		"jobs: {groups: 10.0.0.0/8}":             `f:2: jobs.groups: 10.0.0.0/8 is not a network of IPv4 multicast groups; write one within 224.0.0.0/4, such as 239.77.0.0/16`,
		"jobs: {groups: 239.77.1.0/16}":          `f:2: jobs.groups: 239.77.1.0/16 has bits beyond its length; write 239.77.0.0/16`,
		"jobs: [1]":                              `f:2: jobs: a list, where keys should be; write "window", "elements", "tor", "tor_slots", "publication", "grace", "lost_after", "groups", "worker_ports" and "quota" below it, each on a line of its own, as needed`,
		"state: [1]":                             `f:2: state: a list, where one value should be; write one value, such as a text`,
		"state: db":                              `f:2: state: "db" is relative, and it is not said to what; write it from / on, such as /var/lib/spillway/state.db`,
		"aggregator: {upgrade: yes}":             `f:2: aggregator.upgrade: "yes" is not true or false; write one such as false`,
		"aggregator: {ports: 70000}":             `f:2: aggregator.ports: "70000" is not a whole number from 0 to 65535; write one such as 64`,
		"aggregator: {slots: {128: 4}}":          `f:2: aggregator.slots.128: there is no such key; the keys in aggregator.slots are "32", "64", "256" and "832"`,
		"api: {listen: 10.0.0.1:9690}":           `f:2: api.listen: workers would reach 10.0.0.1:9690 without TLS; write tls: {certificate: FILE, key: FILE, ca: FILE} (spillctl certs makes some for a lab), or, where everybody who can reach the port may take part in every job, plaintext: anyone-who-reaches-this-port-may-join`,
		"api: {listen: ':9690', plaintext: yes}": `f:2: api.plaintext: "yes" is not the sentence that allows it; write tls certificates instead, or, where everybody who can reach the port may take part in every job, plaintext: anyone-who-reaches-this-port-may-join`,
		"api: {listen: localhost:9690, plaintext: anyone-who-reaches-this-port-may-join}": `f:2: api.listen: "localhost" is not an address; write an address of this host in numbers, such as 10.0.0.1:9690, or off`,
		"metrics: {listen: 9691}":  `f:2: metrics.listen: "9691" is not an address and a port; write ADDRESS:PORT, such as 127.0.0.1:9691, or off`,
		"switch:":                  `f:2: switch: has no value; give it one, such as its keys, or leave the key out`,
		"log: {level: warning}":    `f:2: log.level: "warning" is none of the choices; write debug, info, warn or error`,
		"log: {level: *x}":         `f:2: not YAML: unknown anchor 'x' referenced; write "key: value", indented by spaces`,
		"log: {level: !!str info}": `f:2: log.level: a tag (!!str); write the value without it`,
		"interfaces: []":           `f:2: interfaces: is there twice, first in line 1; remove one`,
		"\tstate: /x":              `f:2: not YAML: found character that cannot start any token; write "key: value", indented by spaces`,
		"---\nstate: /x":           `f:2: there is a second document, or something else after the first; remove it`,
		"<<: {state: /x}":          `f:2: <<: there is no such key; the keys at the top are "name", "interfaces", "aggregator", "jobs", "api", "metrics", "state", "switch", "cluster" and "log"`,
		"name: 'rack 7'":           `f:2: name: "rack 7" is not a name; write 1 to 64 letters, digits, '-' or '.', such as rack7-a`,
		"API: {socket: /x}":        `f:2: API: there is no such key; did you mean "api"?`,
		"api: {socket: /run/../x}": `f:2: api.socket: "/run/../x" is a detour; write /x`,
		"aggregator: {slots: {32: 0, 64: 0, 256: 0, 832: 0}}": `f:2: aggregator.slots: there are no slots at all; give at least one class some`,
	} {
		_, err := Parse("f", []byte(least+text+"\n"))
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestNoFile(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"":                             "f: interfaces: the aggregator has no interface; ",
		"# nothing\n":                  "f: interfaces: the aggregator has no interface; ",
		"just a text":                  `f:1: "just a text", where keys should be; `,
		strings.Repeat("#", maxText+1): "f:1: longer than 1048576 bytes; ",
	} {
		if _, err := Parse("f", []byte(text)); err == nil || !strings.HasPrefix(strings.Replace(err.Error(), "f:1: interfaces", "f: interfaces", 1), want) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}

func TestSuggestions(t *testing.T) {
	keys := keysOf(reflect.TypeFor[Jobs]())
	for name, want := range map[string]string{"Window": "window", "torSlots": "tor_slots", "worker-ports": "worker_ports", "publicaton": "publication", "zzz": ""} {
		if got := nearest(name, keys); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// FuzzParse: whatever the text, there is an answer; and what is accepted can be written out and read again as the same.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/wrong/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Add([]byte(least))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("interfaces: [{name: eth0, address: 10.0.0.1}, {<<: *x}]\n? [a]\n: b\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("f", text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || err.Error() == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		again := &findings{source: c.source}
		if c.validate(again); again.err() != nil {
			t.Fatalf("accepted, and not valid: %v", again.err())
		}
		out, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse("back", out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if diff := cmp.Diff(c, back, compare); diff != "" {
			t.Fatal(diff)
		}
	})
}
