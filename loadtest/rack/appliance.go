package rack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"spillway/xdp"
)

// MaxAppliances is the most aggregators of a rack.
const MaxAppliances = 8

// An appliance is an aggregator's host: its namespace, its link to the switch, and the daemon in it.
type appliance struct {
	index int
	host  *namespace
	link  attachment
	// management is an end of its management link, at the ToR or the management switch; a bridge without several appliances has none.
	management end
	receiver   *receiver // at the switch's port
	daemon     *daemon
}

// ApplianceAddr is the address of an appliance; the first is the home of a rack with one.
func ApplianceAddr(index int) netip.Addr {
	if index == 0 {
		return netip.AddrFrom4([4]byte{10, 77, 0, 254})
	}
	return netip.AddrFrom4([4]byte{10, 77, 0, byte(200 + index)})
}

// HomeAddr is the first appliance's address.
func HomeAddr() netip.Addr { return ApplianceAddr(0) }

// ApplianceName is what an appliance is called in the cluster.
func ApplianceName(index int) string {
	if index == 0 {
		return "rack"
	}
	return fmt.Sprintf("rack-%d", index)
}

// torAppliancePort is the ToR's port of an appliance, as P4 numbers them: after the workers'.
func torAppliancePort(index int) uint16 {
	if index == 0 {
		return torHomePort
	}
	return maxWorkerPort + uint16(index)
}

// Appliances is how many aggregators the rack has.
func (r *Rack) Appliances() int { return len(r.appliances) }

// home is the first appliance.
func (r *Rack) home() *appliance { return r.appliances[0] }

// addAppliance makes an aggregator's namespace and its link.
func (r *Rack) addAppliance(index int) (err error) {
	name, port := "the aggregator", "home"
	if index > 0 {
		name, port = fmt.Sprintf("aggregator %d", index), fmt.Sprintf("home%d", index)
	}
	a := &appliance{index: index}
	if a.host, err = newNamespace(name); err != nil {
		return err
	}
	r.appliances = append(r.appliances, a)
	cable := r.tor != nil && (r.config.HomeRate != 0 || r.config.Tor.Kind == TorBMv2)
	settings := homeOffloads
	if r.config.singly() || r.config.Rings || r.tor != nil {
		settings.port = homePortSingly
	}
	if a.link, err = r.attach(a.host, port, ApplianceAddr(index), cable, settings); err != nil {
		return err
	}
	if at := a.link.port(); at.in == r.sw { // at a port of the ToR the ToR's own program does
		err = r.sw.do(func() (err error) {
			a.receiver, err = newReceiver(at.index)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, other := range r.appliances[:index] {
		if err := introduce(a.host, ApplianceAddr(index), other.host, ApplianceAddr(other.index)); err != nil {
			return err
		}
	}
	// The copies of a job without multicast leave through it; what XDP answers does not.
	if err := enqueue(a.link.host()); err != nil {
		return err
	}
	if r.tor != nil && !cable {
		return nil
	}
	return shape(a.link.port(), r.config.HomeRate)
}

// startDaemons starts the daemons, which put the XDP program on their interfaces and tell the ToR all it should know. All are
// started before any is waited for: several elect a leader first.
func (r *Rack) startDaemons(ctx context.Context) error {
	for _, a := range r.appliances {
		if err := r.newDaemon(a); err != nil {
			return err
		}
	}
	for _, a := range r.appliances {
		if err := a.daemon.run(); err != nil {
			return fmt.Errorf("start the daemon: %w", err)
		}
	}
	for _, a := range r.appliances {
		if err := a.daemon.ready(ctx, r.tor != nil); err != nil {
			return fmt.Errorf("start the daemon: %w", err)
		}
		if mode := a.daemon.Mode(); mode != xdp.Native {
			r.config.Log.Warn("the aggregator runs in generic mode, which is slow: figures say little", "mode", mode)
		}
	}
	return nil
}

// Mode is how the aggregators' programs sit on their interfaces.
func (r *Rack) Mode() xdp.Mode {
	if r.forest != nil {
		return r.forest.mode
	}
	return r.home().daemon.Mode()
}

// close ends the daemon and drops the namespace.
func (a *appliance) close() error {
	return errors.Join(a.daemon.close(), a.receiver.close(), a.host.close())
}
