/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Counters: per CPU, per job and per reason, and what came from each member. The enum is the one definition of
 * the names: Go reads them from the object's BTF and lower-cases what follows
 * COUNT_. New ones go before COUNT_END. */
#pragma once

#include "maps.h"

enum counter {
	/* What came in, once it was known to be of a member. */
	COUNT_DATA,
	COUNT_RESULT,
	COUNT_PROBE,
	/* What was done with it. */
	COUNT_CLAIMED,   /* DATA took a slot */
	COUNT_MERGED,    /* DATA was added to a slot */
	COUNT_REPLACED,  /* DATA was a superset and took the slot's place */
	COUNT_PUBLISHED, /* a RESULT went out to all */
	COUNT_RESULT_RESENT, /* a cached RESULT went to one sender */
	COUNT_PENDING,   /* a PENDING went to one sender */
	COUNT_SOLICITED, /* a SOLICIT went out to all */
	COUNT_RESTORED,  /* a worker's RESULT filled the slot again */
	COUNT_SATURATED, /* a merge left the int32 range */
	COUNT_ABANDONED, /* a newer chunk took a slot that was not complete */
	COUNT_ECN,       /* a DATA packet arrived with a congestion mark */
	COUNT_RELEASED,  /* a RESULT without everybody was published, for the deadline was over */
	COUNT_LATE,      /* DATA came for a chunk that had been released without it */
	COUNT_LAGGING,   /* a chunk had to wait for its slot, because a worker may need what it holds */
	COUNT_SENT_UP,     /* the sum went to the parent in a DATA packet */
	COUNT_ASKED_UP,    /* a PROBE went on to the parent */
	COUNT_RETURNED_UP, /* a child's RESULT went on to the parent, who may have asked for it */
	COUNT_PASSED_DOWN, /* the parent's SOLICIT or PENDING went on to all children */
	/* Why a packet was dropped; nothing else changed. */
	COUNT_BAD_LENGTH,
	COUNT_BAD_VERSION,
	COUNT_BAD_TYPE,
	COUNT_BAD_FLAGS,
	COUNT_BAD_OP,
	COUNT_BAD_ELEMS,
	COUNT_UNKNOWN_JOB,
	COUNT_BAD_GENERATION,
	COUNT_BAD_COOKIE,
	COUNT_NOT_MEMBER,
	COUNT_BAD_BITMAP,
	COUNT_STALE,
	COUNT_MISMATCH,
	COUNT_OVERLAP,
	COUNT_DUPLICATE_RESULT,
	COUNT_UNSOLICITED,
	COUNT_NEEDLESS, /* the parent asks for what it has, or says what the children need not know */
	COUNT_INTERNAL, /* a map or a packet resize failed: a bug or a driver's limit */
	COUNT_CONTENDED, /* another CPU held the slot for too long */
	COUNT_END,
};

/* What came from a member, whatever was done with it. */
struct activity {
	__u64 packets;
	__u64 last;   /* when, in jiffies */
	__u64 prompt; /* a worker's contributions that came within the jiffy of the slot's claim (lateness.h) */
};

/* In one value, so that a packet looks up one; and no atomics, since a CPU's are its own. */
struct job_counters {
	__u64 of[COUNT_END];
	struct activity member[MAX_MEMBERS];
};

/* Index max_jobs counts packets whose job is not known. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* resized at load to max_jobs + 1 */
	__type(key, __u32);
	__type(value, struct job_counters);
} counters SEC(".maps");

/* Keeps the enum in the object's BTF, where Go finds the names. */
const enum counter counter_names __attribute__((unused)) = COUNT_END;

static __always_inline void count(struct job_counters *c, enum counter what)
{
	c->of[what]++;
}

static __always_inline int drop(struct job_counters *c, enum counter why)
{
	count(c, why);
	return XDP_DROP;
}

static __always_inline int drop_jobless(enum counter why)
{
	__u32 index = max_jobs;
	struct job_counters *c = bpf_map_lookup_elem(&counters, &index);

	if (c)
		count(c, why);
	return XDP_DROP;
}
