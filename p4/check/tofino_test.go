package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `
parser IngressParser(packet_in packet) {
    state start {
        packet.extract(h.ethernet);
        transition select(h.ethernet.type) { 0x800: ipv4; default: accept; }
    }
    state ipv4 {
        transition select(h.ipv4.protocol) { 17: udp; default: accept; }
    }
    state udp {
        transition accept;
    }
}
parser EgressParser(packet_in packet) {
    state start {
        transition select(h.passage.rewritten) { 1: sums; default: accept; }
    }
}
`

const assembly = `version:
  version: 1.0.1
parser ingress:
  start: $entry_point.start
  states:
    $entry_point.start:
      match: [ half ]
      # - what was matched
      0x0800:
        next: ipv4
    ipv4:
      match: [ byte0 ]
      17:
        next: udp
    udp:
      *:
        next: end
parser egress:
  states:
    start.$split_0:
      match: [ byte0 ]
      1:
        next: sums
deparser ingress:
  dictionary:
`

func TestSelects(t *testing.T) {
	wanted := selections(source)
	if len(wanted) != 3 {
		t.Fatalf("%d selects found in the source, want 3: %v", len(wanted), wanted)
	}
	if err := checkSelects(assembly, wanted); err != nil {
		t.Errorf("all are there: %v", err)
	}
	for _, lost := range []struct{ name, line, want string }{
		{"of ipv4", "    ipv4:\n      match: [ byte0 ]\n", "ingress parser's select in state ipv4"},
		{"of ingress start", "      match: [ half ]\n", "ingress parser's select in state start"},
		{"of egress", "    start.$split_0:\n      match: [ byte0 ]\n", "egress parser's select in state start"},
	} {
		without := strings.Replace(assembly, lost.line, strings.Replace(lost.line, "match:", "shift:", 1), 1)
		if err := checkSelects(without, wanted); err == nil || !strings.Contains(err.Error(), lost.want) {
			t.Errorf("%s lost: %v", lost.name, err)
		}
	}
	if err := checkSelects(assembly, nil); err == nil {
		t.Error("no select in the sources, and nothing was said")
	}
}

func TestSelectionsOfTheProgram(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(programs, tofino.name, "parser.p4"))
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, s := range selections(string(b)) {
		states = append(states, s.gress+" "+s.state)
	}
	if got, want := strings.Join(states, ", "), "ingress start, ingress ipv4, ingress udp, ingress spillway, egress start"; got != want {
		t.Errorf("the parsers select in %s, want %s", got, want)
	}
}

const placement = `{"tables": [
	{"name": "Ingress.owner", "direction": "ingress", "table_type": "stateful", "stage_tables": [{"stage_number": 1}]},
	{"name": "Ingress.lane", "direction": "ingress", "table_type": "stateful", "stage_tables": [{"stage_number": 11}]},
	{"name": "Ingress.job", "direction": "ingress", "table_type": "match", "match_attributes": {"stage_tables": [{"stage_number": 0}]}},
	{"name": "Egress.mark", "direction": "egress", "table_type": "match", "match_attributes": {"stage_tables": [{"stage_number": 2}]}}
]}`

func TestLayout(t *testing.T) {
	l, err := readLayout([]byte(placement))
	if err != nil {
		t.Fatal(err)
	}
	registers, err := l.registers()
	if err != nil || len(registers) != 2 || registers["Ingress.lane"] != 11 {
		t.Errorf("registers %v, %v", registers, err)
	}
	ingress, egress, err := l.stages()
	if err != nil || ingress != 12 || egress != 3 {
		t.Errorf("%d stages of ingress and %d of egress, %v", ingress, egress, err)
	}
}

func TestDoctoredLayouts(t *testing.T) {
	check := func(text string) error {
		l, err := readLayout([]byte(text))
		if err != nil {
			return err
		}
		if _, err := l.registers(); err != nil {
			return err
		}
		_, _, err = l.stages()
		return err
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"a register in two stages", `[{"stage_number": 1}]`, `[{"stage_number": 1}, {"stage_number": 3}]`, "register Ingress.owner lies in stages [1 3]"},
		{"two registers of a name", `"Ingress.lane"`, `"Ingress.owner"`, "register Ingress.owner lies in stages [1 11]"},
		{"a register in no stage", `[{"stage_number": 1}]`, `[]`, ""},
		{"13 stages", `[{"stage_number": 11}]`, `[{"stage_number": 12}]`, "13 stages of ingress"},
		{"13 stages of egress", `[{"stage_number": 2}]`, `[{"stage_number": 12}]`, "13 of egress"},
		{"no register", `stateful`, `match`, "no stateful registers"},
		{"nothing", placement, `{}`, "no tables"},
		{"no JSON", placement, `tables:`, "context.json"},
	} {
		err := check(strings.ReplaceAll(placement, c.from, c.to))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
