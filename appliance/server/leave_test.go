package server_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
	"spillway/appliance/server"
)

// TestGoingAway: health says so first, then calls that are there end, with a reason, and nothing is left.
func TestGoingAway(t *testing.T) {
	var r *rig
	var health healthpb.HealthClient
	var watch grpc.ServerStreamingClient[healthpb.HealthCheckResponse]
	left := make(chan struct{})
	r = start(t, func(config *server.Config) {
		config.Leaving = func() {
			defer close(left)
			// Here others still take part; health is not serving any more, and new calls are refused.
			update, err := watch.Recv()
			if err != nil || update.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
				t.Errorf("watch when leaving: %v, %v", update, err)
			}
			if now, err := health.Check(within(t), &healthpb.HealthCheckRequest{Service: "spillway.v1.JobService"}); err != nil || now.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
				t.Errorf("check when leaving: %v, %v", now, err)
			}
		}
	})
	conn := r.overTCP(t, r.issue(t, operator()))
	health = healthpb.NewHealthClient(conn)
	var err error
	if watch, err = health.Watch(within(t), &healthpb.HealthCheckRequest{Service: "spillway.v1.WorkerService"}); err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", first, err)
	}
	overTCP, overSocket := follow(t, r, within(t), conn), follow(t, r, within(t), r.overSocket(t))
	jobs, err := v1.NewJobServiceClient(conn).WatchJobs(within(t), &v1.WatchJobsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if synced, err := jobs.Recv(); err != nil || !synced.GetSynced() {
		t.Fatalf("%v, %v", synced, err)
	}

	r.stop()
	for _, stream := range []grpc.ServerStreamingClient[v1.StreamEventsResponse]{overTCP, overSocket} {
		for err = nil; err == nil; {
			_, err = stream.Recv() // an event of the other's, perhaps
		}
		wantRefusal(t, err, refusal.ShuttingDown, "call again")
	}
	_, err = jobs.Recv()
	wantRefusal(t, err, refusal.ShuttingDown)
	<-left
	_, err = watch.Recv()
	wantRefusal(t, err, refusal.ShuttingDown)
	r.gone(t)
	if _, err := os.Lstat(r.config.Socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if err := getNode(within(t), conn); err == nil || refusal.Of(err) == nil {
		t.Errorf("a call after the end: %v", err)
	}
}

// TestGoingAwayFromStuckCallers: a reader that stands still, and one that never asks, do not keep the server.
func TestGoingAwayFromStuckCallers(t *testing.T) {
	r := start(t, func(config *server.Config) { config.Limits.Leave = 300 * time.Millisecond })
	conn := dial(t, r.Addr(), r.issue(t, operator()), grpc.WithStaticStreamWindowSize(1<<16), grpc.WithStaticConnWindowSize(1<<16))
	follow(t, r, within(t), conn)
	for range 1000 {
		r.events.Add(v1.EventLevel_EVENT_LEVEL_INFO, "test", "", nil, "%s", strings.Repeat("x", 1000))
	}
	silent, err := net.Dial("tcp", r.Addr()) // half way into TLS
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := r.overSocket(t).NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, v1.WorkerService_Join_FullMethodName); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	r.stop()
	r.gone(t)
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("it took %v to go away", took)
	}
}
