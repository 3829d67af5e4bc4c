// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The aggregator's own code under a harness that lets one test run repeat a
 * packet: each run moves on to the next of the ring's slots, and afterwards puts back
 * what the packet changed, so that every run is the same case. The harness's
 * cost is part of what is measured, in the bare loop too. */
#include "aggregate.h"
#include "bare.h"

/* The packet of the bench job, for bench_publish to restore. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8[FRAME_SIZE]);
} bench_frame SEC(".maps");

/* Contributions by rank, headers only, for bench_chunk and bench_bare_chunk to make the packet of. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u8[FRAME_SIZE]);
} bench_contributions SEC(".maps");

/* The contribution that came last, by job: not in the packet, for a run that a signal interrupts begins again with the
 * packet as it was. */
struct contribution {
	__u32 seq;
	__u32 rank;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct contribution);
} bench_last SEC(".maps");

/* The ranks that contribute to a chunk, one after the other. */
volatile const __u32 bench_workers = 4;

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

/* Makes the packet the next contribution to a job: of the next rank to the same chunk, or of rank 0 to the next one.
 * Elements are 0, so that the sum is what came in, and nothing else need be put back. */
static __always_inline struct frame *next_contribution(struct xdp_md *ctx, __u32 job)
{
	void *data = (void *)(long)ctx->data;
	struct frame *f = data;
	struct contribution *last = bpf_map_lookup_elem(&bench_last, &job);

	if (!last || data + FRAME_SIZE > (void *)(long)ctx->data_end)
		return NULL;

	__u32 rank = last->rank + 1;

	if (rank >= bench_workers)
		rank = 0;
	if (!rank)
		last->seq++;
	last->rank = rank;

	const void *fresh = bpf_map_lookup_elem(&bench_contributions, &rank);

	if (!fresh)
		return NULL;
	__builtin_memcpy(f, fresh, FRAME_SIZE);
	wire_of(f)->seq = bpf_htonl(last->seq);
	wire_of(f)->job = bpf_htons(job);
	return f;
}

/* The whole life of chunks: claimed, merged into, published. */
SEC("xdp")
int bench_chunk(struct xdp_md *ctx)
{
	return next_contribution(ctx, 0) ? aggregate(ctx) : XDP_ABORTED;
}

/* Nothing but the loop, over the same packets and slots. */
SEC("xdp")
int bench_bare_chunk(struct xdp_md *ctx)
{
	struct elements e = { .frame = next_contribution(ctx, 1), .data_end = (void *)(long)ctx->data_end };

	if (!e.frame)
		return XDP_ABORTED;

	__u32 id = 1;
	const struct job *job = bpf_map_lookup_elem(&jobs, &id);

	if (!job)
		return XDP_ABORTED;
	e.zero = job->zero;
	e.payload = payload_of(job, bpf_ntohl(wire_of(e.frame)->seq) & job->ring_mask, &e.capacity);
	if (!e.payload)
		return XDP_ABORTED;
	bare_loop(&e);
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";
