package rack

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/config"
	"spillway/appliance/refusal"
)

// An operator hears of the packets of no job at all appliances. One that is gone for good is lost until it is forgotten, one that is there cannot be, and one that
// comes back is known again.
func TestForgotten(t *testing.T) {
	r := build(t, Config{Workers: 2, Appliances: 3})
	dropped := func() (n uint64) {
		t.Helper()
		counters, err := r.Unassigned(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range counters {
			n += value
		}
		return n
	}
	before := dropped()
	for index := range r.Appliances() {
		err := r.InWorker(0, func() error {
			to, err := net.Dial("udp", netip.AddrPortFrom(ApplianceAddr(index), config.FirstHomePort).String())
			if err != nil {
				return err
			}
			defer to.Close()
			_, err = to.Write(make([]byte, 64)) // which is of no version
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := r.ask(t.Context(), "packets of no job at 3 appliances", func(*daemon) (bool, error) { return dropped() == before+3, nil })
	if err != nil {
		t.Error(err)
	}

	leader, err := r.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone := (leader + 1) % 3
	name := ApplianceName(gone)
	forget := func(d *daemon) error {
		_, err := d.cluster.ForgetNode(t.Context(), &v1.ForgetNodeRequest{Name: name})
		return err
	}
	if refused := refusal.Of(forget(r.operator())); refused == nil || refused.Reason != refusal.NodeInUse {
		t.Errorf("one that is there: %v", refused)
	}
	if err := r.KillDaemon(gone); err != nil {
		t.Fatal(err)
	}
	err = r.ask(t.Context(), "forget "+name, func(d *daemon) (bool, error) {
		err := forget(d)
		if status.Code(err) == codes.FailedPrecondition { // it is missed within a second, and its lease in etcd ends after some
			return false, nil
		}
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := r.operator().cluster.ListNodes(t.Context(), &v1.ListNodesRequest{})
	if err != nil || len(nodes.GetNodes()) != 2 || slices.ContainsFunc(nodes.GetNodes(), func(n *v1.ClusterNode) bool { return n.GetName() == name }) {
		t.Errorf("%s is forgotten, and there are %v, %v", name, nodes.GetNodes(), err)
	}
	if refused := refusal.Of(forget(r.operator())); refused == nil || refused.Reason != refusal.NoSuchNode {
		t.Errorf("one that is forgotten: %v", refused)
	}
	if err := r.StartDaemon(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if err := r.AwaitNode(t.Context(), gone); err != nil {
		t.Error(fmt.Errorf("%s is back: %w", name, err))
	}
}
