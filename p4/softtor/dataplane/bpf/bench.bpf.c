// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The ToR's own code under a harness that lets one test run repeat a packet:
 * each run moves on to the next slot, prepares it, and afterwards puts back what the
 * packet's headers were, so that every run is the same case. The harness's cost is
 * part of what is measured, in the bare loop too. All elements are 0, so that sums
 * stay what they are. */
#include "pipeline.h"

/* The packet of the bench, for restore. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8[FRAME_SIZE]);
} bench_frame SEC(".maps");

/* A power of two of slots, all of them the job's, whose key is 0. */
volatile const __u32 bench_slots = 1;

/* The job's children; the packet is of the first. */
#define BENCH_FULL 0xf
#define BENCH_OTHERS 0xe

/* What a run finds in its slot. */
enum found {
	FOUND_NOTHING,
	FOUND_OWN,      /* the same chunk, with these bits */
	FOUND_STRONGER, /* another job's */
	FOUND_WEAKER,
};

/* Moves the packet to the next slot and prepares that. */
static __always_inline bool prepare(struct xdp_md *ctx, enum found found, __u64 bitmap)
{
	void *data = (void *)(long)ctx->data;
	struct frame *f = data;

	if (data + FRAME_SIZE > (void *)(long)ctx->data_end)
		return false;

	__u32 index = (bpf_ntohl(wire_of(f)->seq) + 1) & (bench_slots - 1);
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);

	if (!slot)
		return false;
	wire_of(f)->seq = bpf_htonl(index);
	wire_of(f)->slot = bpf_htons(index);
	slot->urgency = found == FOUND_NOTHING ? 0 : (found == FOUND_STRONGER ? 127 : 1) << PRIORITY_SHIFT;
	slot->id = found == FOUND_OWN ? index : ~index;
	slot->tag = tag_of(wire_of(f)) ^ (found == FOUND_OWN ? 0 : 1 << 16);
	slot->bitmap = bitmap;
	slot->elems = bpf_ntohs(wire_of(f)->elems);
	slot->flags = 0;
	return true;
}

static __always_inline int restore(struct xdp_md *ctx, struct decision d)
{
	void *data = (void *)(long)ctx->data;
	struct frame *f = data;
	__u32 zero = 0;
	const void *fresh = bpf_map_lookup_elem(&bench_frame, &zero);

	if (!fresh || data + FRAME_SIZE > (void *)(long)ctx->data_end)
		return -1;

	__be32 seq = wire_of(f)->seq;
	__be16 slot = wire_of(f)->slot;

	/* A content that left has the seq that its id gives. */
	if (bpf_ntohl(seq) >= bench_slots)
		seq = ~seq;
	__builtin_memcpy(f, fresh, FRAME_SIZE);
	wire_of(f)->seq = seq;
	wire_of(f)->slot = slot;
	return d.kind;
}

#define BENCH(name, found, bitmap)                              \
	SEC("xdp")                                              \
	int bench_##name(struct xdp_md *ctx)                    \
	{                                                       \
		if (!prepare(ctx, found, bitmap))               \
			return -1;                              \
		return restore(ctx, pipeline(ctx, 1));          \
	}

BENCH(claim, FOUND_NOTHING, 0)
BENCH(merge, FOUND_OWN, 2)
BENCH(complete, FOUND_OWN, BENCH_OTHERS)
BENCH(preempt, FOUND_WEAKER, 2)
BENCH(spill, FOUND_STRONGER, 2)

/* With the flag RESEND in the packet. */
BENCH(resend, FOUND_OWN, 2)

/* Nothing but the loop that adding has at its core: one element after the other. */
SEC("xdp")
int bench_bare(struct xdp_md *ctx)
{
	if (!prepare(ctx, FOUND_NOTHING, 0))
		return -1;

	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct frame *f = data;

	if (data + FRAME_SIZE > data_end)
		return -1;

	__u32 index = bpf_ntohs(wire_of(f)->slot);
	__u32 blocks = bpf_ntohs(wire_of(f)->elems) / BLOCK;
	void *payload = bpf_map_lookup_elem(&payloads, &index);

	if (!payload)
		return -1;
	for (__u32 block = 0; block < slot_elements / BLOCK; block++) {
		barrier_var(block);
		if (block >= blocks)
			break;

		__be32 *p = data + FRAME_SIZE + block * BLOCK * 4;
		__u32 *s = payload + block * BLOCK * 4;

		if ((void *)(p + BLOCK) > data_end)
			break;
#pragma clang loop unroll(full)
		for (int i = 0; i < BLOCK; i++)
			s[i] += bpf_ntohl(p[i]);
	}
	return restore(ctx, decide(KIND_DROP, 0));
}

char _license[] SEC("license") = "Dual MIT/GPL";
