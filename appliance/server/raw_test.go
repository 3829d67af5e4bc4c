package server_test

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// raw is a codec of bytes, for requests that are none.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	bytes, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("send %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(bytes)}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	bytes, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("receive into %T", v)
	}
	*bytes = data.Materialize()
	return nil
}
