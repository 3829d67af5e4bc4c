package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"spillway/loadtest/rack"
)

// agentScript is what Open MPI takes for a remote shell: it runs a command on a "host", which is in the namespace of a worker, under a host name of its own. Hosts that had
// one name in common would be one to Open MPI, and talk through shared memory.
const agentScript = `#!/bin/sh
host=$1
shift
exec nsenter --net="$(dirname "$0")/$host" unshare --uts sh -c 'hostname "$0" && exec sh -c "$*"' "$host" "$@"
`

// mpiRules has Open MPI take its ring for all-reduces (collective 2) of 1 MB and more, among 2 ranks and more, and leaves it its own choice (0) below: the ring is its fastest
// algorithm on links that have a rate, by a third faster than what it takes by itself (4 workers, 4 MB, 50 Mbit/s: 85% of the wire limit and 63%).
const mpiRules = `1
2
1
2
2
0 0 0 0
1000000 4 0 0
`

// mpiOptions are those of mpirun beside the hosts. Ranks that wait give their core away: there are more of them than cores, and a waiting one that spins keeps the others from working.
func mpiOptions(files string, shaped bool) []string {
	options := []string{
		"--allow-run-as-root", "--bind-to", "none",
		"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1",
		"--mca", "plm_rsh_agent", filepath.Join(files, "agent"), "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "orte_tmpdir_base", files,
	}
	if shaped {
		options = append(options, "--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_dynamic_rules_filename", filepath.Join(files, "rules"))
	}
	return options
}

// mpiHost is what Open MPI calls a worker's host.
func mpiHost(rank int) string { return fmt.Sprintf("w%d", rank) }

// mpiRanks is mpirun with its ranks. What mpirun says and hears is rank 0's; each rank is spoken to over a socket of its own.
type mpiRanks struct {
	listener *net.UnixListener
	members  []*mpiRank
}

// startMPI starts mpirun in the namespace of worker 0, and waits for all ranks.
func startMPI(ctx context.Context, r *rack.Rack, o *compareOptions, shaped bool) (c *crew, m *mpiRanks, command string, err error) {
	files, err := os.MkdirTemp(o.files, "mpi-")
	if err != nil {
		return nil, nil, "", err
	}
	err = errors.Join(os.WriteFile(filepath.Join(files, "agent"), []byte(agentScript), 0o755), os.WriteFile(filepath.Join(files, "rules"), []byte(mpiRules), 0o644))
	if err != nil {
		return nil, nil, "", err
	}
	var hosts []string
	for rank := range r.Workers() {
		if err := os.Symlink(r.WorkerNamespace(rank), filepath.Join(files, mpiHost(rank))); err != nil {
			return nil, nil, "", err
		}
		hosts = append(hosts, mpiHost(rank)+":1")
	}
	m = &mpiRanks{}
	address := &net.UnixAddr{Name: filepath.Join(files, "socket"), Net: "unix"}
	if m.listener, err = net.ListenUnix("unix", address); err != nil {
		return nil, nil, "", err
	}
	line := append([]string{"mpirun", "-np", fmt.Sprint(r.Workers()), "--host", strings.Join(hosts, ",")}, mpiOptions(files, shaped)...)
	line = append(line, o.python, o.script(), systemOpenMPI, "--socket", address.Name)
	mpirun, err := r.StartWorker(0, rack.Command{
		Path: "unshare", Args: append([]string{"--uts", "sh", "-c", `hostname "$0" && exec "$@"`, mpiHost(0)}, line...), Env: peerEnvironment(), Stderr: o.err, Family: true,
	})
	if err != nil {
		return nil, nil, "", errors.Join(err, m.close())
	}
	if err := m.accept(ctx, r.Workers(), mpirun); err != nil {
		return nil, nil, "", errors.Join(err, m.close())
	}
	c = &crew{processes: []*rack.Process{mpirun}}
	for _, member := range m.members {
		c.members = append(c.members, member)
	}
	note := "agent: enters a worker's namespace, under a host name of its own"
	if shaped {
		note += "; rules: the ring from 1 MB on"
	}
	// In the report the places are those that a reader can have.
	return c, m, strings.NewReplacer(files, "DIRECTORY", o.files+"/", "").Replace(strings.Join(line, " ")) + "  (" + note + ")", nil
}

// accept waits until each rank has called, or mpirun has ended.
func (m *mpiRanks) accept(ctx context.Context, ranks int, mpirun *rack.Process) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with this function
		var nothing json.RawMessage
		cancel(mpirun.Receive(ctx, &nothing))
	}()
	stop := context.AfterFunc(ctx, func() { _ = m.listener.Close() }) // Accept then fails
	defer stop()
	m.members = make([]*mpiRank, ranks)
	for range ranks {
		conn, err := m.listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("start Open MPI: %w", err)
		}
		member := newMPIRank(conn, mpirun)
		var who struct {
			Rank int `json:"rank"`
		}
		if err := member.Receive(ctx, &who); err != nil {
			return errors.Join(fmt.Errorf("start Open MPI: %w", err), conn.Close())
		}
		if who.Rank < 0 || who.Rank >= ranks || m.members[who.Rank] != nil {
			return errors.Join(fmt.Errorf("start Open MPI: a process says that it is rank %d of %d", who.Rank, ranks), conn.Close())
		}
		member.rank, m.members[who.Rank] = who.Rank, member
	}
	return nil
}

// close ends the conversations, at which the ranks end, and mpirun with them.
func (m *mpiRanks) close() error {
	if m == nil {
		return nil
	}
	if err := m.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	for _, member := range m.members {
		if member != nil {
			member.close()
		}
	}
	return nil
}

// An mpiRank is a rank of Open MPI, spoken to over its socket.
type mpiRank struct {
	rank   int
	conn   net.Conn
	mpirun *rack.Process
	lines  chan []byte // closed at the end
}

func newMPIRank(conn net.Conn, mpirun *rack.Process) *mpiRank {
	m := &mpiRank{rank: -1, conn: conn, mpirun: mpirun, lines: make(chan []byte, 1)}
	go func() { // ends with the connection
		defer close(m.lines)
		lines := bufio.NewReader(conn)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			m.lines <- line
		}
	}()
	return m
}

// Send writes v to the rank as a line of JSON.
func (m *mpiRank) Send(v any) error {
	if err := json.NewEncoder(m.conn).Encode(v); err != nil {
		return fmt.Errorf("message to rank %d of Open MPI: %w", m.rank, err)
	}
	return nil
}

// Receive reads its next line of JSON. When there is none, mpirun knows why.
func (m *mpiRank) Receive(ctx context.Context, v any) error {
	select {
	case line, ok := <-m.lines:
		if !ok {
			var nothing json.RawMessage
			return fmt.Errorf("rank %d of Open MPI has left: %w", m.rank, m.mpirun.Receive(ctx, &nothing))
		}
		return json.Unmarshal(line, v)
	case <-ctx.Done():
		return fmt.Errorf("rank %d of Open MPI: %w", m.rank, context.Cause(ctx))
	}
}

// close ends the conversation. What was not received is dropped.
func (m *mpiRank) close() {
	_ = m.conn.Close() // nothing is lost with it: an answer that matters has been received
	for range m.lines {
	}
}
