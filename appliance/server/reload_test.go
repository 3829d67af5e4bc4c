package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/certs"
	"spillway/appliance/refusal"
)

// TestReload: certificates change while calls are there.
func TestReload(t *testing.T) {
	r := start(t, nil)
	before := r.overTCP(t, r.issue(t, operator()))
	stream := follow(t, r, within(t), before)

	// The appliance's own: the next connection sees it, and those that are there do not notice.
	r.issueOwn(t, r.lab)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := getNode(within(t), before); err != nil {
		t.Errorf("an old connection: %v", err)
	}

	// Nothing that is broken is taken.
	path := filepath.Join(r.dir, "own.key")
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); err == nil || !strings.Contains(err.Error(), "stay as they were") || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken key: %v", err)
	}
	if err := getNode(within(t), r.overTCP(t, r.issue(t, operator()))); err != nil {
		t.Errorf("after a broken key: %v", err)
	}
	if err := os.WriteFile(path, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	over, err := r.lab.Issue(certs.Request{Name: "over", Server: true, DNS: []string{"x"}, Start: time.Now().Add(-2 * time.Hour), Lifetime: time.Hour})
	if err == nil {
		over.Authority = nil
		err = over.Write(r.dir, "own", true)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); err == nil || !strings.Contains(err.Error(), "issue a new one") {
		t.Errorf("a certificate that is over: %v", err)
	}

	// Other authorities: who has a certificate of the old one makes no call any more, on an old connection or on a new one.
	other, err := certs.NewAuthority("other", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Write(r.dir, true); err != nil {
		t.Fatal(err)
	}
	r.issueOwn(t, other)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, getNode(within(t), before), refusal.NotAuthorised, "authorities were changed", "issue a new one")
	if code := refusal.Of(getNode(within(t), before)).Code; code != codes.Unauthenticated {
		t.Errorf("code %s", code)
	}
	wantRefusal(t, refusal.Handshake(getNode(within(t), r.overTCP(t, issueBy(t, r.lab, other, operator())))), refusal.Certificate)
	if err := getNode(within(t), r.overTCP(t, issueBy(t, other, other, operator()))); err != nil {
		t.Errorf("of the new authority: %v", err)
	}

	if ends, ok := r.CertificateEnds(); !ok || time.Until(ends) < certs.PairLifetime-time.Hour {
		t.Errorf("the appliance's certificate ends at %v, %v", ends, ok)
	}

	// The stream has been there all the time.
	r.events.Add(v1.EventLevel_EVENT_LEVEL_INFO, "test", "", nil, "after all that")
	if response, err := stream.Recv(); err != nil || response.GetEvent().GetText() != "after all that" {
		t.Errorf("%v, %v", response, err)
	}
}

// TestCertificateEndsWhileConnected: a connection does not outlive its certificate.
func TestCertificateEndsWhileConnected(t *testing.T) {
	r := start(t, nil)
	request := operator()
	request.Start, request.Lifetime = time.Now().Add(-time.Hour), time.Hour+3*time.Second
	conn := r.overTCP(t, r.issue(t, request))
	if err := getNode(within(t), conn); err != nil {
		t.Fatal(err)
	}
	var err error
	eventually(t, "a refusal", func() bool { err = getNode(within(t), conn); return err != nil })
	wantRefusal(t, err, refusal.NotAuthorised, "while it was connected", "issue a new one")
}
