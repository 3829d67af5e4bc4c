/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What the program knows: jobs, members, slots. All maps are preallocated;
 * Go sizes them at load and is their only writer, but for the slots. */
#pragma once

#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

/* Fixed at load. */
volatile const __u32 max_jobs = 1;
volatile const __u16 first_port = 9700;
volatile const __u16 port_count = 1;
volatile const __u8 simulated_clock = 0; /* quorum jobs go by progress.clock, not by jiffies: for the simulated network */

/* Payload size classes, in elements: a job of small E does not pay for 832. */
#define CLASS_32 0
#define CLASS_64 1
#define CLASS_256 2
#define CLASS_832 3

struct job {
	__u64 full; /* bitmap of all children */
	__u32 cookie;
	__be32 home;  /* the address DATA comes to */
	__be32 group; /* multicast group; 0: unicast, replicated by the tc program */
	__u32 ring_mask;    /* R - 1 */
	__u32 slot_base;    /* first of the job's R slots */
	__u32 payload_base; /* first of its R payloads in its class */
	__be16 home_port;   /* first port, the source of what is sent to all */
	__be16 worker_port;
	__u16 elements; /* E */
	__u8 class;
	__u8 generation;
	__u8 replicas;
	__u8 quorum;      /* K: a sum of so many may be released; 0: it waits for all (quorum.h) */
	__u16 home_ports; /* P: from home_port on */
	__u32 window;     /* for Go: W, which the ring does not tell exactly */
	__u32 bound; /* 2^k: what a child that leaves room for all stays below (elements.h) */
	__u32 zero;   /* always 0, which the verifier does not know (elements.h) */
	__u32 after;  /* D, in jiffies: a chunk older than this need not wait for all */
	__u32 inner;  /* TERM_INNER if it has a parent (tree.h) */
	__u32 active; /* last, so that a reader that sees it sees the rest */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* resized at load to max_jobs */
	__type(key, __u32);
	__type(value, struct job);
} jobs SEC(".maps");

struct member_key {
	__be32 addr;
	__u32 job;
};

#define MAX_MEMBERS 65 /* 64 workers and a ToR */

struct member {
	__u64 bits;  /* what packets from this address may carry */
	__u32 index; /* its place among the job's members: of its activity, in counters.h */
	__u32 rank;  /* the lowest of bits */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* resized at load to MAX_MEMBERS * max_jobs */
	__type(key, struct member_key);
	__type(value, struct member);
} members SEC(".maps");

/* Where the copies of a unicast job's RESULT and SOLICIT go: entries
 * [64 * job, 64 * job + replicas). */
struct replica {
	__be32 addr;
	__u32 ifindex;
	__u8 mac[6];
	__be16 port; /* the worker port, or a child node's */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* resized at load to 64 * max_jobs */
	__type(key, __u32);
	__type(value, struct replica);
} replicas SEC(".maps");

/* A slot's hot metadata, apart from its payload so that a sweep reads little. */
struct slot {
	__u32 held; /* the lock over metadata and payload (hold.h) */
	__u32 seq;
	__u64 bitmap;
	__u32 tenant; /* tenant_of(job, generation) of its content; 0: empty */
	__u16 elems;
	__u8 op;
	__u8 flags;    /* WIRE_SATURATED, WIRE_PARTIAL, WIRE_ECN */
	__u8 complete; /* released: the sum and the bitmap are final */
	__u8 wide;     /* its lanes are plain, not narrow (elements.h) */
	__u8 addends;  /* packets in the sum; what narrow lanes are offset by */
	__u8 unused;
	__u16 verdict; /* scratch of visit_slot */
	__be16 place;  /* the slot of the ToR that its children named */
	__u64 claimed; /* when its chunk came, in jiffies */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* resized at load to the sum over the classes */
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

#define PAYLOAD_MAP(elements)                              \
	struct payload_##elements {                        \
		__s32 element[elements];                   \
	};                                                 \
	struct {                                           \
		__uint(type, BPF_MAP_TYPE_ARRAY);          \
		__uint(max_entries, 1);                    \
		__type(key, __u32);                        \
		__type(value, struct payload_##elements);  \
	} payload_##elements##_map SEC(".maps")

PAYLOAD_MAP(32);
PAYLOAD_MAP(64);
PAYLOAD_MAP(256);
PAYLOAD_MAP(832);

/* Never 0, which is an empty slot. Content of another job or generation is as
 * good as none, so a new generation needs no sweep. */
static __always_inline __u32 tenant_of(__u32 job, __u8 generation)
{
	return job << 16 | (__u32)generation << 8 | 1;
}
