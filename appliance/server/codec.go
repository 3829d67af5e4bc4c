package server

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// frame is a message as it came. gRPC answers what it cannot decode in its own words; a frame it can always decode, and the call decodes
// what is in it (call.go).
type frame struct{ bytes []byte }

// codec is protobuf, and frames.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal copies a message into a frame.
func (c codec) Unmarshal(data mem.BufferSlice, into any) error {
	if whole, ok := into.(*frame); ok {
		whole.bytes = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, into)
}
