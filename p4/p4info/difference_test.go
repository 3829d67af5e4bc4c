package p4info_test

import (
	"slices"
	"testing"

	configv1 "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/proto"

	"spillway/p4/p4info"
)

func TestDifference(t *testing.T) {
	table := func(p *configv1.P4Info, name string) *configv1.Table {
		n := slices.IndexFunc(p.Tables, func(t *configv1.Table) bool { return t.GetPreamble().GetName() == name })
		return p.Tables[n]
	}
	for _, test := range []struct {
		name   string
		change func(*configv1.P4Info)
		want   string
	}{
		{"nothing", func(*configv1.P4Info) {}, ""},
		{"order", func(p *configv1.P4Info) { slices.Reverse(p.Tables); slices.Reverse(p.Actions[0].Params) }, ""},
		{"description", func(p *configv1.P4Info) {
			p.PkgInfo = &configv1.PkgInfo{Name: "x"}
			p.Tables[0].Preamble.Annotations = []string{"@hidden"}
		}, ""},
		{"padding", func(p *configv1.P4Info) {
			v := &table(p, "limits").InitialDefaultAction.Arguments[0].Value
			*v = append([]byte{0}, *v...)
		}, ""},
		{"table gone", func(p *configv1.P4Info) { p.Tables = p.Tables[1:] }, "tables[limits] is missing"},
		{"table added", func(p *configv1.P4Info) {
			p.Tables = append(p.Tables, &configv1.Table{Preamble: &configv1.Preamble{Id: 1, Name: "mine"}})
		}, "tables[mine] is there, but not known"},
		{"id", func(p *configv1.P4Info) { table(p, "member").Preamble.Id = 3 }, "tables[member].preamble.id is 3, not "},
		{"width", func(p *configv1.P4Info) { table(p, "member").MatchFields[0].Bitwidth = 16 }, "tables[member].match_fields[port].bitwidth is 16, not 9"},
		{"match", func(p *configv1.P4Info) {
			table(p, "member").MatchFields[0].Match = &configv1.MatchField_MatchType_{MatchType: configv1.MatchField_TERNARY}
		}, "tables[member].match_fields[port].match_type is "},
		{"size", func(p *configv1.P4Info) { table(p, "member").Size = 1 }, "tables[member].size is 1, not 4096"},
		{"counter", func(p *configv1.P4Info) { p.Counters[0].Spec = nil }, "counters[events].spec is missing, not there"},
		{"twins", func(p *configv1.P4Info) { p.Counters = append(p.Counters, p.Counters[0]) }, "counters has 4 elements, not 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := info(t).Message()
			got := proto.Clone(want).(*configv1.P4Info)
			test.change(got)
			difference := p4info.Difference(want, got)
			if (test.want == "") != (difference == "") || len(difference) < len(test.want) || difference[:len(test.want)] != test.want {
				t.Errorf("%q, want %q", difference, test.want)
			}
		})
	}
}
