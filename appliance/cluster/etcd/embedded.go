package etcd

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// Embedded is a member of etcd in the daemon.
type Embedded struct {
	// Name is the member's, Members are the addresses (host:port) of all by their names, and Token is what tells one cluster from another.
	Name    string
	Members map[string]string
	Token   string
	// Data is the member's directory. Join says that the other members are there and that this one was added to them.
	Data string
	// Clients is host:port for clients in other daemons; empty: none. Whoever has a certificate of the authorities may change everything there.
	Clients string
	Join    bool
	// Certificate, Key and Authorities are PEM files of the member's mutual TLS with the others; empty: in the clear, for tests.
	Certificate, Key, Authorities string
	// Hosts are those that a certificate of another member must be for, besides being of the authorities.
	Hosts []string
}

// The members are in one rack, some tens of microseconds from each other: a leader that is silent for that long is gone. Milliseconds.
const (
	heartbeat = 50
	election  = 300
)

// SocketName is the socket of the member's clients in its directory, for etcdctl.
const SocketName = "etcd.sock"

// start starts the member, which looks for the others then.
func (m *Embedded) start(log *slog.Logger, ending *atomic.Bool) (*embed.Etcd, error) {
	config := embed.NewConfig()
	config.Name, config.Dir, config.InitialClusterToken = m.Name, m.Data, m.Token
	config.TickMs, config.ElectionMs = heartbeat, election
	config.ClusterState = embed.ClusterStateFlagNew
	if m.Join {
		config.ClusterState = embed.ClusterStateFlagExisting
	}
	// A cluster writes little, and nobody reads what was.
	config.AutoCompactionMode, config.AutoCompactionRetention = embed.CompactorModePeriodic, "10m"
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapTo(log, ending))

	scheme := "http"
	if m.Certificate != "" {
		scheme = "https"
		config.PeerTLSInfo = transport.TLSInfo{
			CertFile: m.Certificate, KeyFile: m.Key, TrustedCAFile: m.Authorities, ClientCertAuth: true, AllowedHostnames: m.Hosts,
		}
	}
	var members []string
	for name, address := range m.Members {
		members = append(members, fmt.Sprintf("%s=%s://%s", name, scheme, address))
	}
	config.InitialCluster = strings.Join(members, ",")
	own, ok := m.Members[m.Name]
	if !ok {
		return nil, fmt.Errorf("etcd: member %s is not among the members", m.Name)
	}
	at := []url.URL{{Scheme: scheme, Host: own}}
	config.ListenPeerUrls, config.AdvertisePeerUrls = at, at
	socket := []url.URL{{Scheme: "unix", Path: filepath.Join(m.Data, SocketName)}}
	config.ListenClientUrls, config.AdvertiseClientUrls = socket, socket
	if m.Clients != "" {
		clients := url.URL{Scheme: scheme, Host: m.Clients}
		config.ListenClientUrls = append(config.ListenClientUrls, clients)
		config.AdvertiseClientUrls = []url.URL{clients}
		config.ClientTLSInfo = transport.TLSInfo{CertFile: m.Certificate, KeyFile: m.Key, TrustedCAFile: m.Authorities, ClientCertAuth: m.Certificate != ""}
	}
	if err := os.MkdirAll(m.Data, 0o700); err != nil { // the socket comes before the member
		return nil, fmt.Errorf("etcd member %s: %w", m.Name, err)
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("etcd member %s in %s: %w", m.Name, m.Data, err)
	}
	return server, nil
}
