package xdp

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
)

// What tells one build's aggregator from another's. The kernel's tag says whether two programs are the same, but not
// which is the newer; these say that. TestVersions fails when the compiled objects change and the numbers do not.
const (
	// layoutVersion is that of the maps: names, types, keys, values and what they mean, the ones of this file included.
	// A build takes over maps of its own layout only.
	layoutVersion = 4
	// programVersion is that of the programs over a layout. It grows with every change of theirs.
	programVersion = 5
)

// descriptionMagic begins the description of every layout: "spillway".
const descriptionMagic = 0x7370696c6c776179

// A description is pinned beside the maps and says what they are. Its first three fields are the same in every layout.
type description struct {
	Magic     uint64
	Layout    uint32
	Version   uint32 // of the program
	MaxJobs   uint32
	FirstPort uint16
	Ports     uint16
	Slots     Slots
}

// An attachmentRecord is pinned for each interface, and says what was done there besides the XDP link, which tells for itself.
// It is written before anything is done, so that it may promise too much after a crash, but never too little.
type attachmentRecord struct {
	Netns uint64 // cookie of the network namespace (SO_NETNS_COOKIE)
	Flags uint32
	_     uint32
}

// Flags of an attachmentRecord.
const (
	recordClsact  = 1 << iota // the clsact qdisc was made here
	recordSteered             // flow rules were put into the NIC
	recordNtuple              // the NIC's filters were switched on here
)

// maxAttachments bounds the interfaces of an aggregator.
const maxAttachments = 64

// parseRecord reads as much of a record as this layout knows.
func parseRecord(raw []byte) (r attachmentRecord) {
	raw = append(raw, make([]byte, binary.Size(r))...)
	_, _ = binary.Decode(raw, binary.NativeEndian, &r) // which only fails for want of bytes
	return r
}

func newDescriptionMap() (*ebpf.Map, error) {
	return ebpf.NewMap(&ebpf.MapSpec{
		Name: "description", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(binary.Size(description{})), MaxEntries: 1,
	})
}

func newAttachmentsMap() (*ebpf.Map, error) {
	return ebpf.NewMap(&ebpf.MapSpec{
		Name: "attachments", Type: ebpf.Hash, KeySize: 4, ValueSize: uint32(binary.Size(attachmentRecord{})), MaxEntries: maxAttachments,
	})
}

func (b *build) describe(c Config) description {
	return description{
		Magic: descriptionMagic, Layout: b.layout, Version: b.version,
		MaxJobs: c.MaxJobs, FirstPort: c.FirstPort, Ports: c.Ports, Slots: c.Slots,
	}
}

// config is what the aggregator was loaded with.
func (d *description) config() Config {
	return Config{Slots: d.Slots, MaxJobs: d.MaxJobs, FirstPort: d.FirstPort, Ports: d.Ports}
}

// readDescription reads as much as layouts have in common; the rest is there if the layout is ours. Not ok: it is none.
func readDescription(m *ebpf.Map) (d description, ok bool) {
	if m.Type() != ebpf.Array || m.KeySize() != 4 {
		return d, false
	}
	raw, err := m.LookupBytes(uint32(0))
	if err != nil || len(raw) < 16 {
		return d, false
	}
	raw = append(raw, make([]byte, binary.Size(d))...) // a smaller one of another layout
	if _, err := binary.Decode(raw, binary.NativeEndian, &d); err != nil {
		return d, false
	}
	return d, d.Magic == descriptionMagic
}

// differences says in what c differs from what is pinned.
func (d *description) differences(c Config) string {
	var all []string
	add := func(what string, pinned, wanted any) {
		if pinned != wanted {
			all = append(all, fmt.Sprintf("%s %v where the configuration says %v", what, pinned, wanted))
		}
	}
	add("max_jobs", d.MaxJobs, c.MaxJobs)
	add("first port", d.FirstPort, c.FirstPort)
	add("ports", d.Ports, c.Ports)
	for class, elements := range classElements {
		add(fmt.Sprintf("slots of %d elements:", elements), d.Slots[class], c.Slots[class])
	}
	return strings.Join(all, ", ")
}
