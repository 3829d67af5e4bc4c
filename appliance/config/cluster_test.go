package config

import (
	"errors"
	"strings"
	"testing"
)

// clusterText is a configuration with a cluster; the lines given take the place of those of its etcd.
func clusterText(section string) string {
	return "name: a\ninterfaces: [{name: eth0, address: 10.0.0.1}]\napi:\n  listen: 10.0.0.1:9690\n  tls: {certificate: /s.crt, key: /s.key, ca: /ca.crt}\ncluster:\n" + section
}

const clusterTLS = "  listen: 10.1.0.1:9692\n  tls: {certificate: /n.crt, key: /n.key, ca: /nodes.crt}\n"

func TestCluster(t *testing.T) {
	for _, test := range []struct {
		name, section string
		want          []string // in the problems; none: it is right
	}{
		{"embedded", clusterTLS + "  etcd: {embedded: {members: [{name: a, address: '10.1.0.1:2380'}]}}\n", nil},
		{"external", clusterTLS + "  etcd: {endpoints: ['etcd0.lab:2379']}\n", nil},
		{"clients with an authority of their own", clusterTLS + "  etcd: {embedded: {clients: '10.1.0.1:2379', members: [{name: a, address: '10.1.0.1:2380'}]}}\n", nil},
		{"nothing", "  rack: r7\n", []string{"cluster.listen: is missing", "cluster.tls: is missing", "cluster.etcd: says of no etcd where it is"}},
		{"both", clusterTLS + "  etcd: {endpoints: ['e:2379'], embedded: {members: [{name: a, address: '10.1.0.1:2380'}]}}\n", []string{"leave one of the two out"}},
		{"not among them", clusterTLS + "  etcd: {embedded: {members: [{name: b, address: '10.1.0.1:2380'}]}}\n", []string{"a, this appliance (name), is not among them"}},
		{"two", clusterTLS + "  etcd: {embedded: {members: [{name: a, address: '10.1.0.1:2380'}, {name: b, address: '10.1.0.2:2380'}]}}\n", []string{"2 members survive no more failures than 1"}},
		{"twice", clusterTLS + "  etcd: {embedded: {members: [{name: a, address: '10.1.0.1:2380'}, {name: a, address: '10.1.0.1:2380'}, {name: b, address: '10.1.0.2:2380'}]}}\n",
			[]string{"a is in the list already", "10.1.0.1:2380 is another member's already"}},
		{"one authority for all", "  listen: 10.1.0.1:9692\n  tls: {certificate: /n.crt, key: /n.key, ca: /ca.crt}\n  etcd: {embedded: {clients: '10.1.0.1:2379', members: [{name: a, address: '10.1.0.1:2380'}]}}\n",
			[]string{"cluster.tls.ca: /ca.crt is that of workers too"}},
		{"anywhere", "  listen: 0.0.0.0:9692\n  tls: {certificate: /n.crt, key: /n.key, ca: /nodes.crt}\n  etcd: {endpoints: ['e:0']}\n",
			[]string{`"0.0.0.0:9692" is not an address and a port that others can call`, `"e:0" is not`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f", []byte(clusterText(test.section)))
			var invalid *Error
			if err != nil && !errors.As(err, &invalid) {
				t.Fatal(err)
			}
			if len(test.want) == 0 && err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
			if invalid != nil && len(invalid.Problems) != len(test.want) {
				t.Errorf("%d problems, want %d: %v", len(invalid.Problems), len(test.want), err)
			}
		})
	}
}
