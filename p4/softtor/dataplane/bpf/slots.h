/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The slots. Metadata lies apart from the elements, whose number is fixed at load. */
#pragma once

#include "frame.h"

/* Elements of a slot: a multiple of 32. Fixed at load. */
volatile const __u32 slot_elements = 32;

struct slot {
	struct bpf_spin_lock lock; /* held over metadata and elements */
	__s32 urgency;             /* 0: free, and the rest means nothing */
	__u32 id;                  /* seq ^ the job's key */
	__u32 tag;                 /* tag_of */
	__u64 bitmap;
	__u16 elems;
	__u8 flags; /* WIRE_ECN, WIRE_SATURATED; above them the op */
	__u8 unused[5];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* resized at load */
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* Two elements are a word as they are in the packet, read as a big-endian number. */
struct payload {
	__u64 words[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* resized at load, and the values to slot_elements * 4 bytes */
	__type(key, __u32);
	__type(value, struct payload);
} payloads SEC(".maps");

/* Urgency: a contest lost, and by how much more urgent a packet must be. */
#define PRIORITY_SHIFT 24
#define AGE (1 << 16)
#define MARGIN (1 << 23)

/* Whose a content is. */
static __always_inline __u32 tag_of(const struct wire_header *h)
{
	return (__u32)bpf_ntohs(h->job) << 16 | (__u32)h->generation << 8;
}

/* A slot keeps the op, for a partial sum that is preempted leaves in a packet that had another. */
#define OP_SHIFT 4

static __always_inline __u8 op_of(__u8 slot_flags)
{
	return slot_flags >> OP_SHIFT;
}
