package server_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/server"
)

// peer speaks HTTP/2 by hand, to do what gRPC's client never would.
type peer struct {
	*http2.Framer
	conn net.Conn
}

func newPeer(t *testing.T, r *rig) peer {
	t.Helper()
	conn, err := net.Dial("unix", r.config.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	p := peer{http2.NewFramer(conn, conn), conn}
	p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := p.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p peer) open(t *testing.T, stream uint32, method string) {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
}

// trailers reads until a call has ended, and returns what it ended with.
func (p peer) trailers(t *testing.T) map[string]string {
	t.Helper()
	for {
		frame, err := p.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if headers, ok := frame.(*http2.MetaHeadersFrame); ok && headers.StreamEnded() {
			fields := map[string]string{}
			for _, field := range headers.Fields {
				fields[field.Name] = field.Value
			}
			return fields
		}
	}
}

// TestSlowRequest: the beginning of a request comes, and then nothing.
func TestSlowRequest(t *testing.T) {
	r := start(t, limited(server.Limits{Unary: 100 * time.Millisecond}))
	p := newPeer(t, r)
	p.open(t, 1, v1.JobService_GetJob_FullMethodName)
	if err := p.WriteData(1, false, []byte{0, 0, 0, 0, 200, 1, 2, 3}); err != nil { // 3 of 200 bytes
		t.Fatal(err)
	}
	if got := p.trailers(t); got["grpc-status"] != "4" || !strings.Contains(got["grpc-message"], "100ms") {
		t.Errorf("%v, want DEADLINE_EXCEEDED", got)
	}
}

// TestPingFlood: a caller that pings all the time is sent away.
func TestPingFlood(t *testing.T) {
	p := newPeer(t, start(t, nil))
	for n := range byte(8) {
		if err := p.WritePing(false, [8]byte{n}); err != nil {
			break // sent away already
		}
	}
	for {
		frame, err := p.ReadFrame()
		if err != nil {
			t.Fatalf("%v, want to be told", err)
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			if away.ErrCode != http2.ErrCodeEnhanceYourCalm || string(away.DebugData()) != "too_many_pings" {
				t.Errorf("%v %q", away.ErrCode, away.DebugData())
			}
			return
		}
	}
}

// TestStreamsPerConnection: a caller that does not keep to the limit that it was told has its stream refused.
func TestStreamsPerConnection(t *testing.T) {
	r := start(t, limited(server.Limits{StreamsPerConnection: 2}))
	p := newPeer(t, r)
	for _, stream := range []uint32{1, 3, 5} {
		p.open(t, stream, v1.WorkerService_Join_FullMethodName) // and no request
	}
	for {
		frame, err := p.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if reset, ok := frame.(*http2.RSTStreamFrame); ok {
			if reset.StreamID != 5 || reset.ErrCode != http2.ErrCodeRefusedStream {
				t.Errorf("stream %d, %v", reset.StreamID, reset.ErrCode)
			}
			return
		}
	}
}

// TestHugeHeaders: metadata beyond the limit ends the stream, and does not reach a handler.
func TestHugeHeaders(t *testing.T) {
	r := start(t, nil)
	p := newPeer(t, r)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	if err := encoder.WriteField(hpack.HeaderField{Name: ":path", Value: "/" + strings.Repeat("x", 1<<14)}); err != nil {
		t.Fatal(err)
	}
	fragment := block.Bytes()
	if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fragment[:1<<13], EndStream: true}); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteContinuation(1, true, fragment[1<<13:]); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := p.ReadFrame()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		switch frame.(type) {
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return
		case *http2.MetaHeadersFrame:
			t.Fatalf("answered: %v", frame)
		}
	}
}
