/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Who sent a packet. The members of all jobs are in one hash map; a CPU remembers those of a job whose packets it has had,
 * for hashing an address costs a fifth of all that is done with a packet besides its elements. */
#pragma once

#include "maps.h"

/* A member as the hash map had it. The members of a job do not change as long as it is there; what was found for another
 * job or generation, or for one of another cookie that had this one's place, is none. */
struct acquaintance {
	struct member member;
	__be32 addr;
	__u32 tenant; /* tenant_of the job; 0: empty */
	__u32 cookie;
	__u32 unused;
};

#define ACQUAINTANCES 64 /* a place for each of 64 workers, if their addresses are neighbours */

struct job_known {
	struct acquaintance by_addr[ACQUAINTANCES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* resized at load to max_jobs */
	__type(key, __u32);
	__type(value, struct job_known);
} known SEC(".maps");

static __always_inline struct acquaintance *place_of(__u32 id, __be32 addr)
{
	struct job_known *all = bpf_map_lookup_elem(&known, &id);

	return all ? &all->by_addr[bpf_ntohl(addr) & (ACQUAINTANCES - 1)] : NULL;
}

/* Looks an address up and remembers it; 0 if it is no member's. A function of its own, which the verifier looks at once:
 * its caller goes on in the same way whether it was called or not. */
__attribute__((noinline)) int acquaint(__u32 id, __be32 addr, __u32 tenant, __u32 cookie)
{
	struct member_key key = { .addr = addr, .job = id };
	const struct member *member = bpf_map_lookup_elem(&members, &key);
	struct acquaintance *a = place_of(id, addr);

	if (!member || !a)
		return 0;
	a->member = *member;
	a->addr = addr;
	a->tenant = tenant;
	a->cookie = cookie;
	return 1;
}

/* The member of a job with an address, or NULL. */
static __always_inline const struct member *member_of(__u32 id, const struct job *job, __u32 tenant, __be32 addr)
{
	const struct acquaintance *a = place_of(id, addr);

	if (!a)
		return NULL;
	if ((a->addr != addr || a->tenant != tenant || a->cookie != job->cookie) && !acquaint(id, addr, tenant, job->cookie))
		return NULL;
	return &a->member;
}
