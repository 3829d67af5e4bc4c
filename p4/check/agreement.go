package main

import (
	"fmt"
	"os"

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

// agree says where two p4infos differ in names, ids, widths or sizes of what a controller uses: all but the registers, and the
// numbers that table limits has by default, which are what the targets differ in.
func agree(a, b *configv1.P4Info) error {
	if difference := p4info.Difference(common(a), common(b)); difference != "" {
		return fmt.Errorf("the p4infos of the two programs do not agree: %s", difference)
	}
	return nil
}

func common(info *configv1.P4Info) *configv1.P4Info {
	info = proto.CloneOf(info)
	info.Registers, info.Externs = nil, nil
	for _, table := range info.Tables {
		if table.GetPreamble().GetName() == "limits" && table.InitialDefaultAction != nil {
			table.InitialDefaultAction.Arguments = nil
		}
	}
	return info
}
