package fabric

import (
	"context"
	"errors"
	"fmt"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"

	"spillway/p4/client"
)

const (
	// beat is how often a ToR is asked for its pipeline's cookie, and answer how long it may take over it: together they are how long a dead
	// one goes unnoticed. (gRPC's own pings come 10 s apart at the soonest.)
	beat   = 500 * time.Millisecond
	answer = 1500 * time.Millisecond
	// attempt bounds the opening of a session, patience any other call but a push.
	attempt  = 2 * time.Second
	patience = 5 * time.Second
	pushing  = time.Minute
)

// Run owns the session with the ToR. It returns nil when ctx ends, everything closed.
func (f *Fabric) Run(ctx context.Context) error {
	if !f.running.CompareAndSwap(false, true) {
		return errors.New("the ToR's session has an owner already")
	}
	defer f.running.Store(false)
	var wait backoff
	for {
		err := f.meet(ctx, &wait)
		if ctx.Err() != nil {
			f.stop()
			return nil
		}
		f.become(away, err.Error())
		if !pause(ctx, wait.delay()) {
			f.stop()
			return nil
		}
	}
}

// stop says that nobody looks after the ToR any more, which is no event of the ToR's.
func (f *Fabric) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != away {
		f.since = time.Now()
	}
	f.state, f.reason, f.connecting = away, "the appliance is stopping", false
	close(f.changed)
	f.changed = make(chan struct{})
	f.move()
}

// meet opens a session and stays in it until it ends. The error is why it did.
func (f *Fabric) meet(ctx context.Context, wait *backoff) (err error) {
	c, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		f.mu.Lock()
		f.session = nil
		f.mu.Unlock()
		err = errors.Join(err, c.Close())
	}()
	f.mu.Lock()
	f.session = c
	f.totals.sessions++
	f.target = target{}
	f.mu.Unlock()
	heart := time.NewTicker(beat)
	defer heart.Stop()
	for {
		now, changed := c.Arbitration()
		if now.Primary() {
			err = f.lead(ctx, c, changed, heart, wait)
		} else {
			err = f.follow(ctx, c, now, changed, heart, wait)
		}
		if err != nil {
			return err
		}
	}
}

// open makes one attempt at a session. Each asks with a higher election id than the last one that was primary, for the ToR may not have noticed
// yet that that has ended. A backup's stays below the primary's.
func (f *Fabric) open(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, attempt, fmt.Errorf("no answer within %v", attempt))
	defer cancel()
	f.mu.Lock()
	id := f.election
	f.mu.Unlock()
	c, err := client.Dial(ctx, client.Config{
		Target: f.config.Target, Device: f.config.Device, Election: &id, Info: f.info,
		Options: append([]grpc.DialOption{
			// Its timeout is the kernel's for data that is not acknowledged, too.
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 2 * time.Second}),
		}, f.config.Dial...),
	})
	if err != nil {
		return nil, err
	}
	now, _ := c.Arbitration()
	if now.Primary() || now.Highest != nil && id.Next().Compare(*now.Highest) < 0 {
		f.next(id)
	}
	return c, nil
}

// next notes the election id that was asked with, for the next session to have a higher one.
func (f *Fabric) next(id client.ElectionID) {
	f.mu.Lock()
	f.election = id.Next()
	f.mu.Unlock()
}

// follow waits as backup for another notice. Where there is no primary, which nobody becomes by itself, it asks to be.
func (f *Fabric) follow(ctx context.Context, c *client.Client, now client.Arbitration, changed <-chan struct{}, heart *time.Ticker, wait *backoff) error {
	if now.Status == codes.NotFound {
		f.doubt()
		f.become(syncing, "there is no primary controller; this appliance asks to be")
		// Two backups must not ask at once with the same id.
		t := time.NewTimer(wait.delay())
		defer t.Stop()
		select {
		case <-t.C:
		case <-changed:
			return nil
		case <-c.Done():
			return c.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		f.mu.Lock()
		id := f.election
		f.mu.Unlock()
		if now.Highest != nil && now.Highest.Compare(id) >= 0 {
			id = now.Highest.Next()
		}
		asking, cancel := context.WithTimeoutCause(ctx, attempt, fmt.Errorf("no answer within %v", attempt))
		defer cancel()
		if _, err := c.Elect(asking, &id); err != nil {
			return err
		}
		f.next(id)
		return nil
	}
	wait.reset()
	f.become(backup, fmt.Sprintf("the ToR at %s has another primary controller, with election id %v", f.config.Target, now.Highest))
	for {
		select {
		case <-changed:
			return nil
		case <-heart.C:
			if _, err := f.cookie(ctx, c); err != nil {
				return err
			}
		case <-c.Done():
			return c.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lead keeps the ToR as it should be while this appliance is primary. It returns nil when there is another notice.
func (f *Fabric) lead(ctx context.Context, c *client.Client, changed <-chan struct{}, heart *time.Ticker, wait *backoff) error {
	f.doubt()
	f.become(syncing, "the pipeline and the entries are being read")
	next := time.NewTimer(time.Hour)
	defer next.Stop()
	for due := checkAll; ; {
		var err error
		if due == checkAll {
			err = f.check(ctx, c)
		} else if err = f.apply(ctx, c); errors.Is(err, errNotAsBelieved) {
			due = checkAll
			continue
		}
		switch {
		case c.Err() != nil:
			return c.Err()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			f.become(syncing, err.Error())
			next.Reset(wait.delay())
		case due == checkAll:
			wait.reset()
			next.Reset(f.config.Check)
		}
		failed := err != nil
		if due, err = f.idle(ctx, c, changed, heart, next); err != nil || due == nothing {
			return err
		}
		if failed {
			due = checkAll // what the ToR has is not known
		}
	}
}

// due is what a primary is to do next.
type due int

const (
	nothing   due = iota // look who is primary
	checkAll             // compare all of the ToR with what is wanted
	applyMore            // write what is wanted and was not
)

// idle waits until there is something to do, and whether the ToR is still there and has its pipeline.
func (f *Fabric) idle(ctx context.Context, c *client.Client, changed <-chan struct{}, heart *time.Ticker, next *time.Timer) (due, error) {
	for {
		select {
		case <-changed:
			return nothing, nil
		case <-c.Done():
			return nothing, c.Err()
		case <-ctx.Done():
			return nothing, context.Cause(ctx)
		case <-next.C:
			return checkAll, nil
		case <-f.poke:
			return applyMore, nil
		case <-heart.C:
			cookie, err := f.cookie(ctx, c)
			if err != nil {
				return nothing, err
			}
			if cookie == nil || *cookie != f.config.Program.Cookie {
				f.doubt()
				f.become(syncing, "the ToR has lost its pipeline, or has another one")
				return checkAll, nil
			}
		}
	}
}

// doubt forgets that jobs are in the ToR.
func (f *Fabric) doubt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs {
		j.in = false
	}
}

// cookie asks the ToR for its pipeline's, which is nil when it has none. A ToR that does not answer in time is given up, as one that is not
// there would be.
func (f *Fabric) cookie(ctx context.Context, c *client.Client) (*uint64, error) {
	asking, cancel := context.WithTimeoutCause(ctx, answer, fmt.Errorf("no answer within %v", answer))
	defer cancel()
	there, err := c.Pipeline(asking, p4v1.GetForwardingPipelineConfigRequest_COOKIE_ONLY)
	if err != nil {
		if cause := context.Cause(asking); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	if there.GetCookie() == nil {
		return nil, nil
	}
	cookie := there.GetCookie().GetCookie()
	f.mu.Lock()
	f.target.cookie = cookie
	f.mu.Unlock()
	return &cookie, nil
}
