package main

import (
	"fmt"
	"os"
	"slices"

	configv1 "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"spillway/p4/p4info"
)

func readP4Info(file string) (*configv1.P4Info, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	info := &configv1.P4Info{}
	if err := prototext.Unmarshal(b, info); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return info, nil
}

// agree says where two p4infos differ in names, ids, widths or sizes of what a controller uses: all but the registers, the
// numbers that table limits has by default, which are what the targets differ in, and whether an entry of forward may be drop: on
// Tofino a direct counter counts in all actions that an entry may have, so there it is the default only. The ids of direct counters are
// left out too: no message of P4Runtime has them, and the compiler for Tofino does not take them from the source.
func agree(a, b *configv1.P4Info) error {
	if difference := p4info.Difference(common(a), common(b)); difference != "" {
		return fmt.Errorf("the p4infos of the two programs do not agree: %s", difference)
	}
	return nil
}

func common(info *configv1.P4Info) *configv1.P4Info {
	info = proto.CloneOf(info)
	info.Registers, info.Externs = nil, nil
	used := map[uint32]bool{}
	for _, counter := range info.DirectCounters {
		counter.Preamble.Id = 0
	}
	for _, table := range info.Tables {
		table.DirectResourceIds = nil
		for _, action := range table.ActionRefs {
			used[action.Id] = true
		}
		switch table.GetPreamble().GetName() {
		case "limits":
			table.Size = 0 // it has no entries
			if table.InitialDefaultAction != nil {
				table.InitialDefaultAction.Arguments = nil
			}
		case "forward":
			for _, action := range table.ActionRefs {
				action.Scope = configv1.ActionRef_TABLE_AND_DEFAULT
			}
		}
	}
	info.Actions = slices.DeleteFunc(info.Actions, func(a *configv1.Action) bool { return !used[a.GetPreamble().GetId()] })
	return info
}
