package command_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// TestLateWorker: a worker stands still. The API, the metrics and the doctor say which, and how long for.
func TestLateWorker(t *testing.T) {
	l := newLab(t)
	l.configure()
	l.run()
	l.create("train")
	l.create("idle")
	workers := l.join("train")
	progress(workers, 2)
	workers[1].signal(syscall.SIGSTOP)

	node := v1.NewNodeServiceClient(l.dial())
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var of []*v1.Worker
	l.eventually("rank 1 is late by three seconds", func() bool {
		response, err := node.ListWorkers(ctx, &v1.ListWorkersRequest{Job: "train"})
		l.must(err)
		of = response.GetWorkers()
		return of[1].GetLate().AsDuration() > 3*time.Second
	})
	if of[0].GetWaitedFor() != 0 || of[0].GetPackets() == 0 || of[1].GetWaitedFor() == 0 || of[1].GetPackets() == 0 ||
		time.Since(of[1].GetLastPacket().AsTime()) < time.Second || time.Since(of[1].GetLastPacket().AsTime()) > patience {
		t.Errorf("workers: %v", of)
	}
	slots, err := node.ListSlots(ctx, &v1.ListSlotsRequest{Job: "train", Limit: 1})
	l.must(err)
	if of := slots.GetSlots(); len(of) != 1 || fmt.Sprint(of[0].GetPresent(), of[0].GetMissing()) != "[0] [1]" || of[0].GetOp() != "SUM" && of[0].GetOp() != "MAX" ||
		of[0].GetAge().AsDuration() < 3*time.Second || slots.GetMore() == 0 { // a collective is two chunks at least
		t.Errorf("slots: %v", slots)
	}
	all, err := node.ListSlots(ctx, &v1.ListSlotsRequest{Job: "train", Complete: true, Limit: 4096})
	l.must(err)
	byAge := slices.IsSortedFunc(all.GetSlots(), func(a, b *v1.Slot) int { return cmp.Compare(b.GetAge().AsDuration(), a.GetAge().AsDuration()) })
	if len(all.GetSlots()) <= 1+int(slots.GetMore()) || all.GetMore() != 0 || !byAge {
		t.Errorf("%d slots with the complete ones, and %d more; %d without; the oldest first: %t", len(all.GetSlots()), all.GetMore(), 1+slots.GetMore(), byAge)
	}
	if code, body := l.get("/metrics"); code != 200 || !strings.Contains(body, `spillway_workers_late{job="train"} 1`) ||
		!strings.Contains(body, `spillway_workers_late{job="idle"} 0`) || strings.Contains(body, `spillway_oldest_waiting_chunk_seconds{job="train"} 0`+"\n") {
		t.Errorf("metrics: %d\n%s", code, body)
	}
	found, err := node.Diagnose(ctx, &v1.DiagnoseRequest{Job: "train"})
	l.must(err)
	if !strings.Contains(fmt.Sprint(found.GetFindings()), "rank 1") {
		t.Errorf("the doctor does not name rank 1: %v", found.GetFindings())
	}
	if _, err := node.ListSlots(ctx, &v1.ListSlotsRequest{Job: "nowhere"}); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a job that is not there: %v", err)
	}
	if response, err := node.ListWorkers(ctx, &v1.ListWorkersRequest{Job: "idle"}); err != nil || len(response.GetWorkers()) != 2 {
		t.Errorf("a job that nobody joined: %v, %v", response, err)
	}

	workers[1].signal(syscall.SIGCONT)
	progress(workers, 2)
	finish(l, workers)
}
