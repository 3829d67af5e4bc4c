package rack

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "spillway/appliance/api/spillway/v1"
)

// answerWithin is how long one look at the cluster may take. A call that a follower had passed on to a leader which was cut off has no answer any more; the next
// call goes to the leader of then.
const answerWithin = 2 * time.Second

// ask asks the cluster something until it is answered: between two leaders nobody can.
func (r *Rack) ask(ctx context.Context, what string, call func(*daemon) (done bool, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, daemonPatience, fmt.Errorf("%s: not within %v", what, daemonPatience))
	defer cancel()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		done, err := call(r.operator())
		if err != nil && status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded {
			return fmt.Errorf("%s: %w", what, said(err))
		}
		if err == nil && done {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (the last answer: %v)", context.Cause(ctx), err)
		}
	}
}

// indexOf is the appliance of a name; -1: there is none.
func (r *Rack) indexOf(name string) int {
	for _, a := range r.appliances {
		if ApplianceName(a.index) == name {
			return a.index
		}
	}
	return -1
}

// Leader is the appliance that leads the others.
func (r *Rack) Leader(ctx context.Context) (index int, err error) {
	err = r.ask(ctx, "who leads the cluster", func(d *daemon) (bool, error) {
		ctx, answered := context.WithTimeout(ctx, answerWithin)
		defer answered()
		answer, err := d.cluster.ListNodes(ctx, &v1.ListNodesRequest{})
		for _, n := range answer.GetNodes() {
			if n.GetLeader() {
				index = r.indexOf(n.GetName())
				return true, err
			}
		}
		return false, err
	})
	return index, err
}

// Home is the appliance that a job is homed at, of several the first; but is one that it must not be at, and -1 none.
func (r *Rack) Home(ctx context.Context, job string, but int) (index int, err error) {
	err = r.ask(ctx, "where job "+job+" is homed", func(d *daemon) (bool, error) {
		ctx, answered := context.WithTimeout(ctx, answerWithin)
		defer answered()
		answer, err := d.jobs.GetJob(ctx, &v1.GetJobRequest{Name: job})
		homes := answer.GetJob().GetHomes()
		if len(homes) == 0 {
			return false, err
		}
		index = r.indexOf(homes[0])
		return index != but && index >= 0, err
	})
	return index, err
}

// AwaitNode waits until jobs can be homed at an appliance.
func (r *Rack) AwaitNode(ctx context.Context, index int) error {
	return r.ask(ctx, "appliance "+ApplianceName(index)+" has a part in the cluster", func(d *daemon) (bool, error) {
		ctx, answered := context.WithTimeout(ctx, answerWithin)
		defer answered()
		answer, err := d.cluster.ListNodes(ctx, &v1.ListNodesRequest{})
		for _, n := range answer.GetNodes() {
			if n.GetName() == ApplianceName(index) {
				return n.GetState() == v1.NodeState_NODE_STATE_READY, err
			}
		}
		return false, err
	})
}

// DrainNode has all jobs move away from an appliance, and returns how many did.
func (r *Rack) DrainNode(ctx context.Context, index int) (moved int, err error) {
	err = r.ask(ctx, "drain "+ApplianceName(index), func(d *daemon) (bool, error) {
		answer, err := d.cluster.DrainNode(ctx, &v1.DrainNodeRequest{Name: ApplianceName(index)})
		moved = len(answer.GetMoved())
		return true, err
	})
	return moved, err
}

// UndrainNode lets it be given jobs again.
func (r *Rack) UndrainNode(ctx context.Context, index int) error {
	return r.ask(ctx, "undrain "+ApplianceName(index), func(d *daemon) (bool, error) {
		_, err := d.cluster.UndrainNode(ctx, &v1.UndrainNodeRequest{Name: ApplianceName(index)})
		return true, err
	})
}
