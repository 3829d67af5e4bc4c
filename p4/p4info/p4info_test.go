package p4info_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/p4/p4info"
	"spillway/p4/v1model"
)

func TestBytestrings(t *testing.T) {
	// The tables "Examples of Valid/Invalid Bytestring Encoding" of the specification, and the edges.
	for _, test := range []struct {
		width int
		bytes string
		want  uint64
		valid bool
	}{
		{8, "\x63", 99, true},
		{16, "\x00\x63", 99, true},
		{16, "\x30\x64", 12388, true},
		{16, "\x00\x30\x64", 12388, true},
		{12, "\x00\x00\x63", 99, true},
		{9, "\x01\xff", 511, true},
		{64, "\xff\xff\xff\xff\xff\xff\xff\xff", 1<<64 - 1, true},
		{64, "\x00\x00\x80\x00\x00\x00\x00\x00\x00\x00", 1 << 63, true},
		{16, "\x00", 0, true},
		{8, "\x01\x63", 0, false},
		{8, "", 0, false},
		{16, "\x01\x00\x63", 0, false},
		{12, "\x10\x63", 0, false},
		{12, "\x01\x00\x63", 0, false},
		{12, "\x00\x40\x63", 0, false},
		{9, "\x02\x00", 0, false},
		{64, "\x01\x00\x00\x00\x00\x00\x00\x00\x00", 0, false},
	} {
		got, err := p4info.Value([]byte(test.bytes), test.width)
		if got != test.want || (err == nil) != test.valid || err != nil && !errors.Is(err, p4info.ErrBytestring) {
			t.Errorf("bit<%d> of %x: %d, %v; want %d, valid %v", test.width, test.bytes, got, err, test.want, test.valid)
		}
		if !test.valid {
			continue
		}
		canonical := p4info.Bytes(got)
		if len(canonical) > 1 && canonical[0] == 0 || !bytes.HasSuffix([]byte(test.bytes), canonical) {
			t.Errorf("%d in canonical form is %x", got, canonical)
		}
	}
}

func info(t *testing.T) *p4info.Info {
	t.Helper()
	info, err := p4info.Parse(v1model.P4Info)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestEntriesComeBack(t *testing.T) {
	info := info(t)
	for _, e := range []p4info.Entry{
		{Table: "forward", Match: []p4info.Match{p4info.LPM("dst", 0x0a4d0000, 16)}, Do: p4info.Call{Action: "to_port", Args: []p4info.Arg{{Param: "port", Value: 511}, {Param: "mac", Value: 0}}}},
		{Table: "forward", Do: p4info.Call{Action: "drop"}}, // 0.0.0.0/0
		{Table: "forward", Default: true, Do: p4info.Call{Action: "drop"}},
		{Table: "region", Priority: 1, Match: []p4info.Match{p4info.Exact("job", 65535), p4info.Ternary("slot", 0, 0xff00)}, Do: p4info.Call{Action: "private_slots"}},
		{Table: "region", Priority: 1, Match: []p4info.Match{p4info.Exact("job", 1)}},
	} {
		m, err := info.Encode(e)
		if err != nil {
			t.Errorf("%v: %v", e, err)
			continue
		}
		got, err := info.Decode(m)
		if diff := cmp.Diff(e, got); diff != "" || err != nil {
			t.Errorf("error %v, (-sent +came back):\n%s", err, diff)
		}
	}
}

func TestWhatCannotBeEncoded(t *testing.T) {
	info := info(t)
	job := p4info.Exact("job", 1)
	for name, test := range map[string]struct {
		entry p4info.Entry
		field string
	}{
		"table":           {p4info.Entry{Table: "nothing"}, ""},
		"key":             {p4info.Entry{Table: "job", Match: []p4info.Match{job, p4info.Exact("nothing", 1)}}, "nothing"},
		"missing key":     {p4info.Entry{Table: "job"}, "job"},
		"kind":            {p4info.Entry{Table: "job", Match: []p4info.Match{p4info.LPM("job", 1, 16)}}, "job"},
		"wide key":        {p4info.Entry{Table: "job", Match: []p4info.Match{p4info.Exact("job", 65536)}}, "job"},
		"prefix":          {p4info.Entry{Table: "forward", Match: []p4info.Match{p4info.LPM("dst", 1, 31)}}, "dst"},
		"mask":            {p4info.Entry{Table: "region", Priority: 1, Match: []p4info.Match{job, p4info.Ternary("slot", 1, 2)}}, "slot"},
		"action":          {p4info.Entry{Table: "job", Match: []p4info.Match{job}, Do: p4info.Call{Action: "flood"}}, "action"},
		"missing param":   {p4info.Entry{Table: "bridge", Match: []p4info.Match{p4info.Exact("mac", 1)}, Do: p4info.Call{Action: "flood"}}, "group"},
		"unknown param":   {p4info.Entry{Table: "bridge", Match: []p4info.Match{p4info.Exact("mac", 1)}, Do: p4info.Call{Action: "drop", Args: []p4info.Arg{{Param: "x"}}}}, "x"},
		"wide param":      {p4info.Entry{Table: "bridge", Match: []p4info.Match{p4info.Exact("mac", 1)}, Do: p4info.Call{Action: "to_link", Args: []p4info.Arg{{Param: "port", Value: 512}}}}, "port"},
		"matched default": {p4info.Entry{Table: "job", Default: true, Match: []p4info.Match{job}}, "match"},
	} {
		_, err := info.Encode(test.entry)
		var field *p4info.FieldError
		if !errors.As(err, &field) || field.Field != test.field {
			t.Errorf("%s: %v, want an error about %q", name, err, test.field)
		}
	}
}

// A parameter that is two in the program is one to its user.
func TestHalves(t *testing.T) {
	split, err := p4info.Parse([]byte(`
		tables { preamble { id: 1 name: "member" } match_fields { id: 1 name: "port" bitwidth: 9 match_type: EXACT } action_refs { id: 2 } }
		actions { preamble { id: 2 name: "worker" }
			params { id: 1 name: "bits_hi" bitwidth: 32 } params { id: 2 name: "bits_lo" bitwidth: 32 }
			params { id: 3 name: "rest_lo" bitwidth: 16 } params { id: 4 name: "rest_hi" bitwidth: 48 } }`))
	if err != nil {
		t.Fatal(err)
	}
	e := p4info.Entry{Table: "member", Match: []p4info.Match{p4info.Exact("port", 1)}, Do: p4info.Call{Action: "worker", Args: []p4info.Arg{
		{Param: "bits", Value: 0x1122334455667788}, {Param: "rest", Value: 0xffeeddccbbaa9988},
	}}}
	m, err := split.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	values := map[uint32][]byte{1: {0x11, 0x22, 0x33, 0x44}, 2: {0x55, 0x66, 0x77, 0x88}, 3: {0x99, 0x88}, 4: {0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa}}
	for _, p := range m.GetAction().GetAction().GetParams() {
		if !bytes.Equal(p.GetValue(), values[p.GetParamId()]) {
			t.Errorf("parameter %d is %x", p.GetParamId(), p.GetValue())
		}
	}
	got, err := split.Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	if got.Do.Arg("bits") != 0x1122334455667788 || got.Do.Arg("rest") != 0xffeeddccbbaa9988 || len(got.Do.Args) != 2 {
		t.Errorf("came back as %v", got.Do)
	}
	e.Do.Args[0].Value, e.Do.Args[1].Value = 1, 1 // high halves of 0
	if m, err = split.Encode(e); err != nil {
		t.Fatal(err)
	}
	if got, err = split.Decode(m); err != nil || got.Do.Arg("rest") != 1 {
		t.Errorf("came back as %v, %v", got.Do, err)
	}
}

func TestContradictoryPrograms(t *testing.T) {
	for name, text := range map[string]string{
		"text":          `tables { nothing }`,
		"no id":         `actions { preamble { name: "a" } }`,
		"two ids":       `actions { preamble { id: 1 name: "a" } } actions { preamble { id: 1 name: "b" } }`,
		"two names":     `actions { preamble { id: 1 name: "a" } } actions { preamble { id: 2 name: "a" } }`,
		"action":        `tables { preamble { id: 1 name: "t" } action_refs { id: 3 } }`,
		"default":       `tables { preamble { id: 1 name: "t" } initial_default_action { action_id: 3 } }`,
		"wide key":      `tables { preamble { id: 1 name: "t" } match_fields { id: 1 name: "k" bitwidth: 128 match_type: EXACT } }`,
		"counter":       `direct_counters { preamble { id: 1 name: "c" } direct_table_id: 3 }`,
		"default value": `tables { preamble { id: 1 name: "t" } action_refs { id: 2 } initial_default_action { action_id: 2 arguments { param_id: 1 value: "\x02" } } } actions { preamble { id: 2 name: "a" } params { id: 1 name: "p" bitwidth: 1 } }`,
	} {
		if _, err := p4info.Parse([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzDecode: whatever an entry's bytes are, decoding does not panic, and what is accepted comes back from its canonical form.
func FuzzDecode(f *testing.F) {
	index, err := p4info.Parse(v1model.P4Info)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(2), int32(1), []byte{10, 0, 0, 0}, []byte{0xff}, int32(8), []byte{1}, uint8(3))
	f.Fuzz(func(t *testing.T, table uint32, priority int32, value, mask []byte, prefix int32, param []byte, kinds uint8) {
		tables := index.Tables()
		chosen := tables[int(table)%len(tables)]
		m := &p4v1.TableEntry{TableId: chosen.ID, Priority: priority}
		for n, key := range chosen.Keys {
			field := &p4v1.FieldMatch{FieldId: key.ID}
			switch (int(kinds) + n) % 3 {
			case 0:
				field.FieldMatchType = &p4v1.FieldMatch_Exact_{Exact: &p4v1.FieldMatch_Exact{Value: value}}
			case 1:
				field.FieldMatchType = &p4v1.FieldMatch_Lpm{Lpm: &p4v1.FieldMatch_LPM{Value: value, PrefixLen: prefix}}
			case 2:
				field.FieldMatchType = &p4v1.FieldMatch_Ternary_{Ternary: &p4v1.FieldMatch_Ternary{Value: value, Mask: mask}}
			}
			m.Match = append(m.Match, field)
		}
		ref := chosen.Actions[int(kinds)%len(chosen.Actions)]
		action := &p4v1.Action{ActionId: ref.ID}
		for _, p := range ref.Params {
			action.Params = append(action.Params, &p4v1.Action_Param{ParamId: p.ID, Value: param})
		}
		m.Action = &p4v1.TableAction{Type: &p4v1.TableAction_Action{Action: action}}
		e, err := index.Decode(m)
		if err != nil {
			return
		}
		canonical, err := index.Encode(e)
		if err != nil {
			t.Fatalf("%v was accepted but cannot be encoded: %v", e, err)
		}
		again, err := index.Decode(canonical)
		if diff := cmp.Diff(e, again); diff != "" || err != nil {
			t.Fatalf("%v: %s", err, diff)
		}
	})
}
