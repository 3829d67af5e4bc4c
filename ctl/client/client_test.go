package client_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, options client.Options) error {
	t.Helper()
	c, err := client.New(options)
	if err != nil {
		return err
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = c.Node.GetNode(context.Background(), &v1.GetNodeRequest{})
	return err
}

// TestUnreachable: what the network said is in the chain, for those who want to say why.
func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("unix", filepath.Join(t.TempDir(), "silent"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, c := range map[string]struct {
		addr string
		want error
	}{
		"no socket":         {"unix://" + filepath.Join(t.TempDir(), "none"), fs.ErrNotExist},
		"nobody answers":    {"unix://" + silent.Addr().String(), context.DeadlineExceeded},
		"a file, no socket": {"unix:///etc/passwd", nil},
	} {
		began := time.Now()
		err := get(t, client.Options{Addr: c.addr, Timeout: 200 * time.Millisecond})
		var unreachable *client.UnreachableError
		if !errors.As(err, &unreachable) {
			t.Errorf("%s: %v is no UnreachableError", name, err)
		}
		if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v does not wrap %v", name, err, c.want)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: it took %v with a timeout of 200ms", name, took)
		}
	}
}

func TestOptionsThatCannotBeMeant(t *testing.T) {
	for name, options := range map[string]client.Options{
		"no address":       {},
		"no port":          {Addr: "10.0.0.1"},
		"relative socket":  {Addr: "unix://run/x"},
		"no certificate":   {Addr: "10.0.0.1:9690"},
		"half of them":     {Addr: "10.0.0.1:9690", CA: "ca.crt"},
		"TLS for a socket": {Addr: client.DefaultAddr, CA: "ca.crt"},
	} {
		var wrong *client.OptionsError
		if err := get(t, options); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := get(t, client.Options{Addr: "10.0.0.1:9690", CA: "/none", Cert: "/none", Key: "/none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files that are not there: %v", err)
	}
}
