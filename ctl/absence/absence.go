// Package absence finds out why an appliance does not answer: what an operator would look at one after the other on its host, with what to do about each.
package absence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/config"
	"spillway/appliance/doctor"
	"spillway/ctl/client"
)

// Appliance is one that did not answer.
type Appliance struct {
	Addr string
	// Path of its configuration, if it is on this host.
	Config string
	// What the network said.
	Err error
}

// Find looks for the reasons. What it finds first is nearest to the symptom.
func Find(ctx context.Context, appliance Appliance) []*v1.Finding {
	network, address, err := client.Endpoint(appliance.Addr)
	if err != nil {
		return []*v1.Finding{fail("address", err.Error(), "give --addr unix:///PATH or HOST:PORT")}
	}
	if network != "unix" {
		// Its host is another one, and cannot be looked at from here.
		return []*v1.Finding{connection(address, appliance.Err)}
	}
	read, configured := configuration(appliance.Config)
	findings := []*v1.Finding{socket(address, appliance.Err, read), service(ctx, unit)}
	findings = append(findings, configured...)
	return append(findings, host(ctx, read)...)
}

// host is what the daemon would find on this host, and what the one before left.
func host(ctx context.Context, read *config.Config) []*v1.Finding {
	pins := "" // not looked at
	if read != nil {
		pins = read.Aggregator.Pin
	}
	looked, err := doctor.LookAtHost(ctx, nil, pins)
	findings := doctor.CheckHost(looked)
	if err != nil {
		findings = append(findings, warn("host", fmt.Sprintf("not everything could be looked at: %v", err), ""))
	}
	if len(looked.Pins.Names) > 0 {
		findings = append(findings, warn("data-plane", fmt.Sprintf("the data plane of the daemon before is still there, %d pins in %s: jobs that "+
			"run go on, and nobody can join or be seen", len(looked.Pins.Names), pins),
			"start the daemon, which takes it over ('systemctl start spillwayd'); or take it off: 'spillwayd detach'"))
	}
	return findings
}

func configuration(path string) (*config.Config, []*v1.Finding) {
	read, err := config.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, []*v1.Finding{warn("config", fmt.Sprintf("there is no configuration %s", path),
			"the package brings one; if the daemon runs with another file, name it with --config")}
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, []*v1.Finding{warn("config", fmt.Sprintf("%s may not read the configuration: %v", whoAmI(), err), "run it with sudo")}
	}
	if err != nil {
		return nil, []*v1.Finding{fail("config", fmt.Sprintf("the daemon cannot start with its configuration: %v", err),
			fmt.Sprintf("correct it; 'spillwayd check %s' says whether it is right (--config names another file)", path))}
	}
	if os.Geteuid() != 0 {
		return read, []*v1.Finding{warn("config", path+" is right in itself; what this host lacks for it only root can see", "run it with sudo")}
	}
	if err := read.CheckHost(); err != nil {
		return read, []*v1.Finding{fail("config", fmt.Sprintf("this host lacks something that the configuration needs: %v", err),
			fmt.Sprintf("bring it, or change %s; 'spillwayd check' says when it is right", path))}
	}
	return read, []*v1.Finding{fine("config", path+" is right, and this host has what it needs")}
}

func fail(check, text, remedy string) *v1.Finding {
	return &v1.Finding{Check: check, Level: v1.FindingLevel_FINDING_LEVEL_ERROR, Text: text, Remedy: remedy}
}

func warn(check, text, remedy string) *v1.Finding {
	return &v1.Finding{Check: check, Level: v1.FindingLevel_FINDING_LEVEL_WARNING, Text: text, Remedy: remedy}
}

func fine(check, text string) *v1.Finding {
	return &v1.Finding{Check: check, Level: v1.FindingLevel_FINDING_LEVEL_OK, Text: text}
}
