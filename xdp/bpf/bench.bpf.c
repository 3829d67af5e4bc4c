// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The aggregator's own code under a harness that lets one test run repeat a
 * packet: each run moves on to the next of the ring's slots, and afterwards puts back
 * what the packet changed, so that every run is the same case. The harness's
 * cost is part of what is measured, in the bare loop too. */
#include "aggregate.h"

/* The packet of the bench job, for bench_publish to restore. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8[FRAME_SIZE]);
} bench_frame SEC(".maps");

/* Moves the packet to the next slot and returns that slot. */
static __always_inline struct slot *next_slot(struct xdp_md *ctx, struct job **job)
{
	void *data = (void *)(long)ctx->data;
	struct frame *f = data;

	if (data + FRAME_SIZE > (void *)(long)ctx->data_end)
		return NULL;

	__u32 id = bpf_ntohs(wire_of(f)->job);

	*job = bpf_map_lookup_elem(&jobs, &id);
	if (!*job)
		return NULL;

	__u32 seq = (bpf_ntohl(wire_of(f)->seq) + 1) & (*job)->ring_mask;
	__u32 index = (*job)->slot_base + seq;

	wire_of(f)->seq = bpf_htonl(seq);
	return bpf_map_lookup_elem(&slots, &index);
}

/* Back to: all children have contributed, but for these. The elements of the bench
 * are the least of the bound, narrow lanes of 0, and the slot's are 0 as well; so
 * however often they are added, the sum is the same and goes out as it came in. */
static __always_inline void reopen(struct slot *slot, const struct job *job, __u64 missing)
{
	slot->bitmap = job->full & ~missing;
	slot->complete = 0;
	slot->addends = 0;
	slot->claimed = bpf_jiffies64(); /* nobody is late */
}

SEC("xdp")
int bench_merge(struct xdp_md *ctx)
{
	struct job *job;
	struct slot *slot = next_slot(ctx, &job);

	if (!slot)
		return XDP_ABORTED;
	reopen(slot, job, 3); /* one more than the packet's, so that the sum does not complete */
	return aggregate(ctx);
}

/* The packet as it came, but for its seq. A function of its own, which the verifier looks at once. */
__attribute__((noinline)) int restore(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct frame *f = data;
	__u32 zero = 0;
	const void *fresh = bpf_map_lookup_elem(&bench_frame, &zero);

	if (!fresh || data + FRAME_SIZE > (void *)(long)ctx->data_end)
		return 1;

	__be32 seq = wire_of(f)->seq;

	__builtin_memcpy(f, fresh, FRAME_SIZE);
	wire_of(f)->seq = seq;
	return 0;
}

SEC("xdp")
int bench_publish(struct xdp_md *ctx)
{
	struct job *job;
	struct slot *slot = next_slot(ctx, &job);

	if (!slot)
		return XDP_ABORTED;
	reopen(slot, job, 1);

	int verdict = aggregate(ctx);

	return restore(ctx) ? XDP_ABORTED : verdict;
}

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

/* Nothing but the loop that an aggregator has at its core. */
SEC("xdp")
int bench_bare(struct xdp_md *ctx)
{
	struct job *job;
	struct slot *slot = next_slot(ctx, &job);
	void *data = (void *)(long)ctx->data;
	struct elements e = { .frame = data, .data_end = (void *)(long)ctx->data_end };

	if (!slot || data + FRAME_SIZE > e.data_end)
		return XDP_ABORTED;
	e.zero = job->zero;
	e.payload = payload_of(job, bpf_ntohl(wire_of(e.frame)->seq) & job->ring_mask, &e.capacity);
	if (!e.payload)
		return XDP_ABORTED;
	bare_loop(&e);
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";
