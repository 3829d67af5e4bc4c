package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The types of a tensor's elements.
const (
	typeFloat32 = "float32"
	typeInt32   = "int32"
)

// elementSize is that of both types, in bytes.
const elementSize = 4

// A sharedTensor is memory that the parent fills with the expected sum and every
// worker process compares with: one copy for all, which no path names and
// which goes with the last process that has it.
type sharedTensor struct {
	file   *os.File
	memory []byte
}

// newSharedTensor makes one for n elements.
func newSharedTensor(n int) (*sharedTensor, error) {
	fd, err := unix.MemfdCreate("spill-load-expected", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("shared memory for the expected sum: %w", err)
	}
	file := os.NewFile(uintptr(fd), "spill-load-expected")
	if err := file.Truncate(int64(n) * elementSize); err != nil {
		return nil, fmt.Errorf("shared memory for the expected sum: %w", err)
	}
	return mapTensor(file, n, unix.PROT_READ|unix.PROT_WRITE)
}

// openSharedTensor maps what the parent passed on as a descriptor.
func openSharedTensor(fd uintptr, n int) (*sharedTensor, error) {
	return mapTensor(os.NewFile(fd, "spill-load-expected"), n, readOnly)
}

// readOnly is how memory of another process is mapped.
const readOnly = unix.PROT_READ

func mapTensor(file *os.File, n, protection int) (*sharedTensor, error) {
	memory, err := unix.Mmap(int(file.Fd()), 0, n*elementSize, protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the expected sum: %w", err)
	}
	return &sharedTensor{file, memory}, nil
}

// float32s and int32s are views of the memory.
func (t *sharedTensor) float32s() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(t.memory))), len(t.memory)/elementSize)
}

// float64s has one for every two elements.
func (t *sharedTensor) float64s() []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(t.memory))), len(t.memory)/(2*elementSize))
}

// path is where another process that may look at this one finds the memory.
func (t *sharedTensor) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), t.file.Fd()) }

func (t *sharedTensor) int32s() []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(t.memory))), len(t.memory)/elementSize)
}

// close unmaps it; views must not be used any more.
func (t *sharedTensor) close() error {
	if err := unix.Munmap(t.memory); err != nil {
		return fmt.Errorf("unmap the expected sum: %w", err)
	}
	return t.file.Close()
}
