package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// ErrSilent: no answer to a heartbeat came in time.
var ErrSilent = errors.New("no answer to the heartbeat")

// Beat sends heartbeats until ctx ends, the connection breaks, or no answer came for patience at first and for silence later on: ErrSilent then. It tells of
// every answer.
func (c *Client) Beat(ctx context.Context, term uint64, leader string, every, patience time.Duration, answered func(healthy bool, reason string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.conn.Connect()
	c.conn.ResetConnectBackoff()
	type answer struct {
		*v1.BeatResponse
		err error
	}
	answers, sending := make(chan answer), make(chan error, 1)
	go func() { // both end with ctx
		stream, err := c.api.Beat(ctx)
		if err != nil {
			sending <- err
			return
		}
		go func() {
			for {
				response, err := stream.Recv()
				select {
				case answers <- answer{response, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if stream.Send(&v1.BeatRequest{Term: term, Leader: leader}) != nil {
				return // Recv says why
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	missing := time.NewTimer(patience)
	defer missing.Stop()
	silence := max(patience, 6*every)
	for {
		select {
		case a := <-answers:
			if a.err != nil {
				return c.explain(a.err)
			}
			missing.Reset(silence)
			answered(a.GetHealthy(), a.GetReason())
		case err := <-sending:
			return c.explain(err)
		case <-missing.C:
			return fmt.Errorf("appliance %s: %w for %v", c.Name, ErrSilent, silence)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
