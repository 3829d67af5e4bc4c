package certs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/appliance/certs"
)

func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	lab := authority(t)
	if err := lab.Write(dir, false); err != nil {
		t.Fatal(err)
	}
	operator := certs.Request{Name: "op", Identity: certs.Identity{Operator: true}}
	first := issue(t, lab, operator)
	if err := first.Write(dir, "operator", false); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{"ca.key": 0o600, "ca.crt": 0o644, "operator.key": 0o600, "operator.crt": 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != mode {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), mode)
		}
	}

	loaded, err := certs.LoadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	second := issue(t, loaded, operator)
	err = second.Write(dir, "operator", false)
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "force") {
		t.Errorf("over existing files: %v", err)
	}
	kept, err := certs.ReadPair(filepath.Join(dir, "operator.crt"), filepath.Join(dir, "operator.key"), filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, kept); diff != "" {
		t.Errorf("after the refusal: %s", diff)
	}
	if err := second.Write(dir, "operator", true); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.ClientTLS(filepath.Join(dir, "operator.crt"), filepath.Join(dir, "operator.key"), filepath.Join(dir, "ca.crt")); err != nil {
		t.Error(err)
	}
	if err := lab.Write(dir, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an authority over another: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 4 {
		t.Errorf("left behind: %v", entries)
	}
	for _, name := range []string{"", ".", "..", "a/b", "/a"} {
		if err := second.Write(dir, name, true); err == nil {
			t.Errorf("file name %q was taken", name)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	lab := authority(t)
	if err := lab.Write(dir, false); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	if err := authority(t).Write(other, false); err != nil {
		t.Fatal(err)
	}
	read := func(path string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	certificate, key := read(filepath.Join(dir, "ca.crt")), read(filepath.Join(dir, "ca.key"))
	caller := issue(t, lab, certs.Request{Name: "op", Identity: certs.Identity{Operator: true}})
	for name, test := range map[string]struct {
		certificate, key []byte
		want             string
	}{
		"no certificate":   {nil, key, "spillctl certs"},
		"no key":           {certificate, nil, "key of the authority"},
		"not PEM":          {[]byte("x"), key, "no certificate in PEM"},
		"key not PEM":      {certificate, []byte("x"), "no private key"},
		"another's key":    {certificate, read(filepath.Join(other, "ca.key")), "is not the key of"},
		"not an authority": {caller.Certificate, caller.Key, "no authority's"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string][]byte{"ca.crt": test.certificate, "ca.key": test.key} {
				if text == nil {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := certs.LoadAuthority(dir); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	if _, err := certs.ServerTLS(filepath.Join(dir, "ca.crt"), filepath.Join(other, "ca.key"), filepath.Join(dir, "ca.crt")); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a key that does not match: %v", err)
	}
	if _, err := certs.ServerTLS(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"), filepath.Join(dir, "ca.key")); err == nil {
		t.Error("a key passed as the certificates of authorities")
	}
}
