/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The loop that aggregators are compared with: it swaps and adds, and nothing else. */
#pragma once

#include "elements.h"

/* One element after the other is swapped and added. */
static __always_inline void bare_loop(const struct elements *e)
{
	void *packet = elements_packet(e);
	__u32 blocks = elements_count(e) / BLOCK;

	for (__u32 block = 0; block < MAX_BLOCKS; block++) {
		barrier_var(block);
		if (block >= blocks)
			break;

		__be32 *p = packet + block * BLOCK * 4;
		__u32 *s = e->payload + block * BLOCK * 4;

		if ((void *)(p + BLOCK) > e->data_end)
			break;
#pragma clang loop unroll(full)
		for (int i = 0; i < BLOCK; i++)
			s[i] += bpf_ntohl(p[i]);
	}
}
