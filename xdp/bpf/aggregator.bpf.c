// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The aggregator: an XDP program that is home to the chunks of its jobs, and
 * the tc program that replicates for jobs without a multicast group. */
#include "aggregate.h"
#include "replicate.h"

SEC("xdp")
int aggregator(struct xdp_md *ctx)
{
	return aggregate(ctx);
}

SEC("tc")
int replicator(struct __sk_buff *skb)
{
	return replicate(skb);
}

char _license[] SEC("license") = "Dual MIT/GPL";
