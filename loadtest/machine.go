package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"spillway/loadtest/rack"
)

// Machine says where figures were measured.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

// thisMachine describes the machine; what cannot be found out is "unknown".
func thisMachine() Machine {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), Arch: runtime.GOARCH, Kernel: "unknown", Go: runtime.Version()}
	if release, err := rack.KernelRelease(); err == nil {
		m.Kernel = release
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	return m
}

// availableMemory is what processes can still have without swapping, in bytes.
func availableMemory() (uint64, error) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("how much memory there is: %w", err)
	}
	for line := range strings.Lines(string(info)) {
		var kilobytes uint64
		if n, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kilobytes); err == nil && n == 1 {
			return kilobytes << 10, nil
		}
	}
	return 0, errors.New("how much memory there is: /proc/meminfo does not say MemAvailable")
}
