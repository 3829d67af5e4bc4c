package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/cluster"
	"spillway/appliance/cluster/peer"
	"spillway/appliance/config"
	"spillway/appliance/events"
	"spillway/appliance/jobs"
	"spillway/appliance/metrics"
	"spillway/appliance/observe"
	"spillway/appliance/server"
	"spillway/appliance/store"
	"spillway/xdp"
)

// Options are what a daemon is told beside its configuration.
type Options struct {
	// Path of the configuration, which SIGHUP has read again.
	Path string
	// Upgrade takes over a data plane of another version, as aggregator.upgrade does.
	Upgrade bool
	Version string
	// Log is where the log goes.
	Log io.Writer
	// Signals are SIGHUP, to reload, and others, the first of which ends the daemon in order and the second at once. nil: none come.
	Signals <-chan os.Signal
}

// ErrAtOnce is why a daemon ended that was told to twice.
var ErrAtOnce = errors.New("ended at once by a second signal: calls were cut off")

// errTold is the cause of an end in order.
var errTold = errors.New("told to end")

// daemon is what a running one is made of, in the order in which it is made.
type daemon struct {
	changing sync.Mutex     // guards config while it is changed, and while a reign is made of it; nothing else is locked before it
	config   *config.Config // as in force: a reload changes it
	options  Options
	level    *slog.LevelVar
	log      *slog.Logger
	notify   *notifier
	events   *events.Log
	warnings *warnings

	plane      *xdp.Aggregator
	interfaces *interfaces
	observing  observe.Config // what is the same in all observers
	local      *observe.Observer
	seat       *seat
	cluster    *cluster.Cluster // nil, and the next two: the appliance stands alone
	terms      *peer.Terms
	identity   *peer.Identity
	server     *server.Server
	liveness   *liveness
	metrics    *metrics.Server // nil: off
}

// Run is the daemon, until a signal comes or ctx ends, which is as good as one. The data plane stays where it is, with what it holds.
func Run(ctx context.Context, c *config.Config, o Options) error {
	d := &daemon{config: c, options: o, level: &slog.LevelVar{}, events: events.New(0), warnings: &warnings{}}
	d.seat = &seat{daemon: d}
	if err := d.level.UnmarshalText([]byte(c.Log.Level)); err != nil {
		return fmt.Errorf("log.level: %w", err)
	}
	d.log = newLog(o.Log, c.Log.Format, d.level)
	slog.SetDefault(d.log) // for what has no log of its own: the data plane's warnings
	d.notify = &notifier{log: d.log}

	ending, end := context.WithCancelCause(ctx)
	defer end(nil)
	atOnce, reload := make(chan struct{}), make(chan struct{}, 1)
	stopListening := d.listen(end, atOnce, reload)
	defer stopListening()

	done := make(chan error, 1)
	go func() { done <- d.live(ending, end, reload) }()
	select {
	case err := <-done:
		return err
	case <-atOnce:
		d.log.Warn("ended at once by a second signal")
		return ErrAtOnce
	}
}

// listen turns signals into what they mean, until what it returns is called.
func (d *daemon) listen(end context.CancelCauseFunc, atOnce, reload chan<- struct{}) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		told := false
		for {
			select {
			case <-quit:
				return
			case s := <-d.options.Signals:
				switch {
				case s == syscall.SIGHUP:
					select {
					case reload <- struct{}{}:
					default: // one is waiting already
					}
				case told:
					close(atOnce)
					return
				default:
					told = true
					d.log.Info("ending; once more ends at once", "signal", s.String())
					end(errTold)
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

// live is the daemon from its start to its end in order.
func (d *daemon) live(ending context.Context, end context.CancelCauseFunc, reload <-chan struct{}) (err error) {
	begun := time.Now()
	d.notify.say("starting")
	defer func() { err = errors.Join(err, d.release()) }()
	if err := d.start(ending, begun); err != nil {
		if errors.Is(context.Cause(ending), errTold) {
			return nil // whatever could not be done because of that
		}
		return err
	}
	return d.serve(ending, end, reload, begun)
}

// release closes what start opened and no part closes itself. The data plane stays, unless it is a new one that the start did not get beyond: then nothing
// is left of the attempt.
func (d *daemon) release() error {
	var errs []error
	r := d.seat.now.Swap(nil)
	if r != nil {
		errs = append(errs, r.jobs.Close())
	}
	switch {
	case d.plane == nil:
	case r == nil && d.server == nil && !d.plane.Adopted():
		errs = append(errs, d.plane.Close())
	default:
		errs = append(errs, d.plane.Release())
	}
	return errors.Join(errs...)
}

// start makes the parts. The data plane comes first, for packets are waiting for it; then what is told of it.
func (d *daemon) start(ctx context.Context, begun time.Time) error {
	c := d.config
	takeover := xdp.KeepOut
	if c.Aggregator.Upgrade || d.options.Upgrade {
		takeover = xdp.TakeOver
	}
	var err error
	if d.plane, err = xdp.Open(c.Aggregator.Pin, planeConfig(c), takeover); err != nil {
		return explain(err)
	}
	d.log.Info("the data plane is there", "adopted", d.plane.Adopted(), "program", d.plane.Tag(), "pin", c.Aggregator.Pin)
	d.interfaces = newInterfaces(c.Interfaces, d.plane, d.events, d.warnings, d.log)
	if err := d.interfaces.attach(ctx, d.notify.say); err != nil {
		return explain(err)
	}
	if err := d.interfaces.withdraw(); err != nil {
		return explain(err)
	}
	d.observe(begun)
	if c.Cluster != nil {
		err = d.joinCluster()
	} else {
		err = d.startAlone()
	}
	if err != nil {
		return err
	}
	return d.startServers()
}

// startAlone brings back the jobs of an appliance that stands alone.
func (d *daemon) startAlone() error {
	c := d.config
	mtu, err := leastMTU(d.interfaces.list())
	if err != nil {
		return err
	}
	storage, err := store.Open(c.State)
	if err != nil {
		return err
	}
	node := jobs.Node{Name: c.NodeName(), Aggregator: jobs.Local(d.plane), Paths: &paths{d.interfaces}, Slots: c.Aggregator.Slots.XDP(), MTU: mtu}
	r, err := d.newReign(storage, []jobs.Node{node}, true, 0, d.plane)
	if err != nil {
		return err
	}
	d.seat.now.Store(r)
	return nil
}

// observe makes the observer of this appliance alone.
func (d *daemon) observe(begun time.Time) {
	d.observing = observe.Config{
		Name: d.config.NodeName(), Version: d.options.Version, Started: begun, Plane: d.plane, Jobs: d.seat, Pin: d.config.Aggregator.Pin,
		Warnings: d.warnings.list, Log: d.log,
	}
	if d.config.Cluster != nil {
		d.observing.Cluster = d.seat.standing
	}
	for _, h := range d.interfaces.list() {
		d.observing.Interfaces = append(d.observing.Interfaces, observe.Interface{Name: h.name, Address: h.address.String()})
	}
	d.local = observe.New(d.observing)
}

// startServers opens the sockets of the API and of the metrics.
func (d *daemon) startServers() (err error) {
	measured := metrics.New(d.seat)
	d.seat.joined = measured.Timed
	of := serverConfig(d.config)
	of.Jobs, of.Node, of.Cluster, of.Events, of.Log = d.seat, view{d.seat}, d.seat, d.events, d.log
	if d.cluster != nil {
		of.Peers, of.Leader = d.peers(), d.seat.leader
	}
	of.Calls = measured.Calls()
	of.Leaving = func() {
		if r := d.seat.now.Load(); r != nil {
			if err := r.jobs.Close(); err != nil {
				d.log.Error("close the jobs", "error", err)
			}
		}
	}
	if d.server, err = server.New(of); err != nil {
		return fmt.Errorf("api: %w", err)
	}
	d.liveness = d.newLiveness()
	if d.config.Metrics.Listen == "" {
		return nil
	}
	d.metrics, err = metrics.Listen(d.config.Metrics.Listen, measured, d.liveness.check, d.log)
	return err
}

// serve runs the parts until the end. The API goes first and the others after it, so that nothing answers for what is gone.
func (d *daemon) serve(ending context.Context, end context.CancelCauseFunc, reload <-chan struct{}, begun time.Time) error {
	running, stop := context.WithCancel(context.WithoutCancel(ending))
	defer stop()
	var parts, api errgroup.Group
	run := func(group *errgroup.Group, ctx context.Context, name string, f func(context.Context) error) {
		group.Go(func() error {
			err := f(ctx)
			if err == nil && ctx.Err() == nil {
				err = errors.New("ended by itself")
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
				end(err)
			}
			return err
		})
	}
	if d.cluster != nil {
		run(&parts, ending, "cluster", d.cluster.Run) // at once, so that another takes over while calls end here
	} else {
		run(&parts, running, "jobs", d.seat.now.Load().run)
	}
	run(&parts, running, "interfaces", d.interfaces.watch)
	run(&parts, ending, "status", d.followStatus)
	if d.metrics != nil {
		run(&parts, running, "metrics", d.metrics.Serve)
	}
	run(&api, ending, "api", d.server.Serve)

	d.log.Info("ready", "name", d.config.NodeName(), "version", d.options.Version, "socket", d.config.API.Socket, "listen", d.server.Addr(), "took", time.Since(begun).Round(time.Millisecond))
	how := "with a new data plane"
	if d.plane.Adopted() {
		how = "and took over the data plane"
	}
	d.events.Add(v1.EventLevel_EVENT_LEVEL_INFO, "daemon-started", "", nil, "spillwayd %s started %s", d.options.Version, how)
	d.notify.say("%s", d.status())
	d.notify.ready()
	run(&parts, ending, "watchdog", func(ctx context.Context) error { return watchdog(ctx, d.liveness, d.notify, d.log) })
	run(&parts, ending, "reload", func(ctx context.Context) error { return d.followReloads(ctx, reload) })

	<-ending.Done()
	d.notify.stopping()
	err := api.Wait()
	stop()
	return errors.Join(err, parts.Wait())
}
