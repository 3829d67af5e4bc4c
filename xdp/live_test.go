package xdp

import "testing"

// TestLiveBench: all scenarios run, every packet that arrives is part of a chunk, and chunks are published.
func TestLiveBench(t *testing.T) {
	results, err := RunLiveBench(t.Context(), 256, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		t.Logf("%+v", r)
		if r.PacketsPerS <= 0 || r.BarePacketsPerS <= 0 || r.LinkPacketsPerS <= 0 || r.PayloadGbps <= 0 {
			t.Errorf("%+v: want rates above 0", r)
		}
	}
}
