package doctor

import (
	"fmt"
	"slices"

	v1 "spillway/appliance/api/spillway/v1"
)

const (
	// fewResent is below which results that were sent again are those of an ordinary loss.
	fewResent = 4
	// mostLost is the part of all results, counted at all workers, from which on no loss of packets explains that they do not arrive; manyLost is a
	// loss to speak of.
	mostLost, manyLost = 0.5, 0.05
)

// multicast says whether there is evidence that results do not reach the workers: the home published them to the group, and was asked for them again,
// one by one.
func (d *diagnosis) multicast(job *v1.Job) {
	const check = "multicast"
	name, group := job.Spec.GetName(), job.Allocation.GetGroup()
	if group == "" {
		return
	}
	published, resent := d.published(name, d.grown)
	when := "lately"
	if published+resent == 0 {
		published, resent = d.published(name, d.value)
		when = "in this generation"
	}
	if published == 0 && resent == 0 {
		d.fine(check, name, "no result was published yet")
		return
	}
	lost := float64(resent) / float64(max(1, published*uint64(job.Spec.GetWorkers())))
	deaf := d.askers(name)
	text := fmt.Sprintf("%s %d were published to %s, and %d sent again to single workers that asked", when, published, group, resent)
	switch {
	case resent < fewResent:
		d.fine(check, name, "results arrive: %s", text)
	case lost >= mostLost && len(deaf) == 0:
		d.fail(check, name, fmt.Sprintf("results do not arrive by multicast: %s", text), letThrough(job))
	case 2*resent >= published && len(deaf) > 0:
		d.fail(check, name, fmt.Sprintf("results do not arrive by multicast at %s, by the number of packets from there: %s", ranks(deaf), text),
			letThrough(job))
	case lost >= manyLost:
		d.warn(check, name, fmt.Sprintf("results get lost on the way: %s", text),
			"look for a congested link, and for drops at the switch's ports and the workers' interfaces ('ethtool -S'); a smaller --window puts "+
				"less on the way at a time")
	default:
		d.fine(check, name, "results arrive: %s", text)
	}
}

// letThrough is what to do where a network swallows multicast.
func letThrough(job *v1.Job) string {
	return fmt.Sprintf("let %s through on the way: a bridge or switch with IGMP snooping needs a querier (or no snooping: 'ip link set BRIDGE type "+
		"bridge mcast_snooping 0'), a firewall a rule for UDP port %d, "+
		"and the workers' hosts an rp_filter that lets the home's address in; or delete the job and create it with --publication unicast",
		job.Allocation.GetGroup(), job.Allocation.GetWorkerPort())
}

// published counts results that went to all workers, by whichever level, and those that went to one again.
func (d *diagnosis) published(job string, count func(level, job, name string) uint64) (published, resent uint64) {
	return count("aggregator", job, "published") + count("tor", job, "completed"), count("aggregator", job, "result_resent")
}

// askers are ranks that sent half as many packets again as those that sent least: who gets no results asks for each. None if all are alike.
func (d *diagnosis) askers(job string) []uint32 {
	workers := d.Workers[job]
	if len(workers) < 2 {
		return nil
	}
	least := slices.MinFunc(workers, func(a, b *v1.Worker) int { return int(int64(a.Packets) - int64(b.Packets)) }).Packets
	var asking []uint32
	for _, w := range workers {
		if w.Packets > least+least/2 {
			asking = append(asking, w.Rank)
		}
	}
	return asking
}
