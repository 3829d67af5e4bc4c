/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Nodes with a parent (docs/protocol.md, section 9): what goes up to it, and what comes down from it. Jobs without one come here
 * with no more than a test of job.inner. */
#pragma once

#include "answer.h"
#include "counters.h"
#include "hold.h"
#include "maps.h"
#include "parse.h"
#include "quorum.h"

/* A node's parent, what the job is called there, and the ways to it and to the children. */
struct uplink {
	__u64 full;          /* bitmap of all of the parent's children */
	__u64 bit;           /* this node's there */
	__be32 parent;       /* address */
	__be32 self;         /* this node's address there */
	__be32 group;        /* the parent's multicast group; 0: it sends copies */
	__u32 cookie;        /* these three are the job's there */
	__u16 job;
	__u8 generation;
	__u8 rank;           /* of bit */
	__be16 parent_port;  /* the first of parent_ports */
	__be16 self_port;
	__u16 parent_ports;
	__u16 shards;        /* of the job: which of the ports a chunk goes to */
	__u32 up;            /* the interface that the parent is behind; 0: the one a packet came from */
	__u32 down;          /* likewise, the children's */
	__u8 mac[6];         /* the next hop to the parent */
	__u8 self_mac[6];    /* of up */
	__u8 down_mac[6];    /* of down */
	__u8 unused[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* resized at load to max_jobs */
	__type(key, __u32);
	__type(value, struct uplink);
} uplinks SEC(".maps");

/* Whose packets are a parent's, by its address, its name for the job and the port they come to. */
struct parent_key {
	__be32 addr;
	__be16 job;
	__be16 port;
};

/* What they are about. */
struct below {
	struct member as; /* no member: it has no bits */
	__u32 job;   /* what the job is called here */
	__u32 terms; /* TERM_ABOVE: a number that the verifier does not know */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* resized at load to max_jobs */
	__type(key, struct parent_key);
	__type(value, struct below);
} parents SEC(".maps");

static __always_inline const struct below *node_below(const struct frame *f)
{
	struct parent_key key = { .addr = ip_of(f)->saddr, .job = wire_of(f)->job, .port = udp_of(f)->dest };

	return bpf_map_lookup_elem(&parents, &key);
}

/* Whether the slot, which is of this chunk and not complete, has all that is to go up. */
static __always_inline bool summed(const struct slot *slot, const struct job *job, __u32 terms)
{
	return (terms & TERM_INNER) && slot->bitmap == job->full;
}

/* What follows are functions of their own, which the verifier looks at once, apart from all ways that lead to them. */

static __always_inline struct frame *frame_of(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;

	return data + FRAME_SIZE > (void *)(long)ctx->data_end ? NULL : data;
}

static __always_inline int leave_by(struct xdp_md *ctx, __u32 ifindex)
{
	return ifindex && ifindex != ctx->ingress_ifindex ? bpf_redirect(ifindex, 0) : XDP_TX;
}

/* The packet, whose elements are in place, goes to the parent as this node's. In place of a slot of a ToR, it names who asks: this
 * node, and its child. No ToR looks at it, for it is to a port of none. */
__attribute__((noinline)) int send_up(struct xdp_md *ctx, __u32 id, __u32 child, __u32 flags)
{
	const struct uplink *up = bpf_map_lookup_elem(&uplinks, &id);
	struct frame *f = frame_of(ctx);

	if (!up || !f)
		return XDP_DROP;

	__u8 type = wire_of(f)->type;
	__u32 seq = bpf_ntohl(wire_of(f)->seq);
	__u32 run = seq >> 6;

	if (up->shards > 1)
		run /= up->shards;
	__builtin_memcpy(eth_of(f)->h_dest, up->mac, ETH_ALEN);
	__builtin_memcpy(eth_of(f)->h_source, up->self_mac, ETH_ALEN);
	ip_of(f)->saddr = up->self;
	ip_of(f)->daddr = up->parent;
	udp_of(f)->source = up->self_port;
	udp_of(f)->dest = bpf_htons(bpf_ntohs(up->parent_port) + (run & (up->parent_ports - 1)));
	udp_of(f)->check = 0;
	wire_of(f)->flags = type == WIRE_DATA ? flags | (wire_of(f)->flags & WIRE_RESEND) : flags;
	wire_of(f)->job = bpf_htons(up->job);
	wire_of(f)->generation = up->generation;
	wire_of(f)->priority = 0;
	wire_of(f)->cookie = bpf_htonl(up->cookie);
	wire_of(f)->slot = bpf_htons((__u16)up->rank << 6 | (child & 63));
	wire_set_bitmap(wire_of(f), type == WIRE_RESULT ? up->full : up->bit);
	finish_ip(ip_of(f));
	return leave_by(ctx, up->up);
}

/* The parent's packet, that address_all has made out, becomes this node's. */
static __always_inline void come_down(struct frame *f, const struct job *job, const struct uplink *up, __u32 id, __be16 place)
{
	__builtin_memcpy(eth_of(f)->h_source, up->down_mac, ETH_ALEN);
	wire_of(f)->job = bpf_htons(id);
	wire_of(f)->generation = job->generation;
	wire_of(f)->cookie = bpf_htonl(job->cookie);
	wire_of(f)->slot = place;
}

/* The verdict for it. */
static __always_inline int send_down(struct xdp_md *ctx, const struct job *job, const struct uplink *up)
{
	return job->group ? leave_by(ctx, up->down) : XDP_PASS;
}

/* The parent's RESULT, which is in the packet still, goes to the children with what the slot says of it; words are those of its elements. */
__attribute__((noinline)) int publish_below(struct xdp_md *ctx, __u32 id, __u32 flags, __u32 place, __u64 words)
{
	const struct job *job = bpf_map_lookup_elem(&jobs, &id);
	const struct uplink *up = bpf_map_lookup_elem(&uplinks, &id);
	struct frame *f = frame_of(ctx);

	if (!job || !up || !f)
		return XDP_DROP;
	address_all(f, job);
	come_down(f, job, up, id, place);
	make_result(f, job->full, flags, words);
	return send_down(ctx, job, up);
}

/* Whether a parent's packet is as one must be, up to what is in the slot: COUNT_END, or the reason to drop it. */
__attribute__((noinline)) int check_above(struct xdp_md *ctx, __u32 id)
{
	const struct job *job = bpf_map_lookup_elem(&jobs, &id);
	const struct uplink *up = bpf_map_lookup_elem(&uplinks, &id);
	const struct frame *f = frame_of(ctx);

	if (!job || !up || !f)
		return COUNT_INTERNAL;
	if (!job->inner || (ip_of(f)->daddr != up->self && ip_of(f)->daddr != up->group))
		return COUNT_UNKNOWN_JOB;
	if (wire_of(f)->generation != up->generation)
		return COUNT_BAD_GENERATION;
	if (bpf_ntohl(wire_of(f)->cookie) != up->cookie)
		return COUNT_BAD_COOKIE;
	if (bpf_ntohs(wire_of(f)->elems) > job->elements)
		return COUNT_BAD_ELEMS;
	if (wire_of(f)->type == WIRE_RESULT && (wire_bitmap(wire_of(f)) != up->full || (wire_of(f)->flags & WIRE_PARTIAL)))
		return COUNT_BAD_BITMAP;
	return COUNT_END;
}

/* The parent's SOLICIT or PENDING: what it means for the children, if anything. */
__attribute__((noinline)) int descend(struct xdp_md *ctx, __u32 id)
{
	const struct job *job = bpf_map_lookup_elem(&jobs, &id);
	const struct uplink *up = bpf_map_lookup_elem(&uplinks, &id);
	struct job_counters *c = bpf_map_lookup_elem(&counters, &id);
	struct frame *f = frame_of(ctx);

	if (!job || !up || !c || !f)
		return XDP_DROP;

	__u8 type = wire_of(f)->type, flags = wire_of(f)->flags;
	__u64 have = wire_bitmap(wire_of(f));
	__u32 seq = bpf_ntohl(wire_of(f)->seq);
	__u32 asker = bpf_ntohs(wire_of(f)->slot);
	__u32 index = job->slot_base + (seq & job->ring_mask);
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);

	if (!slot)
		return drop(c, COUNT_INTERNAL);
	if (flags & ~(type == WIRE_PENDING ? WIRE_PARTIAL : 0))
		return drop(c, COUNT_BAD_FLAGS);
	if (!flags && (have & ~up->full))
		return drop(c, COUNT_BAD_BITMAP);

	__u64 children;

	if (!hold(slot, index))
		return drop(c, COUNT_CONTENDED);

	bool present = slot->tenant == tenant_of(id, job->generation), complete = slot->complete;
	__s32 ahead = seq - slot->seq;

	children = slot->bitmap;
	let_go(slot);
	if (present && ahead < 0)
		return drop(c, COUNT_STALE);

	bool here = present && !ahead, all = here && children == job->full;
	bool own = type == WIRE_PENDING || asker >> 6 == up->rank;
	bool lost = !flags && (!(have & up->bit) || have == up->full);
	/* One child is enough to send up what is here; to the others the same packet says that they are held. */
	__u64 one = asker >> 6 == up->rank ? 1ull << (asker & 63) : 1;

	if (!(one & job->full))
		one = 1;
	asker = own ? asker & 63 : 1023;
	if (all && !complete && own && !lost) {
		/* Held above. */
		type = WIRE_PENDING;
		flags = WIRE_PARTIAL;
	} else if (all && lost && (type == WIRE_SOLICIT || !complete)) {
		type = WIRE_SOLICIT;
		flags = 0;
		have = job->full & ~one;
	} else if (!all && lost && type == WIRE_SOLICIT) {
		flags = 0;
		have = here ? children : 0;
		asker = 1023;
	} else {
		return drop(c, COUNT_NEEDLESS);
	}
	count(c, COUNT_PASSED_DOWN);
	address_all(f, job);
	come_down(f, job, up, id, bpf_htons(asker << 6));
	wire_of(f)->type = type;
	wire_of(f)->flags = flags;
	wire_set_bitmap(wire_of(f), have);
	udp_of(f)->check = 0;
	finish_ip(ip_of(f));
	return send_down(ctx, job, up);
}
