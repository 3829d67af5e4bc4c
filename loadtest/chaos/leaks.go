package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"google.golang.org/protobuf/proto"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/loadtest/rack"
)

// Slack for what is not a leak: connections that come and go, the heap between two collections.
const (
	filesSlack      = 12
	goroutinesSlack = 24
	memorySlack     = 64 << 20 // bytes
)

// A usage is what a rack holds at a moment at which nothing is going on in it.
type usage struct {
	daemons  []daemonUsage
	bpf      rack.BPF
	capacity []*v1.Capacity
}

// daemonUsage is a daemon's, from its metrics.
type daemonUsage struct {
	pid                       int
	files, goroutines, memory float64
}

// takeStock reads what the rack holds.
func takeStock(ctx context.Context, r *rack.Rack) (u usage, err error) {
	for index := range r.Appliances() {
		metrics, err := r.Metrics(ctx, index)
		if err != nil {
			return u, err
		}
		u.daemons = append(u.daemons, daemonUsage{pid: r.DaemonPID(index), files: metrics["process_open_fds"], goroutines: metrics["go_goroutines"],
			memory: metrics["process_resident_memory_bytes"]})
		capacity, err := r.Capacity(ctx, index)
		if err != nil {
			return u, err
		}
		u.capacity = append(u.capacity, capacity)
	}
	u.bpf, err = r.BPF()
	return u, err
}

// leaks are what there is more of than there was. Of a daemon that was restarted in between, only its BPF objects and its account are compared.
func (u *usage) leaks(was *usage) (all []string) {
	found := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for i, now := range u.daemons {
		before := was.daemons[i]
		if now.pid == before.pid {
			if now.files > before.files+filesSlack {
				found("daemon %d has %.0f files open, it had %.0f", i, now.files, before.files)
			}
			if now.goroutines > before.goroutines+goroutinesSlack {
				found("daemon %d has %.0f goroutines, it had %.0f", i, now.goroutines, before.goroutines)
			}
			if now.memory > before.memory+memorySlack {
				found("daemon %d holds %.0f MB, it held %.0f", i, now.memory/1e6, before.memory/1e6)
			}
		}
		if !proto.Equal(u.capacity[i], was.capacity[i]) {
			found("appliance %d has given away %v, it had %v", i, u.capacity[i], was.capacity[i])
		}
	}
	if u.bpf.Maps > was.bpf.Maps || u.bpf.Programs > was.bpf.Programs || u.bpf.Pins > was.bpf.Pins {
		found("maps, programs and pins are %+v, they were %+v", u.bpf, was.bpf)
	}
	return all
}

// A footprint is what this process holds.
type footprint struct{ files, goroutines, namespaces int }

// ownFootprint counts open files, goroutines, and the network namespaces that threads are in.
func ownFootprint() (f footprint, err error) {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return f, err
	}
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		return f, err
	}
	spaces := map[string]bool{}
	for _, task := range tasks {
		if ns, err := os.Readlink(task); err == nil { // a thread may have ended meanwhile
			spaces[ns] = true
		}
	}
	return footprint{len(files), runtime.NumGoroutine(), len(spaces)}, nil
}

// leaks says what there is more of than there was.
func (f footprint) leaks(was footprint) (all []string) {
	if f.files > was.files || f.namespaces > was.namespaces || f.goroutines > was.goroutines+2 {
		all = append(all, fmt.Sprintf("after the rack was taken down this process has %+v, before it was built %+v", f, was))
	}
	return all
}
