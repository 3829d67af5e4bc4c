package rack

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "spillway/appliance/api/spillway/v1"
)

// metricsListen is where a daemon serves Prometheus, in its own namespace; it is the default.
const metricsListen = "127.0.0.1:9691"

// Metrics are an appliance's, as its daemon tells Prometheus: those without labels, by name.
func (r *Rack) Metrics(ctx context.Context, index int) (map[string]float64, error) {
	a, err := r.appliance(index)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
		err = a.host.do(func() (err error) {
			conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", metricsListen)
			return err
		})
		return conn, err
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsListen+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of appliance %d: %w", index, err)
	}
	defer response.Body.Close()
	all := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") || strings.Contains(name, "{") {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = v
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the metrics of appliance %d: %w", index, err)
	}
	return all, nil
}

// Capacity is what an appliance has to give to jobs, and what it has given.
func (r *Rack) Capacity(ctx context.Context, index int) (*v1.Capacity, error) {
	a, err := r.appliance(index)
	if err != nil {
		return nil, err
	}
	node, err := a.daemon.node.GetNode(ctx, &v1.GetNodeRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask appliance %d for its capacity: %w", index, said(err))
	}
	return node.GetCapacity(), nil
}

// BPF counts what a rack's programs hold in the kernel.
type BPF struct {
	// Maps and Programs that the processes of daemons and ToR have open, and Pins on the file systems of the appliances.
	Maps, Programs, Pins int
}

// BPF counts what there is of it now.
func (r *Rack) BPF() (BPF, error) {
	var count BPF
	var pids []int
	for _, a := range r.appliances {
		if a.daemon.down.Load() {
			continue
		}
		pids = append(pids, r.DaemonPID(a.index))
		pins := 0
		err := a.host.do(func() error {
			return filepath.WalkDir(daemonBPF, func(_ string, entry fs.DirEntry, err error) error {
				if err == nil && !entry.IsDir() {
					pins++
				}
				return err
			})
		})
		if err != nil {
			return BPF{}, fmt.Errorf("count the pins of appliance %d: %w", a.index, err)
		}
		count.Pins += pins
	}
	if r.tor != nil && r.tor.config.Kind == TorSoft {
		r.tor.mu.Lock()
		pids = append(pids, r.tor.process.PID())
		r.tor.mu.Unlock()
	}
	for _, pid := range pids {
		maps, err := idsOf(pid, "map_id:")
		if err != nil {
			return BPF{}, err
		}
		programs, err := idsOf(pid, "prog_id:")
		if err != nil {
			return BPF{}, err
		}
		count.Maps += len(maps)
		count.Programs += len(programs)
	}
	return count, nil
}

// idsOf are the different BPF objects that a process has open, by what the kernel calls their kind's ids in fdinfo.
func idsOf(pid int, kind string) (map[uint32]bool, error) {
	dir := fmt.Sprintf("/proc/%d/fdinfo", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look at the files of a process: %w", err)
	}
	ids := map[uint32]bool{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, kind); ok {
				if id, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32); err == nil {
					ids[uint32(id)] = true
				}
			}
		}
	}
	return ids, nil
}
