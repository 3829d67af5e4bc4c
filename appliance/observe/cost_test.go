package observe

import (
	"net/netip"
	"testing"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/xdp"
)

// oneJob is a manager's answers about one job.
type oneJob struct{ job *v1.Job }

func (o oneJob) List() []*v1.Job                      { return []*v1.Job{o.job} }
func (o oneJob) Get(string) (*v1.Job, error)          { return o.job, nil }
func (o oneJob) Workers(string) ([]*v1.Worker, error) { return nil, nil }
func (o oneJob) Capacity() *v1.Capacity               { return &v1.Capacity{} }

// BenchmarkSnapshot is what an answer to Prometheus costs with the largest ring that a window of 1023 chunks has, in the kernel's maps.
func BenchmarkSnapshot(b *testing.B) {
	plane, err := xdp.Load(xdp.Config{Slots: xdp.Slots{2048, 0, 0, 0}, MaxJobs: 2})
	if err != nil {
		b.Fatal(err)
	}
	defer plane.Close()
	err = plane.AddJob(xdp.Job{
		ID: 1, Elements: 32, Window: 1023, Workers: 1, Home: netip.MustParseAddrPort("10.0.0.1:9700"), HomePorts: 1,
		Group: netip.MustParseAddr("239.77.0.1"), WorkerPort: 9800, Members: []xdp.Member{{Addr: netip.MustParseAddr("10.0.0.2"), Bits: 1}},
	})
	if err != nil {
		b.Fatal(err)
	}
	o := New(Config{Plane: plane, Jobs: oneJob{&v1.Job{Spec: &v1.JobSpec{Name: "train", Workers: 1}, Id: 1, Generation: 1}}})
	for b.Loop() {
		if s := o.Snapshot(b.Context()); len(s.Failures) != 0 {
			b.Fatal(s.Failures)
		}
	}
}
