package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "spillway/appliance/api/spillway/v1"
)

// drop is what it means that packets are dropped for a reason, and what to do about it.
type drop struct {
	means, remedy string
	// Some of them belong to every network that delays, loses or duplicates.
	ordinary bool
}

const versions = "run the same version of Spillway at the workers, the aggregator and the ToR"

const findSender = "find it by its address ('xdpdump -i INTERFACE' of xdp-tools; tcpdump does not see what XDP drops) and end it"

// dropReasons are those of both levels: docs/protocol.md, sections 3 and 6.
var dropReasons = map[string]drop{
	"bad_length": {"packets whose lengths do not agree, or that came in fragments",
		"see whether the MTU on the way is smaller than at the workers, so that routers fragment; or something else sends to the home's ports", false},
	"bad_version": {"packets of another version of the protocol", versions, false},
	"bad_type":    {"packets of a type that no home takes", versions, false},
	"bad_flags":   {"packets with flags that are not known", versions, false},
	"bad_op":      {"packets with an operation that is not known", versions, false},
	"bad_elems": {"packets with more elements than the job's chunks have",
		"let that worker leave and join again: it has the parameters of another job or generation", false},
	"bad_header": {"packets that are not Spillway's, or of another version, came to its ports at the ToR",
		versions + "; or something else uses UDP ports 9696 to 9727", false},
	"unknown_job": {"packets of a job that is not there, or not at the address and port they came to",
		"a worker goes on after its job was deleted, or is of another appliance, or somebody tries to get around the ToR: " + findSender, false},
	"bad_generation": {"packets of another generation of the job",
		"a process of an earlier run still sends: end it; workers of this run need a new join when all have left", false},
	"bad_cookie": {"packets with a cookie that is not the job's",
		"a process that was not given this generation's parameters sends in the job's name: an old one, one of another appliance, or an intruder. " +
			findSender, false},
	"not_member": {"packets from addresses that are no member's",
		"a worker sends from another address than it joined with (several interfaces, NAT): let it name the address when it joins " +
			"(worker.WithAddress), or fix its route to the home. If no worker does, somebody sends who is none: " + findSender, false},
	"bad_bitmap": {"packets that claim a rank which their address does not own",
		"two processes have one address, or a worker runs with another's rank: start each with its own", false},
	"bad_direction": {"packets that one in the sender's role does not send",
		"compare switch.hosts of the configuration with what is plugged into which port of the ToR", false},
	"bad_slot": {"contributions that name a slot outside of the job's region",
		"let the workers leave and join again: they have the parameters of another generation", false},
	"mismatch": {"contributions that disagree with the chunk's length or operation",
		"the ranks do not make the same collectives in the same order: compare their logs", false},
	"internal": {"packets that the aggregator could not handle: a driver's limit, or a bug",
		"look for the driver in 'dmesg'; use generic mode, and report it", false},
	"contended": {"contributions to a chunk that another CPU was busy with for too long",
		"packets of one chunk arrive on several of the NIC's queues: let the appliance steer them (aggregator.steer), or have the hypervisor give the host's CPUs their time", false},
	"stale": {"packets that came after all had their chunk's result",
		"the network delays or duplicates packets for longer than a window takes: look for a congested or flapping link. If nothing moves meanwhile, " +
			"a worker has run ahead of all others: 'spillctl slots JOB' shows the rank that is alone in them; end it", true},
	"overlap": {"partial sums that contain what the slot has already",
		"the network loses many packets on the way from the ToR: look for a congested link", true},
	"duplicate":        {"contributions that the ToR has already", "the network duplicates packets, or loses many results: look for a congested link", true},
	"duplicate_result": {"results that the home has already", "the network loses many packets: look for a congested link", true},
	"unsolicited":      {"results that nobody asked for", "a worker answers for chunks that are long gone: look for a delayed link", true},
	"needless":         {"questions of a parent to which there is nothing to say", "workers of another rack wait: look for its stragglers and lost packets", true},
}

// torReasons are those that mean something else in the ToR than at the aggregator.
var torReasons = map[string]drop{
	"stale": {dropReasons["bad_generation"].means, dropReasons["bad_generation"].remedy, false},
	"not_member": {"packets from addresses that are no member's, or not at the port by which they came",
		"compare switch.hosts of the configuration with what is plugged into which port of the ToR. If they agree, somebody sends in a " +
			"member's name: the ports' own counters show behind which; end it", false},
}

// meaning is what it means that packets are dropped for a reason at a level.
func meaning(level, reason string) drop {
	if what, special := torReasons[reason]; special && level == "tor" {
		return what
	}
	if what, known := dropReasons[reason]; known {
		return what
	}
	return drop{means: "packets", remedy: "docs/protocol.md says what the reason means"}
}

// ordinaryShare is up to which part of the contributions ordinary drops are no news.
const ordinaryShare = 0.1

// drops says what was dropped lately, of a job or, for an empty name, of no job.
func (d *diagnosis) drops(job string) {
	const check = "drops"
	var reasons []*v1.Counter
	read := false
	for _, c := range d.Counters {
		read = read || c.Job == job
		if c.Drop && c.Job == job && c.Value > 0 {
			reasons = append(reasons, c)
		}
	}
	slices.SortFunc(reasons, func(a, b *v1.Counter) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Name, b.Name))
	})
	worst := len(d.findings)
	var long []string
	for _, c := range reasons {
		grown := d.grown(c.Level, c.Job, c.Name)
		what := meaning(c.Level, c.Name)
		share := float64(grown) / float64(max(1, d.grown("aggregator", job, "data")))
		if grown == 0 || what.ordinary && (share < ordinaryShare || grown < fewData) {
			long = append(long, fmt.Sprintf("%s %d", c.Name, c.Value))
			continue
		}
		text := fmt.Sprintf("the %s drops %s (%s): %d%s, %d in all", levelName(c.Level), what.means, c.Name, grown, d.lately(), c.Value)
		if what.ordinary {
			d.warn(check, job, text, what.remedy)
		} else {
			d.fail(check, job, text, what.remedy)
		}
	}
	switch {
	case len(d.findings) > worst, !read: // counters of packets of no job are not read for a diagnosis of one job
	case len(long) > 0:
		d.fine(check, job, "nothing to speak of is dropped now; before: %s", strings.Join(long, ", "))
	default:
		d.fine(check, job, "nothing was dropped")
	}
}

func (d *diagnosis) lately() string {
	if d.before == nil {
		return ""
	}
	return " in " + span(d.Between)
}

func levelName(level string) string {
	if level == "tor" {
		return "ToR"
	}
	return level
}
