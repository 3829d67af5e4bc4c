package cluster

import (
	"encoding/json"
	"fmt"
	"strings"

	"spillway/xdp"
)

// keys are where things are in etcd.
type keys struct{ prefix string }

func keysOf(cluster string) keys { return keys{"/spillway/" + cluster + "/"} }

func (k keys) election() string        { return k.prefix + "leader" }
func (k keys) members() string         { return k.prefix + "members/" }
func (k keys) member(n string) string  { return k.members() + n }
func (k keys) jobs() string            { return k.prefix + "jobs/" }
func (k keys) job(name string) string  { return k.jobs() + name }
func (k keys) limits() string          { return k.prefix + "tor_limits" }
func (k keys) drained() string         { return k.prefix + "drained" }
func (k keys) schema() string          { return k.prefix + "schema" }
func (k keys) known() string           { return k.prefix + "known/" }
func (k keys) knownAs(n string) string { return k.known() + n }

// Member is an appliance as the others find it in etcd.
type Member struct {
	Name string `json:"name"`
	// Peers is where the others reach it, Workers where workers do.
	Peers   string `json:"peers"`
	Workers string `json:"workers"`
	Rack    string `json:"rack,omitempty"`
	Version string `json:"version"`
	// Slots are those of its aggregator, MTU the least of its interfaces, MaxJobs what it takes at most, Interfaces their names and addresses.
	Slots      xdp.Slots   `json:"slots"`
	MTU        int         `json:"mtu"`
	MaxJobs    uint32      `json:"max_jobs"`
	Interfaces []Interface `json:"interfaces"`
}

// Interface is one that a member's aggregator sits on.
type Interface struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

func (m *Member) text() (string, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("write down appliance %s: %w", m.Name, err)
	}
	return string(text), nil
}

func parseMember(key string, text []byte) (Member, error) {
	var m Member
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s in etcd: %w", key, err)
	}
	if want := key[strings.LastIndexByte(key, '/')+1:]; m.Name != want && !strings.Contains(key, "/leader/") {
		return m, fmt.Errorf("%s in etcd says that it is %q", key, m.Name)
	}
	return m, nil
}

// seen tells whether a key has something of a view.
func (k keys) seen(key string) bool {
	return strings.HasPrefix(key, k.members()) || strings.HasPrefix(key, k.known()) || strings.HasPrefix(key, k.election()+"/")
}
