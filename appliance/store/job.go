package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/ledger"
)

// Job is what is written down of a job.
type Job struct {
	// Spec is the specification as admitted.
	Spec       *v1.JobSpec       `json:"-"`
	Allocation ledger.Allocation `json:"allocation"`
	Created    time.Time         `json:"created"`
	// Since is when the job's state became what it is.
	Since    time.Time `json:"since"`
	Draining bool      `json:"draining,omitempty"`
	// Generation counts the times that all ranks joined, and those that a generation went on as a new one, which are Moves.
	Generation uint32 `json:"generation"`
	Moves      uint32 `json:"moves,omitempty"`
	// Running is the generation that is in the data plane; nil: none is.
	Running *Generation `json:"running,omitempty"`
}

// Name is the job's.
func (j *Job) Name() string { return j.Spec.GetName() }

// Parts are those that a member has in the running generation and had in those that it goes on from, the latest last.
func (j *Job) Parts() []Part {
	return append(slices.Clone(j.Running.Before), Part{j.Generation, j.Running.Cookie})
}

// written is the form in the file: the specification is that of the API, by the names of its fields.
type written struct {
	Spec json.RawMessage `json:"spec"`
	plain
}

// plain is a Job without its methods.
type plain Job

// MarshalJSON implements json.Marshaler.
func (j Job) MarshalJSON() ([]byte, error) {
	spec, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(j.Spec)
	if err != nil {
		return nil, fmt.Errorf("specification: %w", err)
	}
	return json.Marshal(written{Spec: spec, plain: plain(j)})
}

// UnmarshalJSON implements json.Unmarshaler. It leaves out what it does not know.
func (j *Job) UnmarshalJSON(text []byte) error {
	var w written
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	if len(w.Spec) == 0 {
		return errors.New("no specification")
	}
	spec := &v1.JobSpec{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(w.Spec, spec); err != nil {
		return fmt.Errorf("specification: %w", err)
	}
	*j = Job(w.plain)
	j.Spec = spec
	return nil
}

// Decode reads a record as JSON has it, of this schema or one before, and refuses one that no daemon has written.
func Decode(text []byte) (Job, error) {
	var j Job
	if err := json.Unmarshal(text, &j); err != nil {
		return Job{}, err
	}
	switch {
	case j.Name() == "":
		return Job{}, errors.New("it has no name")
	case j.Spec.GetWorkers() < 1 || j.Spec.GetWorkers() > 64:
		return Job{}, fmt.Errorf("it has %d workers", j.Spec.GetWorkers())
	case j.Running != nil && len(j.Running.Members) != int(j.Spec.GetWorkers()) &&
		(j.Spec.GetMinWorkers() == 0 || len(j.Running.Members) < 1 || len(j.Running.Members) > int(j.Spec.GetWorkers())):
		return Job{}, fmt.Errorf("generation %d has %d members, the job %d workers", j.Generation, len(j.Running.Members), j.Spec.GetWorkers())
	}
	return j, nil
}
