package peer

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"spillway/appliance/certs"
)

// Identity is what an appliance proves to the others that it is one of them with. It can be read again while it is used.
type Identity struct {
	certificate, key, authorities string
	pair                          atomic.Pointer[certs.Pair]
}

// LoadIdentity reads PEM files.
func LoadIdentity(certificate, key, authorities string) (*Identity, error) {
	i := &Identity{certificate: certificate, key: key, authorities: authorities}
	return i, i.Reload()
}

// Reload reads the files again; on an error what was read before stays. Connections that are there go on.
func (i *Identity) Reload() error {
	pair, err := certs.ReadPair(i.certificate, i.key, i.authorities)
	if err != nil {
		return err
	}
	if _, err := pair.ClientTLS(); err != nil {
		return err
	}
	i.pair.Store(&pair)
	return nil
}

// client is for calls to an appliance of a name.
func (i *Identity) client(name string) (*tls.Config, error) {
	config, err := i.pair.Load().ClientTLS()
	if err != nil {
		return nil, err
	}
	config.VerifyConnection = func(state tls.ConnectionState) error {
		who, err := certs.IdentityOf(state.PeerCertificates[0])
		switch {
		case err != nil:
			return err
		case who.Node != name:
			return fmt.Errorf("the certificate of the appliance that answers says %s, and %s was called: issue it one with spillway://node/%s", who, name, name)
		}
		return nil
	}
	return config, nil
}
