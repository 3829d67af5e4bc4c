package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/appliance/server"
)

// create makes a job.
func (r *rig) create(t testing.TB, name string, workers uint32) {
	t.Helper()
	_, err := v1.NewJobServiceClient(r.overSocket(t)).CreateJob(within(t), &v1.CreateJobRequest{Spec: &v1.JobSpec{Name: name, Workers: workers}})
	if err != nil {
		t.Fatal(err)
	}
}

// parameters reads a join until it has what a worker needs.
func parameters(stream grpc.ServerStreamingClient[v1.JoinResponse]) (*v1.Parameters, error) {
	for {
		response, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if p := response.GetParameters(); p != nil {
			return p, nil
		}
	}
}

// TestTwoHundredJoin: four jobs of 50, all at once, each worker with a connection of its own.
func TestTwoHundredJoin(t *testing.T) {
	const count, ranks = 4, 50
	// The limits as they are: all come from one host, and from a burst.
	r := start(t, func(config *server.Config) { config.Limits = server.Limits{} })
	ctx := within(t)
	var group errgroup.Group
	got := [count][ranks]*v1.Parameters{}
	for j := range count {
		name := fmt.Sprintf("job-%d", j)
		r.create(t, name, ranks)
		request := worker(name)
		for rank := range ranks {
			request.Addresses = append(request.Addresses, netip.AddrFrom4([4]byte{10, 0, byte(j), byte(rank + 1)}))
		}
		config := r.issue(t, request)
		for rank := range ranks {
			conn := r.overTCP(t, config)
			group.Go(func() error {
				client := v1.NewWorkerServiceClient(conn)
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				stream, err := client.Join(ctx, &v1.JoinRequest{Job: name, Rank: uint32(rank), Address: request.Addresses[rank].String(), Description: "one of 200"})
				if err != nil {
					return err
				}
				p, err := parameters(stream)
				if err != nil {
					return fmt.Errorf("rank %d of %s: %w", rank, name, err)
				}
				got[j][rank] = p
				if _, err := client.Leave(ctx, &v1.LeaveRequest{Job: name, Rank: uint32(rank), Part: &v1.Resume{Generation: p.Generation, Cookie: p.Cookie}}); err != nil {
					return fmt.Errorf("rank %d of %s leaves: %w", rank, name, err)
				}
				for err == nil {
					_, err = stream.Recv()
				}
				if !errors.Is(err, io.EOF) {
					return fmt.Errorf("rank %d of %s, after it has left: %w", rank, name, err)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for j := range got {
		for rank, p := range got[j] {
			first := got[j][0]
			if p.Rank != uint32(rank) || p.Workers != ranks || p.JobId != first.JobId || p.Cookie != first.Cookie || p.Generation != 1 ||
				p.Address != fmt.Sprintf("10.0.%d.%d", j, rank+1) {
				t.Errorf("rank %d of job %d: %v; rank 0: %v", rank, j, p, first)
			}
		}
	}
	if installed := r.aggregator.Jobs(); len(installed) != count {
		t.Errorf("%d jobs are in the data plane, want %d", len(installed), count)
	}
	for _, job := range r.jobs.List() {
		if job.Present != 0 {
			t.Errorf("%d workers are present in %s after all have left", job.Present, job.Spec.Name)
		}
	}
}

// TestWorkersPart: a worker's certificate and address, from Join to Leave, beside a job that is none of its business.
func TestWorkersPart(t *testing.T) {
	r := start(t, nil)
	r.create(t, "a", 2)
	r.create(t, "b", 1)
	conn := r.overTCP(t, r.issue(t, worker("a")))
	client := v1.NewWorkerServiceClient(conn)
	waiting, err := client.Join(within(t), &v1.JoinRequest{Job: "a", Rank: 0})
	if err != nil {
		t.Fatal(err)
	}
	first, err := waiting.Recv()
	if err != nil || len(first.GetWaiting().GetMissing()) != 1 || first.GetWaiting().GetMissing()[0] != 1 {
		t.Fatalf("%v, %v; want rank 1 missing", first, err)
	}
	other := dial(t, r.Addr(), r.issue(t, worker("*")), grpc.WithContextDialer(from("127.0.0.2")))
	second, err := v1.NewWorkerServiceClient(other).Join(within(t), &v1.JoinRequest{Job: "a", Rank: 1})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := parameters(waiting)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := parameters(second)
	if err != nil {
		t.Fatal(err)
	}
	if mine.Address != "127.0.0.1" || theirs.Address != "127.0.0.2" {
		t.Errorf("addresses %s and %s", mine.Address, theirs.Address)
	}
	ownPart := &v1.Resume{Generation: mine.Generation, Cookie: mine.Cookie}
	for name, test := range map[string]struct {
		call   func() error
		reason refusal.Reason
	}{
		"another's job": {func() error {
			_, err := client.Leave(within(t), &v1.LeaveRequest{Job: "b", Part: ownPart})
			return err
		}, refusal.NotAuthorised},
		"a job that is not there": {func() error { // is not told apart from one that is
			_, err := client.Leave(within(t), &v1.LeaveRequest{Job: "c", Part: ownPart})
			return err
		}, refusal.NotAuthorised},
		"a cookie that is guessed": {func() error {
			_, err := client.Leave(within(t), &v1.LeaveRequest{Job: "a", Rank: 1, Part: &v1.Resume{Generation: mine.Generation, Cookie: mine.Cookie + 1}})
			return err
		}, refusal.GenerationOver},
		"another's address": {func() error {
			_, err := call(within(t), conn, v1.WorkerService_Join_FullMethodName, &v1.JoinRequest{Job: "a", Rank: 1, Address: "127.0.0.2", Resume: ownPart})
			return err
		}, refusal.AddressForeign},
	} {
		t.Run(name, func(t *testing.T) { wantRefusal(t, test.call(), test.reason) })
	}
	// A call that breaks off is noticed, and the others are told.
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	for {
		response, err := second.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if notice := response.GetNotice(); notice.GetKind() == v1.NoticeKind_NOTICE_KIND_LOST {
			if len(notice.GetRanks()) != 1 || notice.GetRanks()[0] != 0 {
				t.Errorf("lost: %v", notice)
			}
			break
		}
	}
}

// TestWorkerHearsThatTheServerGoes: in the words of the manager of jobs, which leaves the worker its part.
func TestWorkerHearsThatTheServerGoes(t *testing.T) {
	var r *rig
	r = start(t, func(config *server.Config) {
		config.Leaving = func() {
			if err := r.jobs.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	r.create(t, "a", 1)
	stream, err := v1.NewWorkerServiceClient(r.overTCP(t, r.issue(t, worker("a")))).Join(within(t), &v1.JoinRequest{Job: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parameters(stream); err != nil {
		t.Fatal(err)
	}
	r.stop()
	for err == nil {
		_, err = stream.Recv()
	}
	wantRefusal(t, err, refusal.ShuttingDown)
	r.gone(t)
	if installed := r.aggregator.Jobs(); len(installed) != 1 {
		t.Errorf("%d jobs are in the data plane, want the worker's", len(installed))
	}
}

// TestJoinWaitsAsLongAsItsCaller: no deadline of the server's ends a call that waits for others.
func TestJoinWaitsAsLongAsItsCaller(t *testing.T) {
	r := start(t, limited(server.Limits{Unary: 50e6, Send: 50e6}))
	r.create(t, "a", 2)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	stream, err := v1.NewWorkerServiceClient(r.overTCP(t, r.issue(t, worker("a")))).Join(ctx, &v1.JoinRequest{Job: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second is a heartbeat, after two seconds
		if response, err := stream.Recv(); err != nil || response.GetWaiting() == nil {
			t.Fatalf("%v, %v", response, err)
		}
	}
	cancel()
	r.log.until(t, "reason=CANCELLED")
	eventually(t, "the rank is free again", func() bool { return len(r.jobs.List()[0].Missing) == 2 })
	if strings.Contains(r.log.String(), "call refused") {
		t.Error("a caller that goes is written down as refused")
	}
}
