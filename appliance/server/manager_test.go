package server_test

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	"spillway/appliance/events"
	"spillway/appliance/jobs"
	"spillway/appliance/ledger"
	"spillway/appliance/store"
	"spillway/p4/pipeline"
	"spillway/xdp"
)

// paths has all workers behind the loopback interface, which is there wherever tests run. Nothing is sent to them.
type paths struct{}

func (paths) To(context.Context, netip.Addr) (jobs.Path, error) {
	return jobs.Path{Ifindex: 1, Interface: "lo", Home: netip.MustParseAddr("10.255.0.1"), MTU: 1500, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}, nil
}

// newManager is a manager of jobs with the aggregator in the kernel.
func newManager(t testing.TB, dir string, log *events.Log) (*jobs.Manager, *xdp.Aggregator) {
	t.Helper()
	slots := xdp.Slots{4096, 64, 64, 64}
	aggregator, err := xdp.Load(xdp.Config{MaxJobs: 32, Slots: slots, FirstPort: pipeline.FirstPort, Ports: 2 * pipeline.Ports})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	storage, err := store.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	manager, err := jobs.New(jobs.Config{
		Ledger: ledger.Config{
			Slots: slots, MaxJobs: 32, Groups: netip.MustParsePrefix("239.77.0.0/16"), FirstWorkerPort: 9800, LastWorkerPort: 10055,
		},
		Defaults: jobs.Defaults{Window: 15, Elements: 32},
		Storage:  storage,
		Nodes:    []jobs.Node{{Aggregator: jobs.Local(aggregator), Paths: paths{}, Slots: slots, MTU: 1500}},
		Events:   log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := manager.Close(); err != nil {
			t.Error(err)
		}
		if err := aggregator.Close(); err != nil {
			t.Error(err)
		}
	})
	return manager, aggregator
}
