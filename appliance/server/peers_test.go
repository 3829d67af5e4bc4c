package server_test

import (
	"context"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/certs"
	peers "spillway/appliance/cluster/peer"
	"spillway/appliance/jobs"
	"spillway/appliance/refusal"
	"spillway/appliance/server"
)

// term is that of the leader that the appliances of these tests know.
const term = 5

func appliance(name string) certs.Request {
	return certs.Request{Name: name, Identity: certs.Identity{Node: name}, Addresses: []netip.Addr{loopback}}
}

// clustered serves with a door for other appliances, whose authority is that of everybody.
func clustered(t testing.TB) *rig { return clusteredWith(t, func(*rig) {}) }

func clusteredWith(t testing.TB, change func(*rig)) *rig {
	t.Helper()
	terms := peers.NewTerms()
	if err := terms.Admit(term); err != nil {
		t.Fatal(err)
	}
	health := make(chan struct{})
	return startWith(t, func(r *rig) {
		own, err := r.lab.Issue(appliance("agg0"))
		if err == nil {
			own.Authority = nil
			err = own.Write(r.dir, "node", false)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.config.Peers = &server.Peers{
			Listen: "127.0.0.1:0",
			TLS:    server.TLS{Certificate: filepath.Join(r.dir, "node.crt"), Key: filepath.Join(r.dir, "node.key"), Authorities: filepath.Join(r.dir, "ca.crt")},
			Service: peers.NewService(peers.Config{
				Name: "agg0", Version: "1", Terms: terms, Aggregator: jobs.Local(r.aggregator), Plane: r.aggregator, Paths: paths{},
				Health: func() (bool, string, <-chan struct{}) { return true, "", health },
			}),
		}
		change(r)
	})
}

// TestForwarded: an appliance that does not lead passes on what operators ask of it, with the leader's answers and refusals; and does so once.
func TestForwarded(t *testing.T) {
	leader := clustered(t)
	var away atomic.Bool
	to := dial(t, leader.PeersAddr(), leader.issue(t, appliance("agg1")))
	follower := startWith(t, func(r *rig) {
		r.config.Leader = func() (*grpc.ClientConn, error) {
			if away.Load() {
				return nil, refusal.New(codes.Unavailable, refusal.NotLeader, "no appliance leads the cluster right now")
			}
			return to, nil
		}
	})
	api := v1.NewJobServiceClient(follower.overSocket(t))
	if _, err := api.CreateJob(within(t), &v1.CreateJobRequest{Spec: &v1.JobSpec{Name: "train", Workers: 2}}); err != nil {
		t.Fatal(err)
	}
	if _, err := leader.jobs.Get("train"); err != nil {
		t.Errorf("the job is not at the leader: %v", err)
	}
	if len(follower.jobs.List()) != 0 {
		t.Error("the job is at the follower")
	}
	_, err := api.CreateJob(within(t), &v1.CreateJobRequest{Spec: &v1.JobSpec{Name: "train", Workers: 2}})
	wantRefusal(t, err, refusal.JobExists, "train")
	_, err = api.CreateJob(within(t), &v1.CreateJobRequest{Spec: &v1.JobSpec{Name: "Train", Workers: 2}})
	wantRefusal(t, err, refusal.BadRequest, "spec.name")

	watching, err := api.WatchJobs(within(t), &v1.WatchJobsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watching.Recv(); err != nil || first.GetJob().GetSpec().GetName() != "train" {
		t.Errorf("watched: %v, %v", first, err)
	}
	node, err := v1.NewNodeServiceClient(follower.overSocket(t)).GetNode(within(t), &v1.GetNodeRequest{})
	if err != nil || node.GetName() != "agg0" {
		t.Errorf("the appliance itself: %v, %v", node, err)
	}

	away.Store(true)
	_, err = api.ListJobs(within(t), &v1.ListJobsRequest{})
	wantRefusal(t, err, refusal.NotLeader, "no appliance leads")

	// The one that is called is no leader either: it must not pass the call on for ever.
	away.Store(false)
	second := clusteredWith(t, func(r *rig) { r.config.Leader = func() (*grpc.ClientConn, error) { return to, nil } })
	_, err = call(context.Background(), dial(t, second.PeersAddr(), second.issue(t, appliance("agg1"))), v1.JobService_ListJobs_FullMethodName, &v1.ListJobsRequest{})
	wantRefusal(t, err, refusal.NotLeader, "call again")
}
