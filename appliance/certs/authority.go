package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Life times where none is asked for. A lab's authority should outlive the lab; what is issued is easily issued again.
const (
	AuthorityLifetime = 10 * 365 * 24 * time.Hour
	PairLifetime      = 365 * 24 * time.Hour
)

// backdate is how much before now a certificate begins, for hosts whose clocks are behind.
const backdate = 5 * time.Minute

// authorityName is that of an authority's files.
const authorityName = "ca"

// Authority is a certificate authority with its key.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// Request is what a certificate is to say.
type Request struct {
	// Name is the subject, for people.
	Name string
	// Server is for the appliance itself: it has DNS or Addresses, and no Identity. Otherwise the certificate is a caller's.
	Server bool
	// Identity is what a caller may do.
	Identity Identity
	// DNS names and Addresses: those of the appliance, or the addresses that a worker may send from other than the one that it calls from.
	DNS       []string
	Addresses []netip.Addr
	// Lifetime is PairLifetime when 0, and ends with the authority's at the latest.
	Lifetime time.Duration
	// Start is now when zero.
	Start time.Time
}

// NewAuthority makes an authority that signs itself; a lifetime of 0 is AuthorityLifetime.
func NewAuthority(name string, lifetime time.Duration) (*Authority, error) {
	if name == "" {
		return nil, errors.New("certs: an authority needs a name, which people see in every certificate that it issues")
	}
	if lifetime == 0 {
		lifetime = AuthorityLifetime
	}
	if lifetime < 0 {
		return nil, fmt.Errorf("certs: lifetime %v of the authority is over before it begins; give one above 0", lifetime)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certs: key of the authority: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		// It issues to holders only, never to other authorities.
		MaxPathLenZero: true,
	}
	certificate, err := sign(template, template, key, key)
	if err != nil {
		return nil, fmt.Errorf("certs: certificate of the authority: %w", err)
	}
	return &Authority{certificate: certificate, key: key}, nil
}

// Issue makes a key and a certificate for it.
func (a *Authority) Issue(request Request) (Pair, error) {
	if err := request.check(); err != nil {
		return Pair{}, fmt.Errorf("certs: certificate %q: %w", request.Name, err)
	}
	start := request.Start
	if start.IsZero() {
		start = time.Now().Add(-backdate)
	}
	lifetime := request.Lifetime
	if lifetime == 0 {
		lifetime = PairLifetime
	}
	end := start.Add(lifetime)
	if end.After(a.certificate.NotAfter) {
		end = a.certificate.NotAfter
	}
	if !end.After(start) {
		return Pair{}, fmt.Errorf("certs: certificate %q would be over at %v, before it begins; the authority %q ends at %v: make a new one", request.Name,
			end.Format(time.RFC3339), a.certificate.Subject.CommonName, a.certificate.NotAfter.Format(time.RFC3339))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("certs: key of %q: %w", request.Name, err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: request.Name},
		NotBefore:             start,
		NotAfter:              end,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		DNSNames:              request.DNS,
		URIs:                  request.Identity.URIs(),
	}
	switch {
	case request.Identity.Node != "":
		// Appliances call each other: each is both.
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	case request.Server:
		// Not for callers too: nobody who has the appliance's certificate is an operator by it, and no worker can pose as the appliance.
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, address := range request.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.Unmap().AsSlice()))
	}
	certificate, err := sign(template, a.certificate, key, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("certs: certificate %q: %w", request.Name, err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Certificate: encode(certificate), Key: private, Authority: a.PEM()}, nil
}

func (r Request) check() error {
	if r.Name == "" {
		return errors.New("it needs a name, which people see in it")
	}
	if err := r.Identity.check(); err != nil {
		return err
	}
	if r.Lifetime < 0 {
		return fmt.Errorf("lifetime %v is over before it begins; give one above 0", r.Lifetime)
	}
	for _, address := range r.Addresses {
		if !address.IsValid() || address.IsUnspecified() {
			return fmt.Errorf("%v is no address of a host", address)
		}
	}
	named := r.Identity.Operator || len(r.Identity.Jobs) > 0
	switch {
	case r.Identity.Node != "" && r.Server:
		return errors.New("it is an appliance's for its cluster or the one that workers see, not both; issue two")
	case r.Identity.Node != "" && len(r.DNS)+len(r.Addresses) == 0:
		return errors.New("an appliance needs a DNS name or an address that the others of its cluster reach it by")
	case r.Identity.Node != "":
	case r.Server && named:
		return errors.New("it is the appliance's or a caller's, not both; issue two")
	case r.Server && len(r.DNS)+len(r.Addresses) == 0:
		return errors.New("the appliance needs a DNS name or an address that callers reach it by")
	case !r.Server && !named:
		return errors.New("it says nothing that its holder may do; make it an operator's, or name jobs")
	case !r.Server && len(r.DNS) > 0:
		return errors.New("a caller has no DNS names; give the addresses that a worker sends from, if any")
	}
	return nil
}

// sign makes a certificate of a template, with a random serial number of 127 bits (RFC 5280, 4.1.2.2: positive, at most 20 octets).
func sign(template, parent *x509.Certificate, key, signer crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// PEM is the authority's certificate, which both sides need to know.
func (a *Authority) PEM() []byte { return encode(a.certificate) }

// Write puts ca.crt and ca.key into a directory, which is made if need be. It refuses to replace either unless forced: certificates that
// the old key signed would be worth nothing.
func (a *Authority) Write(dir string, force bool) error {
	key, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	return Pair{Certificate: a.PEM(), Key: key}.Write(dir, authorityName, force)
}

// LoadAuthority reads what Write wrote.
func LoadAuthority(dir string) (*Authority, error) {
	path := filepath.Join(dir, authorityName+certificateSuffix)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("certs: no authority in %s (make one with spillctl certs): %w", dir, err)
	}
	certificate, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("certs: %s: %w", path, err)
	}
	if !certificate.IsCA {
		return nil, fmt.Errorf("certs: %s: the certificate of %q is no authority's", path, certificate.Subject.CommonName)
	}
	path = filepath.Join(dir, authorityName+keySuffix)
	if text, err = os.ReadFile(path); err != nil {
		return nil, fmt.Errorf("certs: key of the authority: %w", err)
	}
	key, err := decodeKey(text)
	if err != nil {
		return nil, fmt.Errorf("certs: %s: %w", path, err)
	}
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(certificate.PublicKey) {
		return nil, fmt.Errorf("certs: %s is not the key of %s%s", path, authorityName, certificateSuffix)
	}
	return &Authority{certificate: certificate, key: key}, nil
}

func encode(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func decode(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate in PEM in it")
	}
	return x509.ParseCertificate(block.Bytes)
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("certs: encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func decodeKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("no private key in PEM (PKCS #8) in it")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T cannot sign", key)
	}
	return signer, nil
}
