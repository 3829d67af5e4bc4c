package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// hardwareEvents are what the processor counts of a thread, in the kernel too.
var hardwareEvents = []uint64{unix.PERF_COUNT_HW_CPU_CYCLES, unix.PERF_COUNT_HW_INSTRUCTIONS}

// countHardware returns how many cycles and instructions do takes, on this thread. Where the processor has no such counters, or a
// hypervisor hides them, it returns nothing and does not do it.
func countHardware(do func() error) (counts []float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var counters []int
	defer func() {
		for _, fd := range counters {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	for _, event := range hardwareEvents {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Size: unix.PERF_ATTR_SIZE_VER0, Config: event}
		fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOSYS) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("open a counter of the processor: %w", err)
		}
		counters = append(counters, fd)
	}
	read := func() (values []uint64, err error) {
		for _, fd := range counters {
			var b [8]byte
			if _, err := unix.Read(fd, b[:]); err != nil {
				return nil, fmt.Errorf("read a counter of the processor: %w", err)
			}
			values = append(values, binary.NativeEndian.Uint64(b[:]))
		}
		return values, nil
	}
	before, err := read()
	if err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	after, err := read()
	if err != nil {
		return nil, err
	}
	for i := range after {
		counts = append(counts, float64(after[i]-before[i]))
	}
	return counts, nil
}
