package xdp

import "testing"

// TestGrowth: a job costs the same memory whatever there is beside it.
func TestGrowth(t *testing.T) {
	var last GrowthResult
	for _, jobs := range []int{4, 64} {
		r, err := RunGrowthBench(jobs)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
		if r.PacketNS <= 0 || r.AddMS <= 0 || r.SlotsMS <= 0 {
			t.Errorf("%+v: want times above 0", r)
		}
		if last.Jobs > 0 && r.MapBytesPerJob > last.MapBytesPerJob {
			t.Errorf("a job takes %.0f bytes of maps among %d, and %.0f among %d", r.MapBytesPerJob, r.Jobs, last.MapBytesPerJob, last.Jobs)
		}
		last = r
	}
}
