package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Suffixes of the files of a pair.
const (
	certificateSuffix = ".crt"
	keySuffix         = ".key"
)

// Pair is a certificate, its key and the certificate of the authority that the other side's must be of, all in PEM.
type Pair struct {
	Certificate []byte
	Key         []byte
	Authority   []byte
}

// Write puts NAME.crt (mode 0644) and NAME.key (mode 0600) into a directory, which is made (0755) if need be, and the authority's
// certificate beside them if it is not there. Each file is whole or not there at all. Existing ones are refused, unless forced; then the key goes
// first, so that a crash in between leaves a pair that does not match, which is noticed, rather than an old certificate with its key.
func (p Pair) Write(dir, name string, force bool) error {
	if name == "" || name != filepath.Base(name) || name == "." || name == ".." {
		return fmt.Errorf("certs: %q is no name for a file", name)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	path := filepath.Join(dir, name)
	if !force {
		for _, suffix := range []string{certificateSuffix, keySuffix} {
			if _, err := os.Lstat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
				if err == nil {
					err = fs.ErrExist
				}
				return fmt.Errorf("certs: %s%s is there already; choose another name or directory, or force its replacement: %w", path, suffix, err)
			}
		}
	}
	if err := writeFile(path+keySuffix, p.Key, 0o600, force); err != nil {
		return err
	}
	if err := writeFile(path+certificateSuffix, p.Certificate, 0o644, force); err != nil {
		return err
	}
	if p.Authority == nil {
		return nil
	}
	err := writeFile(filepath.Join(dir, authorityName+certificateSuffix), p.Authority, 0o644, false)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// writeFile writes to a temporary file beside the target, which takes the target's name when it is whole and on the disk. Without replace,
// it loses against a file that came meanwhile.
func writeFile(path string, content []byte, mode fs.FileMode, replace bool) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("certs: write %s: %w", path, errors.Join(err, removeIfThere(file.Name())))
		}
	}()
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	if replace {
		return os.Rename(file.Name(), path)
	}
	return unix.Renameat2(unix.AT_FDCWD, file.Name(), unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Identity is what the certificate says that its holder may do.
func (p Pair) Identity() (Identity, error) {
	certificate, err := decode(p.Certificate)
	if err != nil {
		return Identity{}, err
	}
	return IdentityOf(certificate)
}

// ServerTLS is the appliance's side of mutual TLS with this pair.
func (p Pair) ServerTLS() (*tls.Config, error) { return p.config(true) }

// ClientTLS is a caller's side of mutual TLS with this pair.
func (p Pair) ClientTLS() (*tls.Config, error) { return p.config(false) }

func (p Pair) config(server bool) (*tls.Config, error) {
	certificate, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(p.Authority) {
		return nil, errors.New("certs: no certificate of an authority in PEM")
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{certificate},
		// What gRPC speaks.
		NextProtos: []string{"h2"},
	}
	if server {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, authorities
		// A resumed session would carry a certificate past a change of authorities, and connections are few and long.
		config.SessionTicketsDisabled = true
	} else {
		config.RootCAs = authorities
		// Go keeps a certificate back that the appliance will not accept, which then says that there was none; sent, it says what is wrong with it.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
	}
	return config, nil
}

// ServerTLS reads the appliance's certificate and key, and the authorities that issue to callers, from files in PEM. TLS 1.3; callers
// must have a certificate.
func ServerTLS(certificate, key, authorities string) (*tls.Config, error) {
	pair, err := ReadPair(certificate, key, authorities)
	if err != nil {
		return nil, err
	}
	config, err := pair.ServerTLS()
	if err != nil {
		return nil, fmt.Errorf("%w (%s, %s, %s)", err, certificate, key, authorities)
	}
	return config, nil
}

// ClientTLS reads a caller's certificate and key, and the authorities that the appliance's must be of, from files in PEM.
func ClientTLS(certificate, key, authorities string) (*tls.Config, error) {
	pair, err := ReadPair(certificate, key, authorities)
	if err != nil {
		return nil, err
	}
	config, err := pair.ClientTLS()
	if err != nil {
		return nil, fmt.Errorf("%w (%s, %s, %s)", err, certificate, key, authorities)
	}
	return config, nil
}

// ReadPair reads the files of a pair.
func ReadPair(certificate, key, authorities string) (Pair, error) {
	var pair Pair
	for _, file := range []struct {
		what, path string
		into       *[]byte
	}{{"certificate", certificate, &pair.Certificate}, {"key", key, &pair.Key}, {"certificate of the authority", authorities, &pair.Authority}} {
		text, err := os.ReadFile(file.path)
		if err != nil {
			return Pair{}, fmt.Errorf("certs: %s: %w", file.what, err)
		}
		*file.into = text
	}
	return pair, nil
}
