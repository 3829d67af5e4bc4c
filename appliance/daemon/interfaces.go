package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/config"
	"spillway/appliance/events"
	"spillway/xdp"
)

const (
	// comeUp is how long the start waits for the interfaces to be there and up. Then one that is not there is an error; one that is not up is a warning,
	// for who looks for the reason needs the API, and a cable may come at any time.
	comeUp = 10 * time.Second
	// lookAgain is how often the interfaces are looked at even when the kernel says nothing: it says nothing when a program is taken off.
	lookAgain = 2 * time.Second
)

// home is an interface that the aggregator sits on.
type home struct {
	name    string
	address netip.Addr
	index   int    // as it was last; 0: never there
	program uint32 // the kernel's id of our program there, as it was when it was put on
	up      bool
	owned   bool // it has the address
}

// interfaces are those that the aggregator sits on. They are followed, and the program is put back where somebody took it off.
type interfaces struct {
	plane    *xdp.Aggregator
	events   *events.Log
	warnings *warnings
	log      *slog.Logger

	mu     sync.Mutex // guards what follows; held for no call that blocks
	homes  []home
	moved  chan struct{} // closed when one comes up, goes down, or gets or loses its address
	looked time.Time     // when watch last looked
}

func newInterfaces(list []config.Interface, plane *xdp.Aggregator, log *events.Log, w *warnings, logger *slog.Logger) *interfaces {
	i := &interfaces{plane: plane, events: log, warnings: w, log: logger, moved: make(chan struct{})}
	for _, c := range list {
		i.homes = append(i.homes, home{name: c.Name, address: c.Address})
	}
	return i
}

// list is how the interfaces were when they were last looked at.
func (i *interfaces) list() []home {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]home(nil), i.homes...)
}

func (i *interfaces) set(n int, h home) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if was := i.homes[n]; was.up != h.up || was.owned != h.owned {
		close(i.moved)
		i.moved = make(chan struct{})
	}
	i.homes[n] = h
}

// health says whether workers can reach the aggregator, why not, and when that changes.
func (i *interfaces) health() (healthy bool, reason string, changed <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, h := range i.homes {
		switch {
		case !h.up:
			return false, fmt.Sprintf("its interface %s is down", h.name), i.moved
		case !h.owned:
			return false, fmt.Sprintf("its interface %s does not have the home's address %s", h.name, h.address), i.moved
		}
	}
	return true, "", i.moved
}

func (i *interfaces) mark() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.looked = time.Now()
}

// alive says whether watch goes on looking. Before it begins there is nothing to say.
func (i *interfaces) alive() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if since := time.Since(i.looked); !i.looked.IsZero() && since > 10*lookAgain {
		return fmt.Errorf("it has not looked at them for %v", since.Round(time.Second))
	}
	return nil
}

// attach waits for the interfaces, up to comeUp, and puts the program on them. waiting is told what for.
func (i *interfaces) attach(ctx context.Context, waiting func(format string, args ...any)) error {
	changes, err := subscribe()
	if err != nil {
		return err
	}
	defer changes.close()
	patience := time.NewTimer(comeUp)
	defer patience.Stop()
	for late := false; ; {
		lacks, err := i.start(late)
		if err != nil || lacks == "" {
			return err
		}
		waiting("waiting for %s", lacks)
		select {
		case <-changes.changed:
		case <-time.After(lookAgain):
		case <-patience.C:
			late = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// start attaches what is there and says what is not as it should be; when it is late, what is not there is an error and the rest a warning.
func (i *interfaces) start(late bool) (lacks string, err error) {
	for n, h := range i.list() {
		link, err := netlink.LinkByName(h.name)
		if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing && !late {
			lacks = "interface " + h.name
			continue
		}
		if err != nil {
			return "", fmt.Errorf("interface %s: %w: name one under interfaces that `ip link` shows, or make it before the daemon starts", h.name, err)
		}
		if h.index == 0 {
			if h, err = i.put(h, link); err != nil {
				return "", err
			}
			i.set(n, h)
		}
		if h.up = up(link); !h.up {
			lacks = fmt.Sprintf("interface %s to come up", h.name)
		}
		if h.owned, err = owns(link, h.address); err != nil {
			return "", err
		}
		if !h.owned {
			lacks = fmt.Sprintf("address %s on interface %s", h.address, h.name)
		}
		i.set(n, h)
	}
	if late {
		for _, h := range i.list() {
			i.judge(home{name: h.name, up: true, owned: true}, h)
		}
		return "", nil
	}
	return lacks, nil
}

// withdraw takes the program off interfaces that it was put on by a daemon with another configuration.
func (i *interfaces) withdraw() error {
	wanted := map[int]bool{}
	for _, h := range i.list() {
		wanted[h.index] = true
	}
	for _, at := range i.plane.Attachments() {
		if wanted[at.Ifindex] {
			continue
		}
		if err := i.plane.Withdraw(at.Ifindex); err != nil {
			return fmt.Errorf("interface %s is not among interfaces any more: %w", nameOf(at.Ifindex), err)
		}
		i.log.Info("the aggregator was taken off an interface that is not configured any more", "interface", nameOf(at.Ifindex))
	}
	return nil
}

// put puts the program on a link.
func (i *interfaces) put(h home, link netlink.Link) (home, error) {
	index := link.Attrs().Index
	mode, err := i.plane.Attach(index)
	if err != nil {
		return h, fmt.Errorf("interface %s: %w", h.name, err)
	}
	again, err := netlink.LinkByIndex(index)
	if err != nil {
		return h, fmt.Errorf("interface %s, to which the aggregator was attached just now: %w", h.name, err)
	}
	h.index, h.program = index, programOn(again)
	i.log.Info("the aggregator is on the interface", "interface", h.name, "mode", mode, "address", h.address)
	if mode == xdp.Generic {
		i.warnings.set(h.name+" mode", "the aggregator is on %s in generic mode, which is slow: its driver has no native XDP", h.name)
	} else {
		i.warnings.clear(h.name + " mode")
	}
	return h, nil
}

// watch follows the interfaces until ctx ends.
func (i *interfaces) watch(ctx context.Context) error {
	changes, err := subscribe()
	if err != nil {
		return err
	}
	defer changes.close()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		for n, h := range i.list() {
			now := i.look(h)
			i.judge(h, now)
			i.set(n, now)
		}
		i.mark()
		select {
		case <-changes.changed:
		case <-tick.C:
		case err := <-changes.failed:
			// Too many messages at once, for example. What there is to know is looked at anyway.
			i.log.Debug("messages of the kernel about interfaces were lost", "error", err)
		case <-ctx.Done():
			return nil
		}
	}
}

// look reads how an interface is now, and puts the program back.
func (i *interfaces) look(h home) home {
	link, err := netlink.LinkByName(h.name)
	if err != nil {
		h.up, h.owned = false, false
		return h
	}
	h.up = up(link)
	if h.owned, err = owns(link, h.address); err != nil {
		i.log.Warn("cannot read the addresses of an interface", "interface", h.name, "error", err)
	}
	if h.index == link.Attrs().Index && h.program == programOn(link) {
		return h
	}
	return i.restore(h, link)
}

// restore puts the program back on an interface that somebody took it off, or that was made again.
func (i *interfaces) restore(h home, link netlink.Link) home {
	what := "somebody took the aggregator off interface " + h.name
	if h.index != link.Attrs().Index {
		what = "interface " + h.name + " was made again"
	} else if other := programOn(link); other != 0 {
		what = fmt.Sprintf("program %d is on interface %s in the place of the aggregator", other, h.name)
	}
	// What is left there, or is still recorded of an interface that is gone, is in the way.
	err := errors.Join(i.plane.Withdraw(h.index), i.plane.Withdraw(link.Attrs().Index))
	back := h
	if err == nil {
		back, err = i.put(h, link)
	}
	if err != nil {
		if i.warnings.set(h.name+" program", "%s, and it cannot be put back (%v): no chunk that comes there is summed; see `ip link show %s` and `bpftool net`", what, err, h.name) {
			i.log.Error(what+", and it cannot be put back", "interface", h.name, "error", err)
			i.events.Add(v1.EventLevel_EVENT_LEVEL_ERROR, "interface-lost", "", nil, "%s, and it cannot be put back: %v", what, err)
		}
		return h
	}
	i.warnings.clear(h.name + " program")
	i.log.Warn(what+": it was put back", "interface", h.name)
	i.events.Add(v1.EventLevel_EVENT_LEVEL_WARNING, "interface-restored", "", nil, "%s: it was put back", what)
	return back
}

// judge says what changed.
func (i *interfaces) judge(before, now home) {
	i.turn(now.name+" up", before.up, now.up, now.name, "interface %s is down, or gone: nothing comes through it", "interface %s is up again")
	if !now.up { // nobody misses the address then
		i.warnings.clear(now.name + " address")
		return
	}
	i.turn(now.name+" address", before.owned || !before.up, now.owned, now.name,
		fmt.Sprintf("interface %%s does not have the home's address %s: no worker finds it", now.address), fmt.Sprintf("interface %%s has the home's address %s again", now.address))
}

// turn tells of something that went from good to bad or back.
func (i *interfaces) turn(key string, before, now bool, name, bad, good string) {
	switch {
	case before && !now:
		i.warnings.set(key, bad, name)
		i.log.Warn(fmt.Sprintf(bad, name))
		i.events.Add(v1.EventLevel_EVENT_LEVEL_WARNING, "interface-bad", "", nil, bad, name)
	case !before && now:
		i.warnings.clear(key)
		i.log.Info(fmt.Sprintf(good, name))
		i.events.Add(v1.EventLevel_EVENT_LEVEL_INFO, "interface-good", "", nil, good, name)
	}
}

// up tells whether packets can go over a link: it is up, and so is what it is connected to.
func up(link netlink.Link) bool {
	const both = unix.IFF_UP | unix.IFF_RUNNING
	return link.Attrs().RawFlags&both == both
}

func owns(link netlink.Link, want netip.Addr) (bool, error) {
	list, err := netlink.AddrList(link, unix.AF_INET)
	if err != nil {
		return false, fmt.Errorf("list the addresses of %s: %w", link.Attrs().Name, err)
	}
	for _, a := range list {
		if got, ok := netip.AddrFromSlice(a.IP.To4()); ok && got == want {
			return true, nil
		}
	}
	return false, nil
}

// programOn is the id of the XDP program on a link; 0: there is none.
func programOn(link netlink.Link) uint32 {
	if x := link.Attrs().Xdp; x != nil && x.Attached {
		return x.ProgId
	}
	return 0
}
