package main

import (
	"fmt"
	"io"
	"time"

	"spillway/loadtest/train"
)

const epochHeading = "  epoch    loss    train     test   in all-reduce   gradients a worker"

// epochLine sums up what the ranks report of one epoch. Each saw its shard of the training rows; all tested the same network.
func epochLine(ranks []train.Epoch) string {
	var rows, correct int
	var loss float64
	var reducing time.Duration
	for _, e := range ranks {
		rows, correct, loss = rows+e.Rows, correct+e.Correct, loss+e.Loss
		reducing += e.Reducing / time.Duration(len(ranks))
	}
	first := ranks[0]
	megabytes := float64(first.ReducedBytes) / 1e6
	return fmt.Sprintf("  %5d %7.4f %7.2f%% %7.2f%% %12.0f ms   %.1f MB at %.0f Mbit/s", first.Epoch, loss/float64(rows), percent(correct, rows),
		percent(first.TestCorrect, first.TestRows), reducing.Seconds()*1e3, megabytes, 8*megabytes/reducing.Seconds())
}

// print says what the network did in the act.
func (r *demoResult) print(out io.Writer) {
	var sent, received, sentBytes, receivedBytes, resends, probes uint64
	for _, s := range r.stats {
		sent, received = sent+s.PacketsSent, received+s.PacketsReceived
		sentBytes, receivedBytes = sentBytes+s.BytesSent, receivedBytes+s.BytesReceived
		resends, probes = resends+s.Retransmissions, probes+s.Probes
	}
	fmt.Fprintf(out, "  the workers sent %d packets (%.1f MB) and received %d (%.1f MB) in %.1f s; %d retransmissions, %d probes\n",
		sent, float64(sentBytes)/1e6, received, float64(receivedBytes)/1e6, r.took.Seconds(), resends, probes)
	l := r.levels
	chunks := l.TorCompleted + l.HomePublished
	fmt.Fprintf(out, "  the ToR, with memory for %d of %d chunks in flight, completed %d chunks (%.1f%%); the aggregator (XDP, %s mode) the %d that spilled (%.1f%%)\n",
		demoSlots, demoJob.Window, l.TorCompleted, percent(int(l.TorCompleted), int(chunks)), r.mode, l.HomePublished, percent(int(l.HomePublished), int(chunks)))
	fmt.Fprintf(out, "  the ToR's counters: %s\n  the aggregator's: %s\n", counted(l.Tor), counted(l.Home))
	if n := r.faults.Uplink.Dropped + r.faults.Downlink.Dropped; n > 0 {
		fmt.Fprintf(out, "  lost on purpose: %d of %d packets to the aggregator, %d of %d to the workers\n",
			r.faults.Uplink.Dropped, r.faults.Uplink.Packets, r.faults.Downlink.Dropped, r.faults.Downlink.Packets)
	}
}
