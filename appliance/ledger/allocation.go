package ledger

import (
	"encoding/json"
	"net/netip"

	"spillway/xdp"
)

// Allocation is what a job holds. Its form in JSON is that of the state file.
type Allocation struct {
	ID uint16
	// Slots is how many its ring has, in the size class that has room for ClassElements, at each of the Places.
	Slots         uint32
	ClassElements int
	// Places are where its rings are: each at another node, the least number that its shards make do with being one.
	Places     []Place
	WorkerPort uint16
	// Group is not valid when the job has none.
	Group netip.Addr
	// Region is nil when the ToR sums nothing of the job.
	Region *Region
}

// Place is a ring of slots at a node, from slot First on.
type Place struct {
	Node  string `json:"node,omitempty"`
	First uint32 `json:"first"`
}

// Bytes is the memory that the job's slots take in the aggregators.
func (a *Allocation) Bytes() uint64 {
	class, _ := xdp.ClassOf(a.ClassElements)
	return uint64(len(a.Places)) * uint64(a.Slots) * xdp.SlotBytes(class)
}

// Place is the job's place at a node.
func (a *Allocation) Place(node string) (Place, bool) {
	for _, p := range a.Places {
		if p.Node == node {
			return p, true
		}
	}
	return Place{}, false
}

// written is the form in the file. The first place is written as a daemon had it that knew of one node only, and can read the file still.
type written struct {
	ID            uint16     `json:"id"`
	First         uint32     `json:"first"`
	Slots         uint32     `json:"slots"`
	ClassElements int        `json:"class_elements"`
	WorkerPort    uint16     `json:"worker_port"`
	Group         netip.Addr `json:"group,omitzero"`
	Region        *Region    `json:"region,omitempty"`
	Node          string     `json:"node,omitempty"`
	More          []Place    `json:"more_places,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (a Allocation) MarshalJSON() ([]byte, error) {
	w := written{ID: a.ID, Slots: a.Slots, ClassElements: a.ClassElements, WorkerPort: a.WorkerPort, Group: a.Group, Region: a.Region}
	if len(a.Places) > 0 {
		w.Node, w.First, w.More = a.Places[0].Node, a.Places[0].First, a.Places[1:]
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Allocation) UnmarshalJSON(text []byte) error {
	var w written
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*a = Allocation{
		ID: w.ID, Slots: w.Slots, ClassElements: w.ClassElements, WorkerPort: w.WorkerPort, Group: w.Group, Region: w.Region,
		Places: append([]Place{{w.Node, w.First}}, w.More...),
	}
	return nil
}
