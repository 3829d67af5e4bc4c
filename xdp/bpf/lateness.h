/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* How late each worker's contributions are: the time from the claim of a chunk's slot, by the first contribution, to
 * the worker's own, in jiffies. What comes within the jiffy of the claim is counted with the member's activity, per CPU
 * (counters.h); the rest is rare enough for atomics on memory that all CPUs share. */
#pragma once

#include "maps.h"

/* Bucket 0 is the jiffy of the claim, bucket i > 0 has [2^(i-1), 2^i) jiffies, the last one all that is more. */
#define LATENESS_BUCKETS 16

struct rank_lateness {
	__u64 without; /* chunks released without this rank */
	__u64 jiffies; /* sum of all times */
	__u64 count[LATENESS_BUCKETS];
};

struct job_lateness {
	struct rank_lateness rank[64];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* resized at load to max_jobs */
	__type(key, __u32);
	__type(value, struct job_lateness);
} lateness SEC(".maps");

static __always_inline void add_late(struct rank_lateness *l, __u64 jiffies)
{
	__u64 rest = jiffies;
	__u32 bucket = 0;

	for (; bucket < LATENESS_BUCKETS - 1 && rest; bucket++)
		rest >>= 1;
	__sync_fetch_and_add(&l->count[bucket & (LATENESS_BUCKETS - 1)], 1);
	if (jiffies)
		__sync_fetch_and_add(&l->jiffies, jiffies);
}

/* A contribution of a rank came so long after the claim. */
__attribute__((noinline)) int note_late(__u32 id, __u32 rank, __u64 jiffies)
{
	struct job_lateness *l = bpf_map_lookup_elem(&lateness, &id);

	if (l)
		add_late(&l->rank[rank & 63], jiffies);
	return 0;
}

/* The same of a ToR's partial sum, which tells of several. */
__attribute__((noinline)) int note_late_sum(__u32 id, __u64 ranks, __u64 jiffies)
{
	struct job_lateness *l = bpf_map_lookup_elem(&lateness, &id);

	if (!l)
		return 0;
	for (__u32 rank = 0; rank < 64; rank++) {
		if (ranks >> rank & 1)
			add_late(&l->rank[rank], jiffies);
	}
	return 0;
}

/* A chunk was released without these ranks. */
__attribute__((noinline)) int note_without(__u32 id, __u64 ranks)
{
	struct job_lateness *l = bpf_map_lookup_elem(&lateness, &id);

	if (!l)
		return 0;
	for (__u32 rank = 0; rank < 64; rank++) {
		if (ranks >> rank & 1)
			__sync_fetch_and_add(&l->rank[rank].without, 1);
	}
	return 0;
}
