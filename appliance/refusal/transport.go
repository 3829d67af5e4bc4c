package refusal

import (
	"strings"

	"google.golang.org/grpc/codes"
)

// Reasons of the way between the appliance and a caller, rather than of what was asked.
const (
	NoSuchMethod Reason = "NO_SUCH_METHOD" // the appliance is of another version
	TimeOver     Reason = "TIME_OVER"      // the call took longer than it may
	SlowReader   Reason = "SLOW_READER"    // the caller did not read what it asked for
	Cancelled    Reason = "CANCELLED"      // the caller ended the call
	// Certificate: a connection did not come about. It is the caller's side that finds out, in the words of TLS.
	Certificate Reason = "CERTIFICATE"
)

// alerts are the words in which TLS tells a side that the other did not want its certificate, as Go has them, and what to do.
var alerts = []struct{ words, text string }{
	{"tls: certificate required", "the appliance wants a certificate of the caller, of an authority that it knows; give one with its key (spillctl certs issues them)"},
	{"tls: expired certificate", "the caller's certificate has ended, or its time has not begun by the appliance's clock; issue a new one"},
	{"tls: unknown certificate authority", "the caller's certificate is of an authority that the appliance does not know; issue it with one in the file that api.tls.ca names there"},
	{"tls: bad certificate", "the appliance does not accept the caller's certificate; its log says why"},
	{"tls: unsupported certificate", "the appliance does not accept the caller's certificate, which is perhaps one for servers; its log says why"},
	{"first record does not look like a TLS handshake", "the appliance does not speak TLS on this port; call without a certificate, or have api.tls set there"},
	{"certificate signed by unknown authority", "the appliance's certificate is of an authority that the caller does not know; give the certificate of the authority that issued it"},
	{"certificate has expired or is not yet valid", "the appliance's certificate has ended, or the clocks differ; issue a new one and reload the appliance"},
	{"x509: certificate is valid for", "the appliance's certificate does not have the name or address that it was called by; call it by one that it has, or issue one with it"},
	{"cannot validate certificate for", "the appliance's certificate does not have the address that it was called by; call it by a name that it has, or issue one with the address"},
	{"looked like an HTTP/1.1 header", "the port is none of gRPC in the clear: if it is the appliance's it speaks TLS; give a certificate, its key and the certificate of the authority"},
}

// Handshake finds in an error of a call that TLS kept the two sides apart, and says what to do. It is nil when it was something else. Only the
// caller's side needs it: the appliance writes what it found into its log.
func Handshake(err error) *Error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, alert := range alerts {
		if strings.Contains(text, alert.words) {
			return New(codes.Unauthenticated, Certificate, "%s: %w", alert.text, err)
		}
	}
	return nil
}
