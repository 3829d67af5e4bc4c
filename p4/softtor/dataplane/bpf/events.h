/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Counters, all per CPU. The enum is the one definition of the events' names on
 * this side: Go reads them from the object's BTF and lower-cases what follows EVENT_.
 * The numbers are those of the P4 programs' counter "events". */
#pragma once

#include "frame.h"

enum event {
	/* What was done with a packet. */
	EVENT_CLAIMED = 0,         /* DATA took a free slot */
	EVENT_MERGED = 1,          /* DATA was added to a slot */
	EVENT_COMPLETED = 2,       /* likewise, and was the last: the sum left */
	EVENT_PREEMPTS = 3,        /* DATA took a less urgent chunk's slot */
	EVENT_SPILLED = 4,         /* the slot was another chunk's: DATA went on to its home */
	EVENT_RESEND_EVICTED = 5,  /* DATA went on to its home with the slot's content */
	EVENT_PASSED = 6,          /* DATA went on to its home as it came */
	EVENT_DUPLICATE = 7,       /* the slot has it already: dropped */
	EVENT_OVERLAP = 8,         /* the slot's content went on, the packet's was lost */
	EVENT_FREED = 9,           /* RESULT freed the slot of its chunk */
	EVENT_FORWARDED = 10,      /* anything else of a member */
	EVENT_MISMATCH = 11,       /* of another length or op than the slot's content: DATA went on to its home */
	/* Why a packet was dropped; nothing else changed. */
	EVENT_UNKNOWN_JOB = 16,
	EVENT_STALE = 17,          /* another generation */
	EVENT_BAD_COOKIE = 18,
	EVENT_NOT_MEMBER = 19,     /* not this job's address at this port */
	EVENT_BAD_BITMAP = 20,
	EVENT_BAD_SLOT = 21,       /* not in the job's region; DATA went on to its home all the same */
	EVENT_BAD_HEADER = 22,
	EVENT_BAD_DIRECTION = 23,  /* not for one in its role to send */
	EVENT_END = 32,
};

#define JOB_INDICES 256

/* Index: the job's index * EVENT_END + the event; job index 0: no job. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, JOB_INDICES * EVENT_END);
	__type(key, __u32);
	__type(value, __u64);
} events SEC(".maps");

/* Partial sums that left because another chunk took the slot, by the loser's job index. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, JOB_INDICES);
	__type(key, __u32);
	__type(value, __u64);
} preempted SEC(".maps");

/* Sums that left the int32 range, when they leave the ToR. By job index. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, JOB_INDICES);
	__type(key, __u32);
	__type(value, __u64);
} saturated SEC(".maps");

/* What entries of a table have seen; the entry has the index. */
struct traffic {
	__u64 packets;
	__u64 bytes;
};

static __always_inline void count_in(void *counters, __u32 index)
{
	__u64 *n = bpf_map_lookup_elem(counters, &index);

	if (n)
		(*n)++;
}

static __always_inline void count_event(__u8 job_index, __u8 event)
{
	count_in(&events, (__u32)job_index * EVENT_END + event);
}

static __always_inline void count_traffic(void *counters, __u32 index, __u32 bytes)
{
	struct traffic *t = bpf_map_lookup_elem(counters, &index);

	if (t) {
		t->packets++;
		t->bytes += bytes;
	}
}
