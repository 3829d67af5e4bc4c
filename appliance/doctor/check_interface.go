package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	v1 "spillway/appliance/api/spillway/v1"
)

func (d *diagnosis) interfaces() {
	for _, i := range d.Node.GetInterfaces() {
		link, looked := d.link(i.Name)
		if !looked {
			continue // Failures say why
		}
		if d.reachable(i, link) {
			d.program(i, link)
			d.steering(i, link)
		}
	}
}

func (d *diagnosis) link(name string) (Link, bool) {
	for _, link := range d.Host.Links {
		if link.Name == name {
			return link, true
		}
	}
	return Link{}, false
}

// reachable says whether packets can come and go at all.
func (d *diagnosis) reachable(i *v1.Interface, link Link) bool {
	const check = "interface"
	address, _ := netip.ParseAddr(i.Address)
	switch {
	case link.Index == 0:
		d.fail(check, "", fmt.Sprintf("there is no interface %s any more", i.Name),
			"bring it back ('ip link' shows what there is), or take it out of the configuration; then 'systemctl restart spillwayd'")
		return false
	case !link.Up:
		d.fail(check, "", fmt.Sprintf("interface %s is down: no packet reaches the aggregator", i.Name),
			fmt.Sprintf("'ip link set %s up', and see who set it down", i.Name))
		return false
	case !link.Carrier:
		d.fail(check, "", fmt.Sprintf("interface %s has no carrier: no packet reaches the aggregator", i.Name),
			"look at the cable, and at the switch's port: it is down, or set to another speed")
		return false
	case address.IsValid() && !slices.Contains(link.Addresses, address):
		d.fail(check, "", fmt.Sprintf("interface %s does not have the home's address %s any more: workers' packets find nobody", i.Name, i.Address),
			fmt.Sprintf("give it back ('ip address add %s/PREFIX dev %s'), and see who took it", i.Address, i.Name))
		return false
	}
	d.fine(check, "", "%s is up and has %s", i.Name, i.Address)
	return true
}

// program says whether the aggregator sits on the interface, and how.
func (d *diagnosis) program(i *v1.Interface, link Link) {
	const check = "xdp"
	switch {
	case link.Mode == "":
		d.fail(check, "", fmt.Sprintf("no XDP program is on %s: somebody took the aggregator off, and DATA are not summed", i.Name),
			"'systemctl restart spillwayd' puts it on again, and the workers go on; find out who detaches programs ('bpftool link', other XDP "+
				"tools on this host)")
		return
	case link.Tag != "" && d.Node.ProgramTag != "" && link.Tag != d.Node.ProgramTag:
		d.fail(check, "", fmt.Sprintf("the XDP program on %s is not the aggregator but another, with id %d and tag %s", i.Name, link.Program, link.Tag),
			fmt.Sprintf("take it off ('bpftool prog show id %d' says whose it is), then 'systemctl restart spillwayd'", link.Program))
		return
	}
	d.fine(check, "", "the aggregator is on %s", i.Name)
	if link.Mode != "native" {
		d.warn("xdp-mode", "", fmt.Sprintf("the aggregator sits on %s in %s mode, after the kernel has made a socket buffer: it works, several "+
			"times slower", i.Name, link.Mode),
			"use a NIC whose driver has native XDP; where the driver has it, an MTU above what it takes with XDP, or LRO, keeps it off ('dmesg' "+
				"says so): lower the MTU, or 'ethtool -K "+i.Name+" lro off'")
		return
	}
	d.fine("xdp-mode", "", "%s is in native mode", i.Name)
}

func (d *diagnosis) steering(i *v1.Interface, link Link) {
	switch {
	case i.SteeringRules > 0:
		d.fine("steering", "", "%s has %d rules that keep a home port on one queue", i.Name, i.SteeringRules)
	case link.Queues > 1:
		d.fine("steering", "", "%s has %d receive queues and no rules that keep a home port on one: chunks may wait for each other's locks", i.Name,
			link.Queues)
	default:
		d.fine("steering", "", "%s needs no rules", i.Name)
	}
}

// overhead is what a chunk's packet has beside its elements: IP, UDP and Spillway's headers.
const overhead = 20 + 8 + 28

// mtu says whether a job's packets fit the interfaces that they come and go by.
func (d *diagnosis) mtu(job *v1.Job) {
	const check = "mtu"
	elements := int(job.Spec.GetElements())
	if elements == 0 {
		return
	}
	length := overhead + 4*elements
	for _, i := range d.Node.GetInterfaces() {
		mtu := int(i.Mtu)
		if link, ok := d.link(i.Name); ok && link.Index != 0 {
			mtu = link.MTU
		}
		if mtu == 0 || length <= mtu {
			continue
		}
		remedy := fmt.Sprintf("'ip link set %s mtu %d', and the same at the workers and on the way", i.Name, length)
		if fit := (mtu - overhead) / 4 / 32 * 32; fit >= 32 {
			remedy += fmt.Sprintf("; or delete the job and create it with --elements %d", fit)
		}
		d.fail(check, job.Spec.GetName(), fmt.Sprintf("a chunk of E = %d elements takes %d bytes, and the MTU of %s is %d: its packets are dropped",
			elements, length, i.Name, mtu), remedy)
		return
	}
	d.fine(check, job.Spec.GetName(), "a chunk of E = %d elements takes %d bytes, which fit", elements, length)
}
