package steering

import (
	"errors"
	"fmt"
	"net"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"
)

// ntuple is the NIC's feature that flow rules are under.
const ntuple = "rx-ntuple-filter"

// NIC is an interface of the network namespace of the thread that opened it; later calls may come from any thread. It costs
// two sockets. It is not safe for several goroutines at once.
type NIC struct {
	name     string
	kernel   kernel
	features features
}

// features are the NIC's switches.
type features interface {
	FeaturesWithState(name string) (map[string]ethtool.FeatureState, error)
	Change(name string, config map[string]bool) error
	Close()
}

// Changes are what Steer does to a NIC, and what Restore undoes.
type Changes struct {
	Rules  int  // flow rules of the home's ports
	Ntuple bool // its filters were off, and were switched on
}

// Open gives access to an interface of the thread's network namespace.
func Open(ifindex int) (*NIC, error) {
	link, err := net.InterfaceByIndex(ifindex)
	if err != nil {
		return nil, fmt.Errorf("open interface %d for its filters: %w", ifindex, err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket for the filters of %s: %w", link.Name, err)
	}
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open ethtool: %w", err), unix.Close(fd))
	}
	return &NIC{name: link.Name, kernel: &socket{fd: fd, name: link.Name}, features: tool}, nil
}

// Close closes the sockets; rules stay.
func (n *NIC) Close() error {
	n.features.Close()
	return n.kernel.close()
}

// Steer makes one rule for each of the ports, which go round the queues, and leaves alone a rule for a port that is there already. A NIC
// without flow rules, or with one queue, is left as it is, without an error. Either all rules are there afterwards or none of those that were
// not there before. Before anything is changed, note is told what is about to be, and may refuse.
func (n *NIC) Steer(first, ports uint16, note func(Changes) error) (done Changes, err error) {
	queues, err := rings(n.kernel)
	if unsupported(err) || err == nil && queues < 2 {
		return Changes{}, nil
	}
	if err != nil {
		return Changes{}, err
	}
	present, size, chooses, err := rules(n.kernel)
	if unsupported(err) {
		return Changes{}, nil
	}
	if err != nil {
		return Changes{}, err
	}
	missing := missing(present, first, ports)
	if len(missing) == 0 {
		return Changes{}, nil
	}
	plan := Changes{Rules: len(missing)}
	if plan.Ntuple, err = n.off(); err != nil {
		return Changes{}, err
	}
	places, err := place(present, size, chooses, len(missing))
	if err != nil {
		return Changes{}, err
	}
	if err := note(plan); err != nil {
		return Changes{}, err
	}
	if plan.Ntuple {
		if err := n.features.Change(n.name, map[string]bool{ntuple: true}); err != nil {
			return Changes{}, fmt.Errorf("switch %s of %s on: %w", ntuple, n.name, err)
		}
	}
	var made []uint32
	for i, port := range missing {
		at, err := insert(n.kernel, rule(port, uint64(port-first)%queues, places[i]))
		if err == nil {
			made = append(made, at)
			continue
		}
		for _, at := range made {
			err = errors.Join(err, remove(n.kernel, at))
		}
		if plan.Ntuple {
			err = errors.Join(err, n.features.Change(n.name, map[string]bool{ntuple: false}))
		}
		return Changes{}, err
	}
	return plan, nil
}

// Steered is how many of the ports a rule keeps on one queue, whoever made it. A NIC without flow rules has none.
func (n *NIC) Steered(first, ports uint16) (int, error) {
	present, _, _, err := rules(n.kernel)
	if unsupported(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int(ports) - len(missing(present, first, ports)), nil
}

// Restore removes the rules for the ports, if there were any, and switches the filters off, if they were switched on.
func (n *NIC) Restore(first, ports uint16, changes Changes) error {
	if changes.Rules > 0 {
		present, _, _, err := rules(n.kernel)
		if unsupported(err) {
			return nil // the driver was changed for one without
		}
		if err != nil {
			return err
		}
		var errs []error
		for _, f := range present {
			if port, ok := f.port(); ok && port-first < ports {
				errs = append(errs, remove(n.kernel, f.Location))
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	if changes.Ntuple {
		if err := n.features.Change(n.name, map[string]bool{ntuple: false}); err != nil {
			return fmt.Errorf("switch %s of %s off again: %w", ntuple, n.name, err)
		}
	}
	return nil
}

// off reports whether the NIC's filters are switched off and could be switched on.
func (n *NIC) off() (bool, error) {
	all, err := n.features.FeaturesWithState(n.name)
	if err != nil {
		return false, fmt.Errorf("read the features of %s: %w", n.name, err)
	}
	state := all[ntuple]
	return !state.Active && state.Available && !state.NeverChanged, nil
}

// missing are the ports that no rule steers.
func missing(present []flowSpec, first, ports uint16) []uint16 {
	steered := make(map[uint16]bool)
	for _, f := range present {
		if port, ok := f.port(); ok {
			steered[port] = true
		}
	}
	var all []uint16
	for i := range ports {
		if !steered[first+i] {
			all = append(all, first+i)
		}
	}
	return all
}

// place finds locations for n rules: the driver's choice where it makes one, or free ones from the end of the table, where rules
// have the least precedence and are out of the way of an operator's, as ethtool does it.
func place(present []flowSpec, size uint32, chooses bool, n int) ([]uint32, error) {
	taken := make(map[uint32]bool)
	for _, f := range present {
		taken[f.Location] = true
	}
	var places []uint32
	for at := size; len(places) < n; {
		if chooses {
			places = append(places, anyLocation)
			continue
		}
		if at == 0 {
			return nil, fmt.Errorf("the NIC has room for %d flow rules, and %d are there: no room for %d more, one for each port", size, len(present), n)
		}
		if at--; !taken[at] {
			places = append(places, at)
		}
	}
	return places, nil
}
