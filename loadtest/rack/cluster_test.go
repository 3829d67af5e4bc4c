package rack

import (
	"testing"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// leader waits until an appliance says who leads, and returns its index.
func leader(t *testing.T, r *Rack, ask int) int {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		answer, err := r.appliances[ask].daemon.cluster.ListNodes(t.Context(), &v1.ListNodesRequest{})
		if err == nil {
			for _, n := range answer.GetNodes() {
				for _, a := range r.appliances {
					if n.GetLeader() && n.GetName() == ApplianceName(a.index) {
						return a.index
					}
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no leader: %v %v", answer, err)
		}
		time.Sleep(lookEvery)
	}
}

func TestClusterThin(t *testing.T) {
	begun := time.Now()
	r := build(t, Config{Workers: 2, Appliances: 3})
	t.Log("built after", time.Since(begun))
	t.Log("leader", leader(t, r, 0), time.Since(begun))
	for i := range r.appliances {
		t.Log("leader by", i, leader(t, r, i))
	}
}
