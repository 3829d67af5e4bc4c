package rack

import (
	"context"
	"fmt"

	"spillway/xdp"
)

// startDaemon starts the daemon, which puts the XDP program on the home's interface and tells the ToR all it should know.
func (r *Rack) startDaemon(ctx context.Context) (err error) {
	if r.daemon, err = r.newDaemon(); err != nil {
		return err
	}
	r.daemon.mu.Lock()
	defer r.daemon.mu.Unlock()
	if err := r.daemon.start(ctx, r.tor != nil); err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	if r.daemon.mode != xdp.Native {
		r.config.Log.Warn("the aggregator runs in generic mode, which is slow: figures say little", "mode", r.daemon.mode)
	}
	return nil
}

// Mode is how the aggregator's program sits on its interface.
func (r *Rack) Mode() xdp.Mode {
	r.daemon.mu.Lock()
	defer r.daemon.mu.Unlock()
	return r.daemon.mode
}
