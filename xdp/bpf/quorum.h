/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The straggler policy `quorum K after D` (docs/protocol.md, section 7): when a
 * sum may be released without everybody, and when a chunk may take a slot whose
 * RESULT somebody could still need. Jobs that wait for all come here with no
 * more than a test of job.quorum. */
#pragma once

#include "maps.h"
#include "wire.h"

/* A seq that may be unknown: 0, or KNOWN | seq. */
#define KNOWN (1ull << 32)

/* What is known of how far the workers of a quorum job are. A worker that sends
 * seq m has all results up to m - W. Everything here only grows, and an older
 * value is as true as a newer one: so nothing is locked, and a lost update costs a
 * question. Only `absent` goes both ways; whoever is in it wrongly, or not, costs a wait, or a release that is early. */
struct job_progress {
	__u64 floor;    /* every worker has all RESULTs below */
	__u64 fresh;    /* from here on no earlier generation has a RESULT */
	__u64 beyond;   /* who was far enough when a chunk last had to wait for its slot */
	__u64 clock;    /* with simulated_clock: the time, in jiffies */
	__u64 deadline; /* D in nanoseconds, for Go */
	__u32 lag;      /* MaxLag, for Go */
	__u32 resumed;  /* the workers come from an earlier generation */
	__u64 sent[64]; /* by rank: the newest seq seen of it */
	__u64 absent;   /* ranks that a chunk was released without and that are behind ever since: nobody waits for them */
	__u64 left;     /* the newest seq that was released */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* resized at load to max_jobs */
	__type(key, __u32);
	__type(value, struct job_progress);
} progress SEC(".maps");

/* What holds for a packet of a quorum job; nothing of it for those of others. */
#define TERM_RELEASE (1 << 0)    /* its chunk may be released */
#define TERM_HELD_BACK (1 << 1)  /* it may not take a slot that has content */
#define TERM_NOT_EMPTY (1 << 2)  /* nor one that has none */
/* And for those of a node with a parent (tree.h). */
#define TERM_INNER (1 << 3)
#define TERM_ABOVE (1 << 4) /* it comes from there */

static __always_inline void raise(__u64 *known, __u32 seq)
{
	__u64 old = *(volatile __u64 *)known;

	if (!old || (__s32)(seq - (__u32)old) > 0)
		*(volatile __u64 *)known = KNOWN | seq;
}

/* A partial sum of a ToR tells of several workers. Like what follows a function of its
 * own, which the verifier looks at once. */
__attribute__((noinline)) int note_sent(__u32 id, __u64 bitmap, __u32 seq)
{
	struct job_progress *p = bpf_map_lookup_elem(&progress, &id);

	if (!p)
		return 0;
	for (__u32 rank = 0; rank < 64; rank++) {
		if (bitmap >> rank & 1)
			raise(&p->sent[rank], seq);
	}
	return 0;
}

/* Whether everybody is known to have the RESULT of seq - R, which is in the slot
 * that seq wants. Looks at the workers only when what was found out before does not tell. */
__attribute__((noinline)) int may_claim(__u32 id, __u32 seq)
{
	struct job *job = bpf_map_lookup_elem(&jobs, &id);
	struct job_progress *p = bpf_map_lookup_elem(&progress, &id);

	if (!job || !p)
		return 0;

	__u32 old = seq - job->ring_mask - 1;
	__u64 floor = *(volatile __u64 *)&p->floor;

	if (floor && (__s32)((__u32)floor - old) > 0)
		return 1;

	__u32 window = job->window, least = 0;
	__u64 full = job->full, beyond = 0;
	bool all = true;

	for (__u32 rank = 0; rank < 64; rank++) {
		__u64 sent = *(volatile __u64 *)&p->sent[rank];

		if (!(full >> rank & 1))
			continue;
		if (!sent) {
			all = false;
			continue;
		}

		__u32 below = (__u32)sent - window + 1;

		if ((__s32)(below - old) > 0)
			beyond |= 1ull << rank;
		if (rank == 0 || (__s32)(below - least) < 0)
			least = below;
	}
	p->beyond = beyond;
	if (!all)
		return 0;
	raise(&p->floor, least);
	return beyond == full;
}

/* A chunk was released without these ranks. */
__attribute__((noinline)) int note_absent(__u32 id, __u64 ranks, __u32 seq)
{
	struct job_progress *p = bpf_map_lookup_elem(&progress, &id);

	if (!p)
		return 0;
	raise(&p->left, seq);
	__sync_fetch_and_or(&p->absent, ranks);
	return 0;
}

/* Ranks are heard of. They are waited for again when they are within a window of what was released last: who wakes up far
 * behind catches up by RESULTs first. */
static __always_inline void note_present(struct job_progress *p, const struct job *job, __u64 ranks, __u32 seq)
{
	if ((*(volatile __u64 *)&p->absent & ranks) && (__s32)(seq - (__u32)p->left + job->window) > 0)
		__sync_fetch_and_and(&p->absent, ~ranks);
}

/* A chunk was published with everybody in it. */
__attribute__((noinline)) int note_full(__u32 id, __u32 seq, __u32 window, __u32 summed_here)
{
	struct job_progress *p = bpf_map_lookup_elem(&progress, &id);

	if (!p)
		return 0;
	raise(&p->floor, seq - window + 1);
	/* Nobody had its RESULT before this generation, and so nobody had sent what is a window beyond. */
	if (p->resumed && !p->fresh && summed_here)
		p->fresh = KNOWN | (__u32)(seq + window);
	return 0;
}

static __always_inline __u64 beyond_of(__u32 id)
{
	const struct job_progress *p = bpf_map_lookup_elem(&progress, &id);

	return p ? p->beyond : 0;
}

static __always_inline __u32 terms_of(struct job_progress *p, const struct slot *slot, __u64 bits, __u32 rank,
				      __u32 id, __u32 tenant, __u32 seq, __u8 type, __u64 bitmap)
{
	__u32 terms = 0;

	if (type == WIRE_RESULT)
		return 0;
	if (bits & (bits - 1)) /* a ToR's, and be it of one worker */
		note_sent(id, bitmap, seq);
	else
		raise(&p->sent[rank & 63], seq);
	if (!p->resumed || (p->fresh && (__s32)(seq - (__u32)p->fresh) >= 0))
		terms |= TERM_RELEASE;
	/* Without the lock this is a guess; a wrong one costs a question. */
	if ((slot->tenant != tenant || slot->seq != seq) && !may_claim(id, seq))
		terms |= p->resumed ? TERM_HELD_BACK | TERM_NOT_EMPTY : TERM_HELD_BACK;
	return terms;
}

static __always_inline bool held_back(__u32 terms, bool present, __s32 ahead)
{
	return present ? ahead > 0 && (terms & TERM_HELD_BACK) : (terms & TERM_NOT_EMPTY) != 0;
}

static __always_inline __u32 ranks_in(__u64 bitmap)
{
	bitmap -= bitmap >> 1 & 0x5555555555555555ull;
	bitmap = (bitmap & 0x3333333333333333ull) + (bitmap >> 2 & 0x3333333333333333ull);
	bitmap = (bitmap + (bitmap >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return bitmap * 0x0101010101010101ull >> 56;
}

/* The ranks that a chunk with these is to wait for, until its deadline at least. */
static __always_inline __u64 awaited(const struct job *job, __u32 terms, __u64 absent, __u64 have)
{
	return job->full & ~have & ~(terms & TERM_RELEASE ? absent : 0);
}

/* Whether the chunk in the slot, with these ranks in it, has waited for the others long enough, or those are not waited for.
 * While the slot is held. */
static __always_inline bool overdue(const struct slot *slot, const struct job *job, __u64 now, __u32 terms, __u64 absent,
				    __u64 have)
{
	return (terms & TERM_RELEASE) && !slot->complete &&
	       ((__s64)(now - slot->claimed) > job->after || !awaited(job, terms, absent, have));
}

static __always_inline bool due(const struct slot *slot, const struct job *job, __u64 now, __u32 terms, __u64 absent)
{
	return overdue(slot, job, now, terms, absent, slot->bitmap) && ranks_in(slot->bitmap) >= job->quorum;
}
