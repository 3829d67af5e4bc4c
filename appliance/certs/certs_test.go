package certs_test

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"spillway/appliance/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func authority(t *testing.T) *certs.Authority {
	t.Helper()
	made, err := certs.NewAuthority("lab", 0)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func issue(t *testing.T, by *certs.Authority, request certs.Request) certs.Pair {
	t.Helper()
	pair, err := by.Issue(request)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func parse(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, rest := pem.Decode(text)
	if block == nil || len(rest) > 0 {
		t.Fatalf("not one block of PEM: %q", text)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// shake has both sides speak TLS over a real connection and returns what each found.
func shake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	type result struct {
		state tls.ConnectionState
		err   error
	}
	served := make(chan result, 1)
	go func() {
		raw, err := listener.Accept()
		if err != nil {
			served <- result{err: err}
			return
		}
		defer raw.Close()
		secured := tls.Server(raw, server)
		if err := secured.Handshake(); err != nil {
			served <- result{err: err}
			return
		}
		_, err = secured.Write([]byte("served"))
		served <- result{secured.ConnectionState(), errors.Join(err, secured.Close())}
	}()
	raw, err := net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	config := client.Clone()
	if config.ServerName == "" {
		config.ServerName = "127.0.0.1"
	}
	secured := tls.Client(raw, config)
	clientErr := secured.Handshake()
	if clientErr == nil { // TLS 1.3: what the server thinks of the client comes with the first bytes
		_, clientErr = io.ReadAll(secured)
	}
	got := <-served
	return got.state, got.err, clientErr
}

var loopback = netip.MustParseAddr("127.0.0.1")

func TestPairsSpeakMutualTLS(t *testing.T) {
	lab := authority(t)
	server, err := issue(t, lab, certs.Request{Name: "appliance", Server: true, DNS: []string{"agg0"}, Addresses: []netip.Addr{loopback}}).ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	workerPair := issue(t, lab, certs.Request{Name: "worker", Identity: certs.Identity{Jobs: []string{"b", "a", "*"}}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.7")}})
	worker, err := workerPair.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	state, serverErr, clientErr := shake(t, server, worker)
	if serverErr != nil || clientErr != nil {
		t.Fatalf("server: %v, client: %v", serverErr, clientErr)
	}
	if state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "h2" {
		t.Errorf("version %x, protocol %q", state.Version, state.NegotiatedProtocol)
	}
	identity, err := certs.IdentityOf(state.PeerCertificates[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(certs.Identity{Jobs: []string{"*", "a", "b"}}, identity); diff != "" {
		t.Error(diff)
	}
	if !identity.MayJoin("c") || identity.Operator {
		t.Errorf("identity %v", identity)
	}
	named := worker.Clone()
	named.ServerName = "agg0"
	if _, serverErr, clientErr := shake(t, server, named); serverErr != nil || clientErr != nil {
		t.Errorf("by DNS name: server %v, client %v", serverErr, clientErr)
	}

	t.Run("refused", func(t *testing.T) {
		elsewhere := authority(t)
		old := issue(t, lab, certs.Request{Name: "old", Identity: certs.Identity{Operator: true}, Start: time.Now().Add(-2 * time.Hour), Lifetime: time.Hour})
		foreign := issue(t, elsewhere, certs.Request{Name: "foreign", Identity: certs.Identity{Operator: true}})
		foreign.Authority = lab.PEM() // it knows the appliance, which does not know it
		posing := issue(t, lab, certs.Request{Name: "posing", Server: true, DNS: []string{"agg0"}})
		for name, test := range map[string]struct {
			pair           certs.Pair
			server, client string
		}{
			"expired":            {old, "expired", "expired certificate"},
			"unknown authority":  {foreign, "unknown authority", "unknown certificate authority"},
			"server's as caller": {posing, "incompatible key usage", "bad certificate"},
		} {
			t.Run(name, func(t *testing.T) {
				config, err := test.pair.ClientTLS()
				if err != nil {
					t.Fatal(err)
				}
				_, serverErr, clientErr := shake(t, server, config)
				if serverErr == nil || !strings.Contains(serverErr.Error(), test.server) {
					t.Errorf("server: %v", serverErr)
				}
				if clientErr == nil || !strings.Contains(clientErr.Error(), test.client) {
					t.Errorf("client: %v", clientErr)
				}
			})
		}
		none := worker.Clone()
		none.Certificates, none.GetClientCertificate = nil, nil
		if _, serverErr, clientErr := shake(t, server, none); serverErr == nil || clientErr == nil || !strings.Contains(clientErr.Error(), "certificate required") {
			t.Errorf("without a certificate: server %v, client %v", serverErr, clientErr)
		}
		older := worker.Clone()
		older.MinVersion, older.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		if _, serverErr, _ := shake(t, server, older); serverErr == nil {
			t.Error("TLS 1.2 was taken")
		}
		// A worker that poses as the appliance.
		workerAsServer, err := workerPair.ServerTLS()
		if err != nil {
			t.Fatal(err)
		}
		workerAsServer.Certificates = worker.Certificates
		toTen := worker.Clone()
		toTen.ServerName = "10.0.0.7"
		if _, _, clientErr := shake(t, workerAsServer, toTen); clientErr == nil {
			t.Error("a worker's certificate passed as the appliance's")
		}
	})
}

func TestIssueRefuses(t *testing.T) {
	lab := authority(t)
	for name, test := range map[string]struct {
		request certs.Request
		want    string
	}{
		"no name":            {certs.Request{Server: true, DNS: []string{"a"}}, "needs a name"},
		"no rights":          {certs.Request{Name: "x"}, "says nothing"},
		"server with rights": {certs.Request{Name: "x", Server: true, DNS: []string{"a"}, Identity: certs.Identity{Operator: true}}, "issue two"},
		"server nowhere":     {certs.Request{Name: "x", Server: true}, "DNS name or an address"},
		"caller with DNS":    {certs.Request{Name: "x", Identity: certs.Identity{Operator: true}, DNS: []string{"a"}}, "no DNS names"},
		"job name":           {certs.Request{Name: "x", Identity: certs.Identity{Jobs: []string{"A/b"}}}, `job name "A/b"`},
		"lifetime":           {certs.Request{Name: "x", Identity: certs.Identity{Operator: true}, Lifetime: -1}, "above 0"},
		"address":            {certs.Request{Name: "x", Identity: certs.Identity{Operator: true}, Addresses: []netip.Addr{netip.IPv4Unspecified()}}, "no address"},
		"after the end":      {certs.Request{Name: "x", Identity: certs.Identity{Operator: true}, Start: time.Now().Add(11 * 365 * 24 * time.Hour)}, "make a new one"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := lab.Issue(test.request); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	if _, err := certs.NewAuthority("", 0); err == nil {
		t.Error("an authority without a name")
	}
	if _, err := certs.NewAuthority("x", -1); err == nil {
		t.Error("an authority that is over")
	}
	short, err := certs.NewAuthority("short", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair := issue(t, short, certs.Request{Name: "x", Identity: certs.Identity{Operator: true}})
	if end, of := parse(t, pair.Certificate).NotAfter, parse(t, short.PEM()).NotAfter; end.After(of) {
		t.Errorf("ends at %v, after its authority at %v", end, of)
	}
}

func TestIdentityOf(t *testing.T) {
	for text, want := range map[string]*certs.Identity{
		"spillway://operator":                       {Operator: true},
		"spillway://job/a-1":                        {Jobs: []string{"a-1"}},
		"spillway://job/*":                          {Jobs: []string{"*"}},
		"spillway://job/%2A":                        {Jobs: []string{"*"}},
		"spiffe://elsewhere/x":                      {},
		"spillway://job/":                           nil,
		"spillway://job":                            nil,
		"spillway://job//a":                         nil,
		"spillway://job/a/b":                        nil,
		"spillway://job/A":                          nil,
		"spillway://job/a?x=1":                      nil,
		"spillway://job/a?":                         nil,
		"spillway://job/a#f":                        nil,
		"spillway://u@operator":                     nil,
		"spillway://operator/":                      nil,
		"spillway://operator:1":                     nil,
		"spillway:operator":                         nil,
		"spillway:///operator":                      nil,
		"spillway://root":                           nil,
		"spillway://job/" + strings.Repeat("a", 64): nil,
	} {
		uri, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := certs.IdentityOf(&x509.Certificate{URIs: []*url.URL{uri}})
		if want == nil {
			if err == nil || got.Operator || len(got.Jobs) > 0 {
				t.Errorf("%s: %v, %v; want an error", text, got, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(*want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestCertificate(t *testing.T) {
	lab := authority(t)
	got := parse(t, issue(t, lab, certs.Request{Name: "w", Identity: certs.Identity{Operator: true, Jobs: []string{"*", "a"}}}).Certificate)
	var names []string
	for _, uri := range got.URIs {
		names = append(names, uri.String())
	}
	if diff := cmp.Diff([]string{"spillway://operator", "spillway://job/*", "spillway://job/a"}, names); diff != "" {
		t.Error(diff)
	}
	if _, ok := got.PublicKey.(*ecdsa.PublicKey); !ok || got.IsCA || got.SerialNumber.Sign() <= 0 {
		t.Errorf("key %T, CA %v, serial %v", got.PublicKey, got.IsCA, got.SerialNumber)
	}
	if text := (certs.Identity{}).String(); text != "nobody" {
		t.Errorf("nobody is %q", text)
	}
}
