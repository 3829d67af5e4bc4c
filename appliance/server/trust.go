package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"spillway/appliance/certs"
)

// trust is what TLS goes by from one Reload to the next. It does not change.
type trust struct {
	config *tls.Config
	own    *x509.Certificate
}

func loadTrust(files TLS) (*trust, error) {
	config, err := certs.ServerTLS(files.Certificate, files.Key, files.Authorities)
	if err != nil {
		return nil, err
	}
	own := config.Certificates[0].Leaf
	if own == nil {
		if own, err = x509.ParseCertificate(config.Certificates[0].Certificate[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", files.Certificate, err)
		}
	}
	return &trust{config: config, own: own}, nil
}

// over says that callers will refuse the appliance's own certificate.
func (t *trust) over(now time.Time) error {
	if now.After(t.own.NotAfter) {
		return fmt.Errorf("the appliance's certificate %q ended at %s; issue a new one and reload", t.own.Subject.CommonName, t.own.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// handshakeProblem says in words why a handshake failed, and what to do. TLS tells the caller no more than a word.
func handshakeProblem(err error, authorities string) (why, remedy string) {
	var (
		unverified  *tls.CertificateVerificationError
		noTLS       tls.RecordHeaderError
		invalid     x509.CertificateInvalidError
		unknown     x509.UnknownAuthorityError
		certificate string
	)
	if errors.As(err, &unverified) && len(unverified.UnverifiedCertificates) > 0 {
		own := unverified.UnverifiedCertificates[0]
		certificate = fmt.Sprintf("certificate %q (%s to %s)", own.Subject.CommonName, own.NotBefore.UTC().Format(time.RFC3339), own.NotAfter.UTC().Format(time.RFC3339))
	}
	switch {
	case errors.As(err, &noTLS):
		return "the caller does not speak TLS", "give it a certificate, its key and the certificate of the authority"
	case errors.As(err, &unknown):
		return certificate + " is of an authority that is not known here", "issue it with an authority in " + authorities + ", or add its authority there and reload"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return certificate + " is not of this time", "issue a new one, or set the clocks right"
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return certificate + " is not for callers", "issue one for an operator or a worker; the appliance's own is none"
	case err.Error() == "tls: client didn't provide a certificate":
		return "the caller has no certificate", "issue one for it with an authority in " + authorities
	}
	return err.Error(), ""
}
