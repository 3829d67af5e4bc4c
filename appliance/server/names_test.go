package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spillway/appliance/refusal"
)

// TestCertificatesOfOthers: an authority of the site's own may issue what ours would not.
func TestCertificatesOfOthers(t *testing.T) {
	r := start(t, nil)
	authority, err := tls.LoadX509KeyPair(filepath.Join(r.dir, "ca.crt"), filepath.Join(r.dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		uris  []string
		words string
		ok    bool
	}{
		"no names":        {nil, "says nothing that its holder may do", false},
		"names of others": {[]string{"spiffe://site/db"}, "says nothing that its holder may do", false},
		"a mistake":       {[]string{"spillway://operator", "spillway://jobs/a"}, "spillway://jobs/a", false},
		"among others":    {[]string{"spiffe://site/op", "spillway://operator"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			template := &x509.Certificate{
				SerialNumber: big.NewInt(7), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
				ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			}
			for _, text := range test.uris {
				uri, err := url.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				template.URIs = append(template.URIs, uri)
			}
			der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, key.Public(), authority.PrivateKey)
			if err != nil {
				t.Fatal(err)
			}
			config := r.issue(t, operator())
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
			}
			err = getNode(within(t), r.overTCP(t, config))
			if test.ok {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantRefusal(t, err, refusal.NotAuthorised, test.words, "issue")
		})
	}
	// The appliance's own certificate makes nobody a caller.
	own, err := tls.LoadX509KeyPair(r.config.TLS.Certificate, r.config.TLS.Key)
	if err != nil {
		t.Fatal(err)
	}
	config := r.issue(t, operator())
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	if err := getNode(within(t), r.overTCP(t, config)); refusal.Handshake(err) == nil {
		t.Errorf("%v, want it kept apart by TLS", err)
	}
	r.log.until(t, "is not for callers")
}

// TestReasonArrives: a caller that goes on writing, as gRPC does, when it was refused already, can still read why.
func TestReasonArrives(t *testing.T) {
	r := start(t, nil)
	expired := operator()
	expired.Start, expired.Lifetime = time.Now().Add(-2*time.Hour), time.Hour
	conn, err := tls.Dial("tcp", r.Addr(), r.issue(t, expired)) // in TLS 1.3 the caller is done before the appliance has looked at it
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r.log.until(t, "connection refused")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 20 {
		if _, err := conn.Write([]byte("PRI * HTTP/2.0")); err != nil {
			t.Fatalf("write: %v", err)
		}
		<-tick.C
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "expired certificate") {
		t.Errorf("read: %v", err)
	}
}
