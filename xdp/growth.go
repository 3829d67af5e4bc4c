package xdp

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"time"

	"spillway/wire"
)

// GrowthResult is what an aggregator with a number of jobs costs. The jobs are alike: 8 workers, 256 elements a chunk, a ring of 256 slots.
type GrowthResult struct {
	Jobs int `json:"jobs"`
	// MapBytes is what the kernel has taken for all maps, of an aggregator that is made for so many jobs and their slots.
	MapBytes       float64 `json:"map_bytes"`
	MapBytesPerJob float64 `json:"map_bytes_per_job"`
	// HeapBytesPerJob is what a job costs this process, without what the collector has yet to free.
	HeapBytesPerJob float64 `json:"heap_bytes_per_job"`
	// Milliseconds a job: to add it, and to read its counters, what its members sent, and all of its slots. Medians over the jobs.
	AddMS      float64 `json:"add_ms"`
	CountersMS float64 `json:"counters_ms"`
	MembersMS  float64 `json:"members_ms"`
	SlotsMS    float64 `json:"slots_ms"`
	// PacketNS is what a packet costs, the jobs in turn, with the system call and its copies of the packet.
	PacketNS float64 `json:"packet_ns"`
}

// growthPackets are so many for each measurement of PacketNS.
const growthPackets = 4096

// RunGrowthBench measures an aggregator with so many jobs.
func RunGrowthBench(jobs int) (GrowthResult, error) {
	ring := wire.RingSize(benchJob(256, 8).Window)
	a, err := Load(Config{MaxJobs: uint32(jobs), Slots: Slots{1, 1, uint32(jobs) * ring, 1}})
	if err != nil {
		return GrowthResult{}, err
	}
	defer a.Close() // nothing is attached, there is nothing to report
	r := GrowthResult{Jobs: jobs}
	for name, m := range a.maps() {
		info, err := (*m).Info()
		if err != nil {
			return r, fmt.Errorf("read how large map %s is: %w", name, err)
		}
		bytes, known := info.Memlock()
		if !known {
			return r, fmt.Errorf("the kernel does not say how large map %s is", name)
		}
		r.MapBytes += float64(bytes)
	}
	r.MapBytesPerJob = r.MapBytes / float64(jobs)
	before := heapInUse()
	var add, counters, members, slots []float64
	job := benchJob(256, 8)
	for id := range jobs {
		job.ID = uint16(id)
		ms, err := milliseconds(func() error { return a.AddJob(job) })
		if err != nil {
			return r, err
		}
		add = append(add, ms)
	}
	r.HeapBytesPerJob = max(0, heapInUse()-before) / float64(jobs)
	frame := benchContribution(job, 0)
	start := time.Now()
	for i := range growthPackets {
		binary.BigEndian.PutUint16(frame[46:], uint16(i%jobs))
		binary.BigEndian.PutUint32(frame[54:], uint32(i/jobs))
		if verdict, _, err := a.Process(frame); err != nil || verdict != Drop {
			return r, fmt.Errorf("packet %d: verdict %d, %w", i, verdict, err)
		}
	}
	r.PacketNS = float64(time.Since(start).Nanoseconds()) / growthPackets
	for id := range jobs {
		for _, read := range []struct {
			times *[]float64
			do    func() error
		}{
			{&counters, func() error { _, err := a.Counters(uint16(id)); return err }},
			{&members, func() error { _, err := a.Members(uint16(id)); return err }},
			{&slots, func() error { _, err := a.Slots(uint16(id)); return err }},
		} {
			ms, err := milliseconds(read.do)
			if err != nil {
				return r, fmt.Errorf("read job %d: %w", id, err)
			}
			*read.times = append(*read.times, ms)
		}
	}
	r.AddMS, r.CountersMS, r.MembersMS, r.SlotsMS = median(add), median(counters), median(members), median(slots)
	return r, nil
}

// heapInUse is this process's memory that is in use, in bytes.
func heapInUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func milliseconds(do func() error) (float64, error) {
	start := time.Now()
	err := do()
	return float64(time.Since(start)) / float64(time.Millisecond), err
}
