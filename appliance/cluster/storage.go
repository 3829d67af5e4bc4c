package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/v3"

	"spillway/appliance/store"
)

// ErrDeposed: this appliance does not lead any more, and what it wanted to write is not written.
var ErrDeposed = errors.New("another appliance leads the cluster now")

// writeTimeout bounds a write: without a quorum of etcd it would wait for one.
const writeTimeout = 3 * time.Second

// Storage keeps the jobs of a cluster in etcd, for the leader of one term. It is a jobs.Storage. Its methods may be called from several goroutines at once.
type Storage struct {
	ctx    context.Context // of the term
	client *clientv3.Client
	keys   keys
	// fence holds as long as the leader is it.
	fence clientv3.Cmp
	// deposed is told once that it does not.
	deposed func()
	// took is how long the last write took.
	took *atomic.Int64
}

// write makes a change, if this appliance still leads.
func (s *Storage) write(what string, changes ...clientv3.Op) error {
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
	defer cancel()
	begun := time.Now()
	answer, err := s.client.Txn(ctx).If(s.fence).Then(changes...).Commit()
	s.took.Store(int64(time.Since(begun)))
	if err != nil {
		return fmt.Errorf("%s in etcd: %w", what, err)
	}
	if !answer.Succeeded {
		s.deposed()
		return fmt.Errorf("%s: %w", what, ErrDeposed)
	}
	return nil
}

// read gets keys. Reads are linearizable: they see all that was written.
func (s *Storage) read(what, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
	defer cancel()
	answer, err := s.client.Get(ctx, key, options...)
	if err != nil {
		return nil, fmt.Errorf("%s in etcd: %w", what, err)
	}
	return answer, nil
}

// prepare looks whether this daemon understands what is written there.
func (s *Storage) prepare() error {
	answer, err := s.read("read the schema", s.keys.schema())
	if err != nil {
		return err
	}
	if len(answer.Kvs) == 0 {
		return s.write("write the schema", clientv3.OpPut(s.keys.schema(), strconv.Itoa(store.Schema)))
	}
	has, err := strconv.Atoi(string(answer.Kvs[0].Value))
	if err != nil || has < 1 {
		return fmt.Errorf("%s in etcd is %q, which is no number of a schema", s.keys.schema(), answer.Kvs[0].Value)
	}
	if has > store.Schema {
		return fmt.Errorf("the cluster's state has schema %d, and this daemon knows %d: install the version that the others have", has, store.Schema)
	}
	return nil
}

// Put implements jobs.Storage.
func (s *Storage) Put(job store.Job) error {
	value, err := json.Marshal(job)
	if err != nil {
		return fmt.Errorf("write job %q: %w", job.Name(), err)
	}
	return s.write("write job "+strconv.Quote(job.Name()), clientv3.OpPut(s.keys.job(job.Name()), string(value)))
}

// Delete implements jobs.Storage.
func (s *Storage) Delete(name string) error {
	return s.write("delete job "+strconv.Quote(name), clientv3.OpDelete(s.keys.job(name)))
}

// Jobs implements jobs.Storage.
func (s *Storage) Jobs() ([]store.Job, error) {
	answer, err := s.read("read the jobs", s.keys.jobs(), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return nil, err
	}
	var all []store.Job
	for _, kv := range answer.Kvs {
		name := strings.TrimPrefix(string(kv.Key), s.keys.jobs())
		job, err := store.Decode(kv.Value)
		if err == nil && job.Name() != name {
			err = fmt.Errorf("it says that it is %q", job.Name())
		}
		if err != nil {
			return nil, fmt.Errorf("job %q in etcd (%s) cannot be read: %w: delete the key (etcdctl del), and create the job again", name, kv.Key, err)
		}
		all = append(all, job)
	}
	return all, nil
}

// PutLimits implements jobs.Storage.
func (s *Storage) PutLimits(limits store.Limits) error {
	return s.put("the limits of the ToR", s.keys.limits(), limits)
}

// Limits implements jobs.Storage.
func (s *Storage) Limits() (limits store.Limits, known bool, err error) {
	known, err = s.get("the limits of the ToR", s.keys.limits(), &limits)
	return limits, known, err
}

// PutDrained implements jobs.Storage.
func (s *Storage) PutDrained(nodes []string) error {
	return s.put("the drained nodes", s.keys.drained(), nodes)
}

// Drained implements jobs.Storage.
func (s *Storage) Drained() (nodes []string, err error) {
	_, err = s.get("the drained nodes", s.keys.drained(), &nodes)
	return nodes, err
}

func (s *Storage) put(what, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return s.write("write "+what, clientv3.OpPut(key, string(text)))
}

func (s *Storage) get(what, key string, into any) (bool, error) {
	answer, err := s.read("read "+what, key)
	if err != nil || len(answer.Kvs) == 0 {
		return false, err
	}
	if err := json.Unmarshal(answer.Kvs[0].Value, into); err != nil {
		return false, fmt.Errorf("%s in etcd (%s): %w", what, key, err)
	}
	return true, nil
}

// Close implements jobs.Storage. The way to etcd is the cluster's, and stays.
func (s *Storage) Close() error { return nil }
