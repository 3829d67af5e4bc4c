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

/* Never attached: Go runs it to read the clock that slots and members are stamped with. */
SEC("xdp")
int clock(struct xdp_md *ctx)
{
	__u64 *now = (void *)(long)ctx->data;

	if ((void *)(now + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	*now = bpf_jiffies64();
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
