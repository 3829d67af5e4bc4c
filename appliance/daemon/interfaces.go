package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/events"
)

// comeUp is how long the start waits for the interfaces to come up. After that the daemon says so and goes on: whoever looks for the reason needs
// its API, and a cable may come at any time.
const comeUp = 10 * time.Second

// program is what the watch needs of the data plane.
type program interface {
	// Attached reports whether our program is on the interface, as the kernel has it.
	Attached(ifindex int) (bool, error)
	Reattach(ifindex int) error
}

// standing is how an interface was when it was last looked at.
type standing struct {
	there, up, address, program bool
}

// watch follows the interfaces that the aggregator sits on, and puts its program back where somebody took it off.
type watch struct {
	homes   []home
	program program
	events  *events.Log
	log     *slog.Logger
	last    map[int]standing
	// warnings are what is wrong with the interfaces right now, by index.
	warn func(ifindex int, text string)
}

// subscription are the kernel's messages of links and addresses, reduced to the fact that something changed.
type subscription struct {
	changed chan struct{}
	failed  chan error
	done    chan struct{}
	ended   chan struct{}
}

// subscribe listens until close. All messages together are at most one in changed: what there is to know is read afterwards.
func subscribe() (*subscription, error) {
	s := &subscription{changed: make(chan struct{}, 1), failed: make(chan error, 1), done: make(chan struct{}), ended: make(chan struct{})}
	fail := func(err error) {
		select {
		case s.failed <- err:
		default: // one is enough
		}
	}
	links, addresses := make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate)
	if err := netlink.LinkSubscribeWithOptions(links, s.done, netlink.LinkSubscribeOptions{ErrorCallback: fail}); err != nil {
		return nil, fmt.Errorf("listen for changes of links: %w", err)
	}
	if err := netlink.AddrSubscribeWithOptions(addresses, s.done, netlink.AddrSubscribeOptions{ErrorCallback: fail}); err != nil {
		close(s.done)
		for range links {
		}
		return nil, fmt.Errorf("listen for changes of addresses: %w", err)
	}
	go func() {
		defer close(s.ended)
		for links != nil || addresses != nil {
			select {
			case _, ok := <-links:
				if !ok {
					links = nil
				}
			case _, ok := <-addresses:
				if !ok {
					addresses = nil
				}
			}
			select {
			case s.changed <- struct{}{}:
			default:
			}
		}
	}()
	return s, nil
}

func (s *subscription) close() {
	close(s.done)
	<-s.ended
}
