package refusal_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spillway/appliance/refusal"
)

// TestHandshake has the errors as gRPC hands them to a caller; that TLS really words them so is tested with the server.
func TestHandshake(t *testing.T) {
	for text, want := range map[string]string{
		`connection error: desc = "error reading server preface: remote error: tls: expired certificate"`:                                       "issue a new one",
		`connection error: desc = "error reading server preface: remote error: tls: certificate required"`:                                      "wants a certificate of the caller",
		`connection error: desc = "transport: authentication handshake failed: tls: first record does not look like a TLS handshake"`:           "does not speak TLS",
		`connection error: desc = "transport: authentication handshake failed: x509: certificate is valid for 10.0.0.1, not 10.0.0.2"`:          "name or address that it was called by",
		`connection error: desc = "error reading server preface: http2: failed reading the frame payload: looked like an HTTP/1.1 header: EOF"`: "speaks TLS",
	} {
		err := status.Error(codes.Unavailable, text)
		got := refusal.Handshake(err)
		if got == nil || got.Code != codes.Unauthenticated || got.Reason != refusal.Certificate || !strings.Contains(got.Text, want) || !errors.Is(got, err) {
			t.Errorf("%s: %v, want %q", text, got, want)
		}
	}
	for _, err := range []error{nil, io.EOF, status.Error(codes.Unavailable, "connection refused")} {
		if got := refusal.Handshake(err); got != nil {
			t.Errorf("%v: %v", err, got)
		}
	}
}
