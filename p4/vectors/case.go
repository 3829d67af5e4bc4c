package vectors

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"slices"

	"spillway/wire"
)

// File is a set of cases that start from the same fixture.
type File struct {
	// Name is the file's, without directory and ending.
	Name string `json:"-"`
	// About says what the cases are about.
	About   string  `json:"about"`
	Fixture Fixture `json:"fixture"`
	Cases   []Case  `json:"cases"`
}

// Case is one story: packets that go in one after the other, and what comes of each.
type Case struct {
	Name string `json:"name"`
	// Why is a remark for the reader: which rule this is, or a calculation.
	Why   string `json:"why"`
	Steps []Step `json:"steps"`
}

// Step is one packet in, and everything that it does: what is not listed does not happen.
type Step struct {
	In Packet `json:"in"`
	// Repeat is how often the packet goes in; each time the same comes out. 0 means once.
	Repeat int `json:"repeat"`
	// Out lists what comes out, in any order.
	Out []Output `json:"out"`
	// Events are the counters that move at each time: by job name ("" for
	// packets of no job) and event name.
	Events map[string]map[string]uint64 `json:"events"`
	// Preempted and Saturated are the counters of that name, by job name.
	Preempted map[string]uint64 `json:"preempted"`
	Saturated map[string]uint64 `json:"saturated"`
	// Forwarded are the direct counters of table forward that move, by prefix.
	// They are compared only in steps that give them; Members likewise, by job
	// and host.
	Forwarded map[netip.Prefix]Traffic      `json:"forwarded"`
	Members   map[string]map[string]Traffic `json:"members"`
}

// Traffic is what a direct counter counts.
type Traffic struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Output is a packet that comes out: the one that went in, with changes. First
// those that come with the way it takes (exactly one of Host, Ports, Publish,
// Uplink), then the fields given.
type Output struct {
	// Host: forwarded to that host, by its port and to its Ethernet address.
	Host string `json:"host"`
	// Ports: a copy leaves by each of these, with nothing changed.
	Ports []uint16 `json:"ports"`
	// Publish: sent as the publish entry of that job says. At the root a RESULT
	// with the full bitmap and a full UDP checksum, to the group; else DATA with
	// the parent's bits, priority 0 and without checksum, to the parent.
	Publish string `json:"publish"`
	// Uplink: sent as the uplink entry of that job says: DATA with the job's id,
	// generation and cookie, priority 0 and without checksum. Seq, op, flags,
	// bitmap and elements are the slot's, and have to be given.
	Uplink string `json:"uplink"`
	// MayBeSaturated: a target may flag this packet SATURATED where it is not,
	// for a sum that only touched an end of the range.
	MayBeSaturated bool `json:"may_be_saturated"`
	Packet
}

//go:embed testdata/*.json
var testdata embed.FS

// Load reads the cases of testdata.
func Load() ([]*File, error) {
	names, err := testdata.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	var files []*File
	for _, entry := range names {
		name := path.Join("testdata", entry.Name())
		b, err := testdata.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		file.Name = entry.Name()[:len(entry.Name())-len(".json")]
		files = append(files, file)
	}
	return files, nil
}

// parse reads one file, and refuses what it does not know: a misspelt field
// would be a case that says less than it seems to.
func parse(b []byte) (*File, error) {
	file := &File{}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(file); err != nil {
		return nil, err
	}
	if err := file.Fixture.check(); err != nil {
		return nil, fmt.Errorf("fixture: %w", err)
	}
	var names []string
	for _, c := range file.Cases {
		if c.Name == "" || slices.Contains(names, c.Name) {
			return nil, fmt.Errorf("a case is called %q: it needs a name of its own", c.Name)
		}
		names = append(names, c.Name)
		for i := range c.Steps {
			if _, err := file.Fixture.resolve(&c.Steps[i]); err != nil {
				return nil, fmt.Errorf("case %q, step %d: %w", c.Name, i+1, err)
			}
		}
	}
	return file, nil
}

// expected is a frame that has to leave by a port.
type expected struct {
	port           uint16
	frame          *Frame
	mayBeSaturated bool
}

// exchange is a step with its packets made.
type exchange struct {
	port  uint16
	frame []byte
	out   []expected
}

// resolve makes the packets of a step.
func (f *Fixture) resolve(s *Step) (*exchange, error) {
	in, port, err := f.frameIn(&s.In)
	if err != nil {
		return nil, fmt.Errorf("in: %w", err)
	}
	x := &exchange{port: port, frame: in.Bytes()}
	for i := range s.Out {
		out, err := f.frameOut(in, &s.Out[i])
		if err != nil {
			return nil, fmt.Errorf("out %d: %w", i+1, err)
		}
		x.out = append(x.out, out...)
	}
	return x, f.checkNames(s)
}

// Frame makes a packet that goes in, and says by which port.
func (f *Fixture) Frame(p *Packet) (port uint16, frame []byte, err error) {
	in, port, err := f.frameIn(p)
	if err != nil {
		return 0, nil, err
	}
	return port, in.Bytes(), nil
}

// checkNames makes sure that counters are called by names that exist.
func (f *Fixture) checkNames(s *Step) error {
	for job, counts := range s.Events {
		if job != "" && f.Jobs[job] == nil {
			return fmt.Errorf("events of job %q, which does not exist", job)
		}
		for event := range counts {
			if _, ok := events[event]; !ok {
				return fmt.Errorf("event %q does not exist", event)
			}
		}
	}
	for _, counts := range []map[string]uint64{s.Preempted, s.Saturated} {
		for job := range counts {
			if f.Jobs[job] == nil {
				return fmt.Errorf("counter of job %q, which does not exist", job)
			}
		}
	}
	for job, members := range s.Members {
		for host := range members {
			if f.Jobs[job] == nil || f.Hosts[host].Port == 0 {
				return fmt.Errorf("counter of %q in job %q, which do not exist", host, job)
			}
		}
	}
	return nil
}

// frameOut is what has to come out for one Output.
func (f *Fixture) frameOut(in *Frame, o *Output) ([]expected, error) {
	frame := in.clone()
	var ports []uint16
	var err error
	switch {
	case o.Host != "":
		host, ok := f.Hosts[o.Host]
		if !ok {
			return nil, fmt.Errorf("host %q does not exist", o.Host)
		}
		frame.EthDst, ports = host.MAC, []uint16{host.Port}
	case o.Publish != "":
		ports, err = f.publish(frame, o.Publish)
	case o.Uplink != "":
		ports, err = f.uplink(frame, o)
	default:
		ports = o.Ports
	}
	if err != nil {
		return nil, err
	}
	if len(ports) == 0 {
		return nil, fmt.Errorf("it leaves by no port")
	}
	if err := f.apply(frame, &o.Packet); err != nil {
		return nil, err
	}
	var out []expected
	for _, port := range ports {
		out = append(out, expected{port: port, frame: frame, mayBeSaturated: o.MayBeSaturated})
	}
	return out, nil
}

// publish rewrites the frame as the publish entry of the job says.
func (f *Fixture) publish(frame *Frame, name string) ([]uint16, error) {
	job := f.Jobs[name]
	if job == nil || frame.Header == nil {
		return nil, fmt.Errorf("nothing of job %q can be published", name)
	}
	h := frame.Header
	switch w, p := job.ToWorkers, job.ToParent; {
	case w != nil:
		h.Type, h.Bitmap = wire.Result, job.Full()
		frame.EthSrc, frame.EthDst, frame.Src, frame.Dst = w.SrcMAC, w.DstMAC, w.Src, w.Dst
		frame.SrcPort, frame.DstPort, frame.Checksum = w.SrcPort, w.DstPort, Full
		return f.Groups[w.Group], nil
	case p != nil:
		h.Bitmap, h.Priority = uint64(p.Bits), 0
		frame.EthDst, frame.Src, frame.Dst = p.MAC, p.Src, p.Dst
		frame.DstPort, frame.Checksum = p.DstPort(h.Seq), None
		return []uint16{p.Port}, nil
	}
	return nil, fmt.Errorf("job %q has no publish entry", name)
}

// uplink rewrites the frame as the uplink entry of the job says.
func (f *Fixture) uplink(frame *Frame, o *Output) ([]uint16, error) {
	job := f.Jobs[o.Uplink]
	if job == nil || job.SendUp == nil || frame.Header == nil {
		return nil, fmt.Errorf("job %q has no uplink entry", o.Uplink)
	}
	if o.Seq == nil || o.Op == nil || o.Flags == nil || o.Bitmap == nil || o.Elements == nil {
		return nil, fmt.Errorf("seq, op, flags, bitmap and elements of what goes up have to be given")
	}
	u := job.SendUp
	h := frame.Header
	h.Type, h.Job, h.Generation, h.Cookie, h.Priority = wire.Data, job.ID, job.Generation, uint32(job.Cookie), 0
	frame.EthDst, frame.Src, frame.Dst = u.MAC, u.Src, u.Dst
	frame.DstPort, frame.Checksum = u.DstPort(uint32(*o.Seq)), None
	return []uint16{u.Port}, nil
}
