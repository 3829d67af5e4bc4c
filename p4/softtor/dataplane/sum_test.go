package dataplane

import (
	"testing"
)

// TestSum takes one chunk of every length through claim, merge and completion,
// and compares the RESULT, bit for bit, with a sum made here.
func TestSum(t *testing.T) {
	for limit := range shared {
		for elems := 32; elems <= limit; elems += 32 {
			r := setUp(t, limit, jobA)
			const seq = 5
			r.send("first", jobA.data(0, seq, elems), nil, jobA.at("claimed"))
			r.send("second", jobA.data(2, seq, elems), nil, jobA.at("merged"))
			last := jobA.data(1, seq, elems)
			r.send("last", last, jobA.result(last, 0, sum(seq, elems, 0, 1, 2)), jobA.at("completed"))
			if s := r.state(); len(s.Slots) != 0 {
				t.Errorf("slots are left: %v", s.Slots)
			}
		}
	}
}
