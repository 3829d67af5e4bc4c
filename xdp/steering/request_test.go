package steering

import (
	"testing"
	"unsafe"

	"github.com/cilium/ebpf/btf"
)

// TestLayout holds the structures to the running kernel's own, as its type information has them.
func TestLayout(t *testing.T) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var r request
	var f flowSpec
	var u flowUnion
	for _, c := range []struct {
		structure string
		size      uintptr
		offsets   map[string]uintptr
	}{
		{"ethtool_rxnfc", unsafe.Sizeof(r), map[string]uintptr{
			"cmd": unsafe.Offsetof(r.Command), "flow_type": unsafe.Offsetof(r.FlowType), "data": unsafe.Offsetof(r.Data),
			"fs": unsafe.Offsetof(r.Flow), "rule_locs": uintptr(requestSize),
		}},
		{"ethtool_rx_flow_spec", unsafe.Sizeof(f), map[string]uintptr{
			"flow_type": unsafe.Offsetof(f.FlowType), "h_u": unsafe.Offsetof(f.Value), "h_ext": unsafe.Offsetof(f.ValueExt),
			"m_u": unsafe.Offsetof(f.Mask), "m_ext": unsafe.Offsetof(f.MaskExt),
			"ring_cookie": unsafe.Offsetof(f.Ring), "location": unsafe.Offsetof(f.Location),
		}},
		{"ethtool_tcpip4_spec", 16, map[string]uintptr{"pdst": unsafe.Offsetof(u.DestPort)}},
		{"ethtool_flow_ext", unsafe.Sizeof(flowExt{}), nil},
	} {
		var s *btf.Struct
		if err := kernel.TypeByName(c.structure, &s); err != nil {
			t.Fatal(err)
		}
		if uintptr(s.Size) != c.size {
			t.Errorf("struct %s has %d bytes, here %d", c.structure, s.Size, c.size)
		}
		found := 0
		for _, m := range s.Members {
			if want, ok := c.offsets[m.Name]; ok {
				found++
				if uintptr(m.Offset.Bytes()) != want {
					t.Errorf("struct %s has %s at %d, here it is at %d", c.structure, m.Name, m.Offset.Bytes(), want)
				}
			}
		}
		if found != len(c.offsets) {
			t.Errorf("struct %s has %d of the members %v", c.structure, found, c.offsets)
		}
	}
	var union *btf.Union
	if err := kernel.TypeByName("ethtool_flow_union", &union); err != nil {
		t.Fatal(err)
	}
	if uintptr(union.Size) != unsafe.Sizeof(u) {
		t.Errorf("the union has %d bytes, here %d", union.Size, unsafe.Sizeof(u))
	}
}

func TestRule(t *testing.T) {
	f := rule(9700, 3, 17)
	raw := (*[unsafe.Sizeof(f)]byte)(unsafe.Pointer(&f))
	// The port is big-endian at 10 of the union, which is at 4; its mask is 72 bytes later.
	if raw[14] != 9700>>8 || raw[15] != 9700&0xff || raw[86] != 0xff || raw[87] != 0xff {
		t.Errorf("% x", raw[:])
	}
	if port, ok := f.port(); !ok || port != 9700 {
		t.Errorf("port %d, %t", port, ok)
	}
	for name, change := range map[string]func(*flowSpec){
		"TCP":            func(f *flowSpec) { f.FlowType = 1 },
		"a port range":   func(f *flowSpec) { f.Mask.DestPort = bigEndian(0xfff0) },
		"an address too": func(f *flowSpec) { f.Mask.Rest[0] = 1 },
		"a VLAN too":     func(f *flowSpec) { f.MaskExt.All[12] = 1 },
		"drop":           func(f *flowSpec) { f.Ring = dropped },
	} {
		g := f
		change(&g)
		if _, ok := g.port(); ok {
			t.Errorf("%s is taken for Spillway's", name)
		}
	}
}
