// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* A slot's memory vanishes, as it may at any moment: for tests that break things on purpose. It is a program, run by hand and never attached, because
 * only a program can hold a slot; who wrote over one that a packet holds would let the next packet in beside it. */
#include "hold.h"

/* The packet's first bytes are the slot's index. XDP_DROP: a packet kept it for too long. */
SEC("xdp")
int forget(struct xdp_md *ctx)
{
	__u32 *at = (void *)(long)ctx->data;

	if ((void *)(at + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;

	__u32 index = *at;
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);

	if (!slot)
		return XDP_ABORTED;
	if (!hold(slot, index))
		return XDP_DROP;
	slot->seq = 0;
	slot->bitmap = 0;
	slot->tenant = 0;
	slot->elems = 0;
	slot->op = 0;
	slot->flags = 0;
	slot->complete = 0;
	slot->wide = 0;
	slot->addends = 0;
	slot->verdict = 0;
	slot->place = 0;
	slot->claimed = 0;
	let_go(slot);
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
