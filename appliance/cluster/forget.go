package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/v3"

	"spillway/appliance/jobs"
)

// ForgetNode implements jobs.Storage: it strikes out that an appliance ever registered, unless it is registered now. As each proposal holds only on what was there
// before, one that arrives late does not strike out an appliance that has come back.
func (s *Storage) ForgetNode(name string) (known bool, err error) {
	key, member := s.keys.knownAs(name), s.keys.member(name)
	what := "forget appliance " + name
	has, err := s.read(what, key)
	if err != nil || len(has.Kvs) == 0 {
		return false, err
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
	defer cancel()
	for {
		once, over := context.WithTimeout(ctx, attemptTimeout)
		answer, err := s.client.Txn(once).If(
			s.fence, clientv3.Compare(clientv3.CreateRevision(member), "=", 0), clientv3.Compare(clientv3.ModRevision(key), "=", has.Kvs[0].ModRevision),
		).Then(clientv3.OpDelete(key)).Else(clientv3.OpGet(s.leader), clientv3.OpGet(key)).Commit()
		over()
		if err != nil {
			if !wait(ctx, retryAfter) {
				return true, fmt.Errorf("%s in etcd: not within %v: %w", what, time.Since(begun).Round(time.Millisecond), errors.Join(context.Cause(ctx), err))
			}
			continue
		}
		if answer.Succeeded {
			return true, nil
		}
		if leader := answer.Responses[0].GetResponseRange().GetKvs(); len(leader) == 0 || leader[0].CreateRevision != s.term {
			s.deposed()
			return true, fmt.Errorf("%s: %w", what, ErrDeposed)
		}
		if len(answer.Responses[1].GetResponseRange().GetKvs()) == 0 { // an attempt before, of which nothing was heard
			return true, nil
		}
		return true, fmt.Errorf("%s: %w", what, jobs.ErrNodeThere)
	}
}
