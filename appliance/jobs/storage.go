package jobs

import "spillway/appliance/store"

// Storage is where jobs are written down: a store.Store on an appliance that stands alone, etcd where several share their jobs. A call that fails may have
// changed what is written, or not. Records are those of package store, in its JSON (store.Decode). The Manager closes it.
type Storage interface {
	// Put writes a job down, in the place of one of the same name. Delete strikes it out, which is no error when there is none.
	Put(job store.Job) error
	Delete(name string) error
	Jobs() ([]store.Job, error)
	// PutLimits writes down what the ToR can hold; Limits reads it, false: it was never written.
	PutLimits(limits store.Limits) error
	Limits() (store.Limits, bool, error)
	// PutDrained writes down which nodes an operator wants nothing homed at.
	PutDrained(nodes []string) error
	Drained() ([]string, error)
	// ForgetNode strikes out what is written of an appliance itself; false: nothing was. The error wraps ErrNodeThere when the appliance is there.
	ForgetNode(name string) (bool, error)
	Close() error
}
