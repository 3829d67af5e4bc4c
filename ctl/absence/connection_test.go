package absence

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/config"
)

// TestSocket: each way in which a socket can fail an operator, on real files.
func TestSocket(t *testing.T) {
	dir := t.TempDir()
	file, sock := filepath.Join(dir, "file"), filepath.Join(dir, "sock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	elsewhere := config.Default()
	elsewhere.API.Socket = "/run/elsewhere.sock"
	for name, c := range map[string]struct {
		path     string
		cause    error
		read     *config.Config
		says, do string
	}{
		"missing":        {filepath.Join(dir, "none"), syscall.ENOENT, nil, "there is no socket", "systemctl start"},
		"elsewhere":      {filepath.Join(dir, "none"), syscall.ENOENT, elsewhere, "api.socket: /run/elsewhere.sock", "--addr unix:///run/elsewhere.sock"},
		"a file":         {file, syscall.ECONNREFUSED, nil, "is no socket", "api.socket"},
		"below a file":   {filepath.Join(file, "sock"), syscall.ENOTDIR, nil, "not a directory", ""},
		"not permitted":  {sock, syscall.EACCES, nil, "the group", "usermod"},
		"nobody listens": {sock, syscall.ECONNREFUSED, nil, "nobody listens", "journalctl"},
		"no answer":      {sock, fmt.Errorf("in 1s: %w", context.DeadlineExceeded), nil, "does not answer in time", "restart"},
		"something else": {sock, errors.New("broken pipe"), nil, "broken pipe", "journalctl"},
	} {
		f := socket(c.path, c.cause, c.read)
		if f.Level != v1.FindingLevel_FINDING_LEVEL_ERROR || !strings.Contains(f.Text, c.says) || !strings.Contains(f.Remedy, c.do) {
			t.Errorf("%s: %v; want a text with %q and a remedy with %q", name, f, c.says, c.do)
		}
	}
}

func TestConnection(t *testing.T) {
	for name, c := range map[string]struct {
		cause    error
		says, do string
	}{
		"refused":     {syscall.ECONNREFUSED, "nobody listens at", "api.listen"},
		"no route":    {syscall.EHOSTUNREACH, "no route to host", "firewall"},
		"no answer":   {context.DeadlineExceeded, "does not answer", "firewall"},
		"no such":     {&net.DNSError{Err: "no such host", Name: "agg9"}, "is not known", "--addr"},
		"certificate": {&tls.CertificateVerificationError{Err: errors.New("x509: unknown authority")}, "certificates", "--ca"},
		"in words":    {errors.New("remote error: tls: expired certificate"), "expired", "openssl"},
		"else":        {errors.New("strange"), "strange", "spillctl doctor"},
	} {
		f := connection("agg9:9690", c.cause)
		if f.Level != v1.FindingLevel_FINDING_LEVEL_ERROR || !strings.Contains(f.Text, c.says) || !strings.Contains(f.Remedy, c.do) {
			t.Errorf("%s: %v; want a text with %q and a remedy with %q", name, f, c.says, c.do)
		}
	}
}
