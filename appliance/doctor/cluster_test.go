package doctor

import (
	"strings"
	"testing"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

func TestCluster(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	same := map[string]string{"a": "1.0", "b": "1.0"}
	lost := []*v1.ClusterNode{{Name: "a", State: v1.NodeState_NODE_STATE_READY}, {Name: "b", State: v1.NodeState_NODE_STATE_LOST, Reason: "no answer to the heartbeat for 600ms"}}
	for _, test := range []struct {
		name    string
		cluster *Cluster
		level   v1.FindingLevel
		want    string // empty: no finding
	}{
		{"alone", nil, 0, ""},
		{"led", &Cluster{Name: "r7", Leader: "b", Versions: same}, v1.FindingLevel_FINDING_LEVEL_OK, "one of 2 appliances of cluster r7, led by b"},
		{"leads", &Cluster{Name: "r7", Leader: "a", Leads: true, Versions: same}, v1.FindingLevel_FINDING_LEVEL_OK, "which this one leads"},
		{"no leader", &Cluster{Name: "r7", Since: now.Add(-time.Minute), Trouble: "read the members from etcd: context deadline exceeded"}, v1.FindingLevel_FINDING_LEVEL_ERROR,
			"no appliance has led cluster r7 for 1m"},
		{"no quorum", &Cluster{Name: "r7", Leader: "b", Trouble: "read the members from etcd: context deadline exceeded"}, v1.FindingLevel_FINDING_LEVEL_ERROR, "no part in cluster r7"},
		{"a node is lost", &Cluster{Name: "r7", Leader: "a", Leads: true, Nodes: lost, Versions: same}, v1.FindingLevel_FINDING_LEVEL_WARNING, "appliance b is lost (no answer"},
		{"versions", &Cluster{Name: "r7", Leader: "a", Versions: map[string]string{"a": "1.0", "b": "1.1"}}, v1.FindingLevel_FINDING_LEVEL_WARNING, "different versions: a 1.0, b 1.1"},
		{"slow", &Cluster{Name: "r7", Leader: "a", Write: time.Second, Versions: same}, v1.FindingLevel_FINDING_LEVEL_WARNING, "the last write to etcd took 1s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var found []*v1.Finding
			for _, f := range Diagnose(t.Context(), Sources{Now: now, Cluster: test.cluster}) {
				if f.GetCheck() == "cluster" {
					found = append(found, f)
				}
			}
			if test.want == "" {
				if len(found) > 0 {
					t.Errorf("found %v", found)
				}
				return
			}
			if len(found) != 1 || found[0].GetLevel() != test.level || !strings.Contains(found[0].GetText(), test.want) || (found[0].GetRemedy() == "") != (test.level == v1.FindingLevel_FINDING_LEVEL_OK) {
				t.Errorf("found %v, want one of level %v with %q", found, test.level, test.want)
			}
		})
	}
}
