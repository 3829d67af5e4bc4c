package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"

	"spillway/appliance/certs"
	"spillway/appliance/cluster/etcd"
)

// role is set in processes that are members of etcd.
const role = "SPILLWAY_TEST_ETCD"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	var member etcd.Embedded
	if err := json.Unmarshal([]byte(os.Getenv(role)), &member); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	way, err := etcd.Open(etcd.Config{Embedded: &member})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test lets go, or kills
	if err := way.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// quorum are three members of etcd, each a process.
type quorum struct {
	t         *testing.T
	start     func(i int) *exec.Cmd
	processes [3]*exec.Cmd
	endpoints []string
}

// addresses are free ones on loopback.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}

// embedded are members as the daemon has them.
func embedded(t *testing.T) *quorum {
	t.Helper()
	own, peers := addresses(t, 3), addresses(t, 3)
	// Not t.TempDir: the name of a test makes the path too long for a socket.
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]string{"a": peers[0], "b": peers[1], "c": peers[2]}
	q := &quorum{t: t, endpoints: own}
	q.start = func(i int) *exec.Cmd {
		name := string(rune('a' + i))
		text, err := json.Marshal(etcd.Embedded{Name: name, Members: members, Token: "test", Data: filepath.Join(dir, name), Clients: own[i]})
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), role+"="+string(text))
		return c
	}
	q.run(dir)
	return q
}

// debian are members of Debian's etcd-server.
func debian(t *testing.T) *quorum {
	t.Helper()
	path, err := exec.LookPath("etcd")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no etcd, which CI installs: apt-get install etcd-server")
		}
		t.Skip("there is no etcd: apt-get install etcd-server")
	}
	own, peers := addresses(t, 3), addresses(t, 3)
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	for i, p := range peers {
		members = append(members, fmt.Sprintf("%c=http://%s", 'a'+i, p))
	}
	q := &quorum{t: t, endpoints: own}
	q.start = func(i int) *exec.Cmd {
		name := string(rune('a' + i))
		return exec.Command(path, "--name", name, "--data-dir", filepath.Join(dir, name), "--initial-cluster", strings.Join(members, ","),
			"--listen-peer-urls", "http://"+peers[i], "--initial-advertise-peer-urls", "http://"+peers[i],
			"--listen-client-urls", "http://"+own[i], "--advertise-client-urls", "http://"+own[i],
			"--heartbeat-interval", "50", "--election-timeout", "300", "--log-level", "error")
	}
	q.run(dir)
	return q
}

func (q *quorum) run(dir string) {
	q.t.Helper()
	for i := range q.processes {
		q.again(i)
	}
	q.t.Cleanup(func() {
		for i := range q.processes {
			q.kill(i)
		}
		if err := os.RemoveAll(dir); err != nil {
			q.t.Error(err)
		}
	})
	q.await()
}

// again starts a member, as the first time or after it was killed.
func (q *quorum) again(i int) {
	q.t.Helper()
	c := q.start(i)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		q.t.Fatal(err)
	}
	_ = in // is open as long as the test lives
	q.processes[i] = c
}

// kill kills a member (SIGKILL).
func (q *quorum) kill(i int) {
	if c := q.processes[i]; c != nil {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()         // killed
		q.processes[i] = nil
	}
}

// client is a client of all members.
func (q *quorum) client() *clientv3.Client {
	q.t.Helper()
	way, err := etcd.Open(etcd.Config{Endpoints: q.endpoints})
	if err != nil {
		q.t.Fatal(err)
	}
	q.t.Cleanup(func() {
		if err := way.Close(); err != nil {
			q.t.Error(err)
		}
	})
	return way.Client
}

// await waits until the members agree.
func (q *quorum) await() {
	q.t.Helper()
	client := q.client()
	within(q.t, "the members of etcd to agree", func() bool {
		ctx, cancel := context.WithTimeout(q.t.Context(), time.Second)
		defer cancel()
		_, err := client.Get(ctx, "x")
		return err == nil
	})
}

// within waits until a condition holds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(30 * time.Second); !holds(); <-look.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// lab issues to appliances.
type lab struct {
	dir       string
	authority *certs.Authority
}

func newLab(t *testing.T) *lab {
	t.Helper()
	authority, err := certs.NewAuthority("appliances", 0)
	if err != nil {
		t.Fatal(err)
	}
	return &lab{t.TempDir(), authority}
}

// issue writes an appliance's certificate, and says where.
func (l *lab) issue(t *testing.T, name string) (certificate, key, authorities string) {
	t.Helper()
	pair, err := l.authority.Issue(certs.Request{Name: name, Identity: certs.Identity{Node: name}, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
	if err == nil {
		err = pair.Write(l.dir, name, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(l.dir, name+".crt"), filepath.Join(l.dir, name+".key"), filepath.Join(l.dir, "ca.crt")
}
