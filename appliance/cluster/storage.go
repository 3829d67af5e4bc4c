package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/v3"

	"spillway/appliance/store"
)

// ErrDeposed: this appliance does not lead any more, and what it wanted to write is not written.
var ErrDeposed = errors.New("another appliance leads the cluster now")

const (
	// writeTimeout bounds a write: without a quorum of etcd it would wait for one. An election among etcd's members is over long before.
	writeTimeout = 4 * time.Second
	// attemptTimeout bounds one proposal, and retryAfter is how long after one that failed the next is made.
	attemptTimeout = 500 * time.Millisecond
	retryAfter     = 50 * time.Millisecond
)

// Storage keeps the jobs of a cluster in etcd, for the leader of one term. It is a jobs.Storage. Its methods may be called from several goroutines at once.
type Storage struct {
	ctx    context.Context // of the term
	client *clientv3.Client
	keys   keys
	// leader is the leader's key of the election, term the revision at which it was made, and fence holds as long as it is there.
	leader string
	term   int64
	fence  clientv3.Cmp
	// deposed is told once that it does not.
	deposed func()
	// took is how long the last write took.
	took *atomic.Int64

	mu        sync.Mutex // guards what follows; held for no call
	idle      *sync.Cond // that a key is written no more
	writing   map[string]bool
	revisions map[string]int64
}

// newStorage is the storage of a term.
func (c *Cluster) newStorage(ctx context.Context, client *clientv3.Client, leader string, term int64, deposed func()) *Storage {
	s := &Storage{
		ctx: ctx, client: client, keys: c.keys, took: &c.took, deposed: deposed, leader: leader, term: term,
		fence: clientv3.Compare(clientv3.CreateRevision(leader), "=", term), writing: map[string]bool{}, revisions: map[string]int64{},
	}
	s.idle = sync.NewCond(&s.mu)
	return s
}

// write puts a value under a key, or deletes the key for nil, if this appliance still leads. A proposal that was on its way to a member of etcd that died is lost
// without a word, so it is made again; and as the first may yet arrive, each holds only on what was there before.
func (s *Storage) write(what, key string, value []byte) error {
	defer s.one(key)()
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
	defer cancel()
	begun := time.Now()
	defer func() { s.took.Store(int64(time.Since(begun))) }()
	change := clientv3.OpDelete(key)
	if value != nil {
		change = clientv3.OpPut(key, string(value))
	}
	for {
		done, err := s.attempt(ctx, key, value, change)
		switch {
		case errors.Is(err, ErrDeposed):
			s.deposed()
			return fmt.Errorf("%s: %w", what, err)
		case err == nil && done:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s in etcd: not within %v: %w", what, time.Since(begun).Round(time.Millisecond), errors.Join(context.Cause(ctx), err))
		case err != nil && !wait(ctx, retryAfter):
			return fmt.Errorf("%s in etcd: %w", what, errors.Join(context.Cause(ctx), err))
		}
	}
}

// attempt is one proposal; false: something else was there than was known, and another one can be made.
func (s *Storage) attempt(ctx context.Context, key string, value []byte, change clientv3.Op) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	there := clientv3.Compare(clientv3.ModRevision(key), "=", s.known(key))
	answer, err := s.client.Txn(ctx).If(s.fence, there).Then(change).Else(clientv3.OpGet(s.leader), clientv3.OpGet(key)).Commit()
	if err != nil {
		return false, err
	}
	if answer.Succeeded {
		now := answer.Header.GetRevision()
		if value == nil {
			now = 0
		}
		s.learn(key, now)
		return true, nil
	}
	if leader := answer.Responses[0].GetResponseRange().GetKvs(); len(leader) == 0 || leader[0].CreateRevision != s.term {
		return false, ErrDeposed
	}
	has := answer.Responses[1].GetResponseRange().GetKvs()
	if len(has) == 0 {
		s.learn(key, 0)
		return value == nil, nil
	}
	s.learn(key, has[0].ModRevision)
	return value != nil && bytes.Equal(has[0].Value, value), nil
}

// known is the revision at which a key was changed last, as far as is known here; 0: it is not there.
func (s *Storage) known(key string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revisions[key]
}

func (s *Storage) learn(key string, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision == 0 {
		delete(s.revisions, key)
	} else {
		s.revisions[key] = revision
	}
}

// one lets nobody else write a key until it is called.
func (s *Storage) one(key string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing[key] {
		s.idle.Wait()
	}
	s.writing[key] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.writing, key)
		s.idle.Broadcast()
	}
}

// read gets keys. Reads are linearizable: they see all that was written.
func (s *Storage) read(what, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
	defer cancel()
	for {
		once, over := context.WithTimeout(ctx, attemptTimeout)
		answer, err := s.client.Get(once, key, options...)
		over()
		if err == nil {
			return answer, nil
		}
		if !wait(ctx, retryAfter) {
			return nil, fmt.Errorf("%s in etcd: %w", what, errors.Join(context.Cause(ctx), err))
		}
	}
}

// prepare looks whether this daemon understands what is written there.
func (s *Storage) prepare() error {
	answer, err := s.read("read the schema", s.keys.schema())
	if err != nil {
		return err
	}
	if len(answer.Kvs) == 0 {
		return s.write("write the schema", s.keys.schema(), []byte(strconv.Itoa(store.Schema)))
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
	return s.write("write job "+strconv.Quote(job.Name()), s.keys.job(job.Name()), value)
}

// Delete implements jobs.Storage.
func (s *Storage) Delete(name string) error {
	return s.write("delete job "+strconv.Quote(name), s.keys.job(name), nil)
}

// Jobs implements jobs.Storage.
func (s *Storage) Jobs() ([]store.Job, error) {
	answer, err := s.read("read the jobs", s.keys.jobs(), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return nil, err
	}
	var all []store.Job
	for _, kv := range answer.Kvs {
		s.learn(string(kv.Key), kv.ModRevision)
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
	return s.write("write "+what, key, text)
}

func (s *Storage) get(what, key string, into any) (bool, error) {
	answer, err := s.read("read "+what, key)
	if err != nil || len(answer.Kvs) == 0 {
		return false, err
	}
	s.learn(key, answer.Kvs[0].ModRevision)
	if err := json.Unmarshal(answer.Kvs[0].Value, into); err != nil {
		return false, fmt.Errorf("%s in etcd (%s): %w", what, key, err)
	}
	return true, nil
}

// Close implements jobs.Storage. The way to etcd is the cluster's, and stays.
func (s *Storage) Close() error { return nil }
