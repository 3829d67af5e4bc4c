package daemon

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// subscription are the kernel's messages about links and addresses, reduced to the fact that something changed.
type subscription struct {
	changed chan struct{}
	failed  chan error
	done    chan struct{}
	ended   chan struct{}
}

// subscribe listens until close. All messages that nobody waited for are one in changed: what there is to know is read afterwards.
func subscribe() (*subscription, error) {
	s := &subscription{changed: make(chan struct{}, 1), failed: make(chan error, 1), done: make(chan struct{}), ended: make(chan struct{})}
	fail := func(err error) {
		select {
		case <-s.done: // its own end
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
		for range links { // until it has ended
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
