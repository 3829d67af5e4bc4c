// Package store keeps jobs over a restart of the daemon, in one bbolt file.
//
// A record is JSON, so that a person can read what a broken daemon has left behind, and so that an older daemon can read what a newer one has added to.
// What an older one would get wrong needs a new number of the schema, which it refuses. Each change is a transaction that is on the disk when the call
// returns. The file has the jobs' cookies in it and is its owner's alone.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// Schema is the number of the form that this package writes.
const Schema = 1

// patience is how long Open waits for another process to let go of the file: one that is ending, not one that runs.
const patience = time.Second

// The buckets and keys of the file.
var (
	bucketMeta = []byte("meta")
	bucketJobs = []byte("jobs")
	keySchema  = []byte("schema")
	keyLimits  = []byte("tor_limits")
	keyDrained = []byte("drained")
)

// Store is the open file. Its methods may be called from several goroutines at once.
type Store struct {
	path string
	db   *bbolt.DB
}

// Open opens the file, which it makes if there is none. The directory must be there. Errors that say what to do are *LockedError, *CorruptError and
// *NewerError.
func Open(path string) (*Store, error) {
	s := &Store{path: path}
	_, err := os.Stat(path)
	created := errors.Is(err, os.ErrNotExist)
	var file *os.File
	options := &bbolt.Options{Timeout: patience, OpenFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}}
	if err := s.guard(func() error { return s.open(options, created) }); err != nil {
		switch {
		case s.db != nil:
			err = errors.Join(err, s.db.Close())
		case file != nil:
			// Where bbolt panicked, its mapping holds on to the file, and with it to the lock. Where it did not, the file is closed already.
			_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
			_ = file.Close()
		}
		return nil, err
	}
	return s, nil
}

func (s *Store) open(options *bbolt.Options, created bool) (err error) {
	s.db, err = bbolt.Open(s.path, 0o600, options)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return &LockedError{Path: s.path, Holder: holder(s.path)}
	case errors.As(err, new(syscall.Errno)):
		return fmt.Errorf("open the state file: %w", err)
	case err != nil: // not the kernel's, so it is about what is in the file
		return &CorruptError{Path: s.path, Cause: err}
	}
	if created {
		if err := syncDirectory(filepath.Dir(s.path)); err != nil {
			return err
		}
	}
	if err := s.check(); err != nil {
		return err
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(bucketMeta)
		if err != nil {
			return fmt.Errorf("set up the state file: %w", err)
		}
		if _, err := tx.CreateBucketIfNotExists(bucketJobs); err != nil {
			return fmt.Errorf("set up the state file: %w", err)
		}
		text := meta.Get(keySchema)
		if text == nil {
			return meta.Put(keySchema, strconv.AppendInt(nil, Schema, 10))
		}
		has, err := strconv.Atoi(string(text))
		switch {
		case err != nil || has < 1:
			return &CorruptError{Path: s.path, Cause: fmt.Errorf("its schema is %q", text)}
		case has > Schema:
			return &NewerError{Path: s.path, Has: has}
		}
		return nil
	})
}

// check walks through everything in the file, which is small. It is not bbolt's own check, which works in a goroutine where a fault cannot be caught.
func (s *Store) check() error {
	return s.db.View(func(tx *bbolt.Tx) error {
		stat, err := os.Stat(s.path)
		if err != nil {
			return fmt.Errorf("look at the state file: %w", err)
		}
		// To read pages that are not there would be a fault.
		if stat.Size() < tx.Size() {
			return &CorruptError{Path: s.path, Cause: fmt.Errorf("it has %d of %d bytes", stat.Size(), tx.Size())}
		}
		return tx.ForEach(func(_ []byte, bucket *bbolt.Bucket) error {
			return bucket.ForEach(func(key, value []byte) error {
				if value == nil {
					return &CorruptError{Path: s.path, Cause: fmt.Errorf("there is something else than a value under %q", key)}
				}
				return nil
			})
		})
	})
}

// guard calls bbolt, which panics when it meets a page that cannot be, and faults when the file behind its memory ends too early.
func (s *Store) guard(call func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &CorruptError{Path: s.path, Cause: fmt.Errorf("%v", r)}
		}
	}()
	return call()
}

// Close lets go of the file.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the state file: %w", err)
	}
	return nil
}

// Put writes a job down, in the place of one of the same name.
func (s *Store) Put(job Job) error {
	value, err := json.Marshal(job)
	if err != nil {
		return fmt.Errorf("write job %q: %w", job.Name(), err)
	}
	return s.update("write job "+strconv.Quote(job.Name()), func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketJobs).Put([]byte(job.Name()), value)
	})
}

// Delete strikes a job out. It is no error that there is none of the name.
func (s *Store) Delete(name string) error {
	return s.update("delete job "+strconv.Quote(name), func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketJobs).Delete([]byte(name))
	})
}

// Jobs reads all jobs, by name.
func (s *Store) Jobs() (jobs []Job, err error) {
	err = s.guard(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketJobs).ForEach(func(name, value []byte) error {
				job, err := Decode(value)
				if err != nil {
					return &CorruptError{Path: s.path, Cause: fmt.Errorf("job %q: %w", name, err)}
				}
				if job.Name() != string(name) {
					return &CorruptError{Path: s.path, Cause: fmt.Errorf("job %q says that it is %q", name, job.Name())}
				}
				jobs = append(jobs, job)
				return nil
			})
		})
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

// Limits are what the ToR can hold.
type Limits struct {
	Slots    uint32 `json:"slots"`
	Elements int    `json:"elements"`
}

// PutLimits writes down what the ToR can hold, so that jobs can be admitted when the ToR is away at the next start.
func (s *Store) PutLimits(limits Limits) error {
	value, err := json.Marshal(limits)
	if err != nil {
		return fmt.Errorf("write the limits of the ToR: %w", err)
	}
	return s.update("write the limits of the ToR", func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyLimits, value) })
}

// Limits reads what the ToR can hold; false: it was never asked.
func (s *Store) Limits() (limits Limits, known bool, err error) {
	err = s.guard(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			value := tx.Bucket(bucketMeta).Get(keyLimits)
			if known = value != nil; !known {
				return nil
			}
			if err := json.Unmarshal(value, &limits); err != nil {
				return &CorruptError{Path: s.path, Cause: fmt.Errorf("the limits of the ToR: %w", err)}
			}
			return nil
		})
	})
	return limits, known && err == nil, err
}

// PutDrained writes down which nodes an operator wants nothing homed at.
func (s *Store) PutDrained(nodes []string) error {
	value, err := json.Marshal(nodes)
	if err != nil {
		return fmt.Errorf("write the drained nodes: %w", err)
	}
	return s.update("write the drained nodes", func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyDrained, value) })
}

// Drained reads which nodes an operator wants nothing homed at.
func (s *Store) Drained() (nodes []string, err error) {
	err = s.guard(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			value := tx.Bucket(bucketMeta).Get(keyDrained)
			if value == nil {
				return nil
			}
			if err := json.Unmarshal(value, &nodes); err != nil {
				return &CorruptError{Path: s.path, Cause: fmt.Errorf("the drained nodes: %w", err)}
			}
			return nil
		})
	})
	return nodes, err
}

// ForgetNode is what an appliance says that stands alone: nothing is written of others.
func (s *Store) ForgetNode(string) (bool, error) { return false, nil }

func (s *Store) update(what string, change func(*bbolt.Tx) error) error {
	if err := s.guard(func() error { return s.db.Update(change) }); err != nil {
		return fmt.Errorf("%s in %s: %w", what, s.path, err)
	}
	return nil
}

// syncDirectory makes a new file's name last: bbolt syncs the file alone.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync the directory of the state file: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync the directory of the state file: %w", err)
	}
	return nil
}
