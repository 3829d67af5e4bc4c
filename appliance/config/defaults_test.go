package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// shippedFile is what the package installs as DefaultPath.
const shippedFile = "../packaging/files/spillwayd.yaml"

// aKey is a line of the shipped file that is a key with its default, commented out.
var aKey = regexp.MustCompile(`^( *)#( *)([a-z0-9_]+:.*)$`)

// TestShipped: the file of the package says one thing wrong, that there is no interface; what it has commented out is what the code has by default, all of it.
func TestShipped(t *testing.T) {
	text, err := os.ReadFile(shippedFile)
	if err != nil {
		t.Fatal(err)
	}
	var invalid *Error
	if _, err := Parse("shipped", text); !errors.As(err, &invalid) || len(invalid.Problems) != 1 || invalid.Problems[0].Key != "interfaces" {
		t.Fatalf("as it is: %v", err)
	}

	shown := least + uncommented(string(text))
	got, err := Parse("shown", []byte(shown))
	if err != nil {
		t.Fatalf("with its keys: %v\n%s", err, shown)
	}
	want := Default()
	want.Interfaces = []Interface{{"eth0", netip.MustParseAddr("10.0.0.1")}}
	want.Jobs.Tor = TorNone
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Error(diff)
	}
	// Equal is not enough: a key that is not shown has its default too.
	for _, path := range leavesOf(reflect.TypeFor[Config](), "") {
		if _, ok := got.source.lines[path]; !ok && !strings.HasPrefix(path, "switch.") && !strings.HasPrefix(path, "cluster.") && !strings.HasPrefix(path, "api.tls") && !strings.HasPrefix(path, "interfaces") {
			t.Errorf("%s is not shown", path)
		}
	}
}

// TestShippedExamples: what the shipped file shows as examples is right too, and names every key of its sections.
func TestShippedExamples(t *testing.T) {
	text, err := os.ReadFile(shippedFile)
	if err != nil {
		t.Fatal(err)
	}
	example := func(section string) string {
		from := strings.Index(string(text), "\n# "+section+":\n")
		if from < 0 {
			from = strings.Index(string(text), "\n  #   "+section+":\n")
		}
		if from < 0 {
			t.Fatalf("there is no example of %s", section)
		}
		var out strings.Builder
		for line := range strings.Lines(string(text[from+1:])) {
			line, ok := strings.CutPrefix(strings.TrimPrefix(line, "  "), "# ")
			if !ok {
				break
			}
			out.WriteString(line)
		}
		return out.String()
	}
	whole := strings.Join([]string{example("interfaces"), example("switch"), "name: rack7-a\n", example("cluster"), "api:\n  listen: 10.0.0.1:9690\n", example("tls")}, "")
	got, err := Parse("examples", []byte(whole))
	if err != nil {
		t.Fatalf("%v\n%s", err, whole)
	}
	for _, path := range leavesOf(reflect.TypeFor[Config](), "") {
		shown := strings.ReplaceAll(path, "[]", "[0]")
		if _, ok := got.source.lines[shown]; !ok && (strings.HasPrefix(path, "switch.") && !strings.HasPrefix(path, "switch.tls") || strings.HasPrefix(path, "cluster.") && !strings.HasPrefix(path, "cluster.etcd.tls") && path != "cluster.etcd.endpoints[]" || strings.HasPrefix(path, "api.tls") || strings.HasPrefix(path, "interfaces")) {
			t.Errorf("%s is not in an example", path)
		}
	}
}

func uncommented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if match := aKey.FindStringSubmatch(strings.TrimRight(line, "\n")); match != nil {
			if match[2] == "" {
				fmt.Fprintln(&out, match[1]+match[3])
			}
		}
	}
	return out.String()
}

// leavesOf are the paths of all keys that have one value; of lists with [] for an index.
func leavesOf(t reflect.Type, path string) (leaves []string) {
	switch {
	case t.Kind() == reflect.Pointer:
		return leavesOf(t.Elem(), path)
	case t.Kind() == reflect.Slice:
		return leavesOf(t.Elem(), path+"[]")
	case isLeaf(t):
		return []string{path}
	}
	for i := range t.NumField() {
		if key := keyOf(t.Field(i)); key != "" {
			leaves = append(leaves, leavesOf(t.Field(i).Type, join(path, key))...)
		}
	}
	return leaves
}

// aRow is a row of the reference: key, default, meaning.
var aRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| .+ \\|$")

// TestReference: docs/configuration.md has every key and no other, each with the default that the code has.
func TestReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults := Default()
	defaults.Jobs.Tor = TorNone
	defaults.Switch = defaultSwitch()
	defaults.Cluster = defaultCluster()
	defaults.Cluster.Etcd.Embedded = defaultEmbedded()
	out, err := yaml.Marshal(defaults)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(out, &tree); err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, match := range aRow.FindAllStringSubmatch(string(text), -1) {
		if _, twice := documented[match[1]]; twice {
			t.Errorf("%s is there twice", match[1])
		}
		documented[match[1]] = strings.Trim(strings.TrimSpace(match[2]), "`")
	}
	for _, path := range leavesOf(reflect.TypeFor[Config](), "") {
		said, ok := documented[path]
		delete(documented, path)
		if !ok {
			t.Errorf("%s is not in the reference", path)
			continue
		}
		want, ok := look(tree, strings.Split(path, "."))
		if path == "switch.home_port" {
			ok = false // 0 is a port of the switch, and not the default
		}
		if ok && said != want {
			t.Errorf("the default of %s is said to be %q, and is %q", path, said, want)
		}
		if !ok && said != "–" && said != "must be said" {
			t.Errorf("%s is said to have the default %q, and has none", path, said)
		}
	}
	for path := range documented {
		t.Errorf("the reference has %s, which is no key", path)
	}
}

// look finds the default of a key as it is written; one that is empty is –, one that must be said has none.
func look(tree map[string]any, path []string) (string, bool) {
	value, ok := tree[path[0]]
	if !ok {
		// Keys of slots are numbers to YAML.
		return "", false
	}
	if below, isTree := value.(map[string]any); isTree {
		if len(path) == 1 {
			return "", false
		}
		return look(below, path[1:])
	}
	if len(path) > 1 {
		return "", false
	}
	text := fmt.Sprint(value)
	if d, err := time.ParseDuration(text); err == nil && strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(d.String(), "0s")
	}
	switch text {
	case "", "[]", "invalid IP":
		return "", false
	}
	return text, true
}
