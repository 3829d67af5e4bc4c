package vectors

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"

	"spillway/wire"
)

// Packet describes a packet by those fields that a case cares for. The rest of a
// packet that goes in is filled in: what a worker of the job would send, or, for
// one without a job, plain UDP. In a packet that comes out, every field that is
// not given is as it went in.
type Packet struct {
	// From names the host that sends: it gives the port that the packet goes in
	// by and the source addresses. To names one for the destination address.
	From string `json:"from"`
	To   string `json:"to"`
	// Port is the port to go in by, where that is not From's.
	Port uint16 `json:"port"`

	EthSrc    *MAC    `json:"eth_src"`
	EthDst    *MAC    `json:"eth_dst"`
	EtherType *Number `json:"ether_type"`

	Src      *netip.Addr `json:"src"`
	Dst      *netip.Addr `json:"dst"`
	TOS      *Number     `json:"tos"`
	TTL      *Number     `json:"ttl"`
	ID       *Number     `json:"id"`
	Fragment *Number     `json:"fragment"` // flags and offset
	Length   *Number     `json:"length"`   // a false one
	Protocol *Number     `json:"protocol"`
	Options  string      `json:"options"` // of IPv4, hex

	SrcPort   *Number  `json:"src_port"`
	DstPort   *Number  `json:"dst_port"`
	UDPLength *Number  `json:"udp_length"` // a false one
	Checksum  Checksum `json:"checksum"`

	// Job names a job of the fixture, which gives id, generation and cookie.
	Job        string   `json:"job"`
	Version    *Number  `json:"version"`
	Type       *Type    `json:"type"`
	Flags      *Flags   `json:"flags"`
	Op         *Op      `json:"op"`
	JobID      *Number  `json:"job_id"`
	Generation *Number  `json:"generation"`
	Priority   *Number  `json:"priority"`
	Cookie     *Number  `json:"cookie"`
	Seq        *Number  `json:"seq"`
	Bitmap     *Number  `json:"bitmap"`
	Elems      *Number  `json:"elems"`
	Slot       *Number  `json:"slot"`
	Elements   Elements `json:"elements"`

	// Payload is text instead of Spillway's header and elements; Hex the same in hex.
	Payload string `json:"payload"`
	Hex     string `json:"hex"`
	// Cut is how many bytes are missing at the end of the frame.
	Cut int `json:"cut"`
}

// noSlot is the slot of DATA that is not for the ToR.
const noSlot = 0xffff

// frameIn is the frame of a packet that goes in, and the port it goes in by.
func (f *Fixture) frameIn(p *Packet) (*Frame, uint16, error) {
	from, ok := f.Hosts[p.From]
	if !ok {
		return nil, 0, fmt.Errorf("from %q is no host", p.From)
	}
	frame := &Frame{
		EthDst: f.TorMAC, EthSrc: from.MAC, EtherType: etherTypeIPv4,
		TOS: 2, TTL: 64, Protocol: protocolUDP, ID: 0x1234, Fragment: 0x4000, // ECT(0), as Spillway sends; may not be fragmented
		Src: from.Address, Dst: from.Address, Checksum: Full,
		SrcPort: 40000, DstPort: 40001,
	}
	if p.Job != "" {
		if err := f.fillJob(frame, p); err != nil {
			return nil, 0, err
		}
	}
	if err := f.apply(frame, p); err != nil {
		return nil, 0, err
	}
	if frame.EtherType == etherTypeIPv4 && !frame.Dst.Is4() {
		return nil, 0, fmt.Errorf("no destination address")
	}
	port := from.Port
	if p.Port != 0 {
		port = p.Port
	}
	return frame, port, nil
}

// fillJob fills in what the member From of the job would send.
func (f *Fixture) fillJob(frame *Frame, p *Packet) error {
	job, ok := f.Jobs[p.Job]
	if !ok {
		return fmt.Errorf("job %q does not exist", p.Job)
	}
	h := &wire.Header{
		Version: wire.Version, Type: wire.Data, Job: job.ID, Generation: job.Generation, Cookie: uint32(job.Cookie),
		Priority: job.Priority, Slot: noSlot,
	}
	frame.Header = h
	if p.Type != nil {
		h.Type = wire.Type(*p.Type)
	}
	if p.Seq == nil {
		return fmt.Errorf("a packet of job %s has no seq", p.Job)
	}
	member, _ := job.member(p.From)
	home := SendUp{FirstPort: wire.BasePort}
	if job.SendUp != nil {
		home = *job.SendUp
	}
	if member.role() == Worker {
		h.Bitmap = uint64(member.Bits)
		if h.Type == wire.Result {
			h.Bitmap = job.Full()
		}
		frame.Dst = f.Hosts[job.Home].Address
		frame.SrcPort, frame.DstPort = job.WorkerPort, home.DstPort(uint32(*p.Seq))
	} else {
		h.Bitmap = job.Full()
		frame.SrcPort, frame.DstPort = home.FirstPort, job.WorkerPort
	}
	if h.Type.HasPayload() {
		frame.Elements = make([]int32, wire.MinElements)
	}
	h.Elems = uint16(len(frame.Elements))
	return nil
}

// apply overwrites the fields of the frame that the packet gives.
func (f *Fixture) apply(frame *Frame, p *Packet) error {
	if p.To != "" {
		to, ok := f.Hosts[p.To]
		if !ok {
			return fmt.Errorf("to %q is no host", p.To)
		}
		frame.Dst = to.Address
	}
	var err error
	set(&frame.EthSrc, p.EthSrc)
	set(&frame.EthDst, p.EthDst)
	set(&frame.Src, p.Src)
	set(&frame.Dst, p.Dst)
	number(&err, &frame.EtherType, p.EtherType)
	number(&err, &frame.TOS, p.TOS)
	number(&err, &frame.TTL, p.TTL)
	number(&err, &frame.ID, p.ID)
	number(&err, &frame.Fragment, p.Fragment)
	number(&err, &frame.Length, p.Length)
	number(&err, &frame.Protocol, p.Protocol)
	number(&err, &frame.SrcPort, p.SrcPort)
	number(&err, &frame.DstPort, p.DstPort)
	number(&err, &frame.UDPLength, p.UDPLength)
	switch p.Checksum {
	case Full, None:
		frame.Checksum = p.Checksum
	case "":
	default:
		return fmt.Errorf("checksum %q is neither full nor none", p.Checksum)
	}
	if p.Options != "" {
		options, err := hex.DecodeString(p.Options)
		if err != nil || len(options)%4 != 0 {
			return fmt.Errorf("options %q are not words of hex", p.Options)
		}
		frame.Options = options
	}
	if p.Payload != "" || p.Hex != "" {
		payload, err := hex.DecodeString(p.Hex)
		if err != nil {
			return fmt.Errorf("hex: %w", err)
		}
		frame.Header, frame.Elements, frame.Payload = nil, nil, append([]byte(p.Payload), payload...)
	}
	if p.Cut != 0 {
		frame.Cut = p.Cut
	}
	return errors.Join(err, applyHeader(frame, p))
}

func applyHeader(frame *Frame, p *Packet) error {
	h := frame.Header
	if h == nil {
		if p.Elements != nil || p.Seq != nil {
			return fmt.Errorf("a packet without a job has a seq or elements")
		}
		return nil
	}
	if p.Elements != nil {
		frame.Elements = p.Elements
		h.Elems = uint16(len(p.Elements))
	}
	if p.Type != nil {
		h.Type = wire.Type(*p.Type)
	}
	if p.Flags != nil {
		h.Flags = wire.Flags(*p.Flags)
	}
	if p.Op != nil {
		h.Op = wire.Op(*p.Op)
	}
	var err error
	number(&err, &h.Version, p.Version)
	number(&err, &h.Job, p.JobID)
	number(&err, &h.Generation, p.Generation)
	number(&err, &h.Priority, p.Priority)
	number(&err, &h.Cookie, p.Cookie)
	number(&err, &h.Seq, p.Seq)
	number(&err, &h.Bitmap, p.Bitmap)
	number(&err, &h.Elems, p.Elems)
	number(&err, &h.Slot, p.Slot)
	return err
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

func number[T ~uint8 | ~uint16 | ~uint32 | ~uint64](err *error, field *T, value *Number) {
	if value == nil {
		return
	}
	*field = T(*value)
	if uint64(*field) != uint64(*value) {
		*err = fmt.Errorf("%#x does not fit into a field of its kind", uint64(*value))
	}
}

// clone copies the frame so that the copy can be changed.
func (f *Frame) clone() *Frame {
	c := *f
	if f.Header != nil {
		h := *f.Header
		c.Header = &h
	}
	return &c
}
