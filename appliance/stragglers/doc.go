// Package stragglers says who holds a job up. The data plane measures how much later than a chunk's first contribution each worker's came; what that
// means for the others is worked out here, for the doctor and the tables of spillctl as for the Tracker, which makes events of it.
package stragglers
