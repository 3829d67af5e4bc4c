package dataplane

import "testing"

// TestBench holds the bench to its job: each case runs, and decides what it should.
func TestBench(t *testing.T) {
	for _, elements := range []int{32, 832} {
		r, err := benchOne(elements, 1, 2000)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
		for _, ns := range []float64{r.ClaimNS, r.MergeNS, r.CompleteNS, r.PreemptNS, r.SpillNS, r.ResendNS, r.BareNS} {
			if ns <= 0 {
				t.Errorf("%+v: want times above 0", r)
			}
		}
	}
}

// BenchmarkTor is RunBench for go test -bench.
func BenchmarkTor(b *testing.B) {
	for b.Loop() {
		results, err := RunBench([]int{32, 256, 832}, 5)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range results {
			b.Logf("%+v", r)
		}
	}
}
