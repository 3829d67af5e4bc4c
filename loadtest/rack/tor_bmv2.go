package rack

import (
	"errors"
	"fmt"
)

// bmv2Offloads make packets at BMv2's ports what they are on a wire: it reads frames from a packet socket, where a super-packet would
// be one frame, and a checksum that is still to be filled in a wrong one.
var (
	bmv2Cable = with(ring, settings{"tx-generic-segmentation": false, "tx-udp-segmentation": false, "tx-checksum-ip-generic": false})
	bmv2Port  = settings{"rx-gro": false}
)

// launchBMv2 starts BMv2 without a program; that comes over P4Runtime.
func (t *tor) launchBMv2(ports []torPort) (*Process, error) {
	path, lack := findBMv2()
	if lack != nil {
		return nil, errors.New(lack.String())
	}
	args := []string{"--no-p4", "--device-id", fmt.Sprint(torDevice)}
	for _, port := range ports {
		args = append(args, "-i", fmt.Sprintf("%d@%s", port.Number, port.Interface))
	}
	args = append(args, "--", "--grpc-server-addr", torListen)
	return startProcess(t.namespace, Command{Path: path, Args: args, Stderr: t.config.Command.Stderr, Foreign: true})
}
