package rack

import (
	"net/netip"
)

// managementInterface is a link of its own between the ToR's processor and the aggregator's host, as switches have one: P4Runtime does
// not cross the ports that the pipeline serves.
const managementInterface = "mgmt0"

// Addresses of the management link.
var (
	torManagement  = netip.AddrFrom4([4]byte{10, 78, 0, 253})
	homeManagement = netip.AddrFrom4([4]byte{10, 78, 0, 254})
)

// torListen is where the ToR serves P4Runtime.
const torListen = "10.78.0.253:9559"

// torDevice is the id of the ToR's one device.
const torDevice = 1

// addManagement joins the ToR and the aggregator's host.
func (r *Rack) addManagement() error {
	link, err := connect(r.home, managementInterface, nil, r.tor.namespace, managementInterface, nil, standardMTU)
	if err != nil {
		return err
	}
	if err := address(link.near, homeManagement); err != nil {
		return err
	}
	return address(link.far, torManagement)
}
