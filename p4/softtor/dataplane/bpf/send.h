/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Where a packet goes, and the headers it needs for that. No packet grows. */
#pragma once

#include "checksum.h"
#include "tables.h"
#include "visit.h"

enum kind {
	KIND_DROP,
	KIND_PORT,
	KIND_GROUP, /* to all ports of the group */
	KIND_FLOOD, /* likewise, but for the one it came in by */
};

struct decision {
	__u16 kind;
	__u16 value;
};

static __always_inline struct decision decide(enum kind kind, __u16 value)
{
	return (struct decision){ .kind = kind, .value = value };
}

static __always_inline struct decision forward_ip(struct frame *f, const void *data_end)
{
	if ((ip_of(f)->daddr & bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000)) {
		__be32 addr = ip_of(f)->daddr;
		__u32 *group = bpf_map_lookup_elem(&group_routes, &addr);

		return group ? decide(KIND_GROUP, *group) : decide(KIND_DROP, 0);
	}

	struct prefix key = { .length = 32, .addr = ip_of(f)->daddr };
	struct route *route = bpf_map_lookup_elem(&forward, &key);

	if (!route)
		return decide(KIND_DROP, 0);
	count_traffic(&forward_traffic, route->traffic, data_end - (void *)f);
	if (route->drop)
		return decide(KIND_DROP, 0);
	__builtin_memcpy(eth_of(f)->h_dest, route->mac, ETH_ALEN);
	return decide(KIND_PORT, route->port);
}

static __always_inline struct decision bridge_frame(const struct frame *f)
{
	struct bridge_key key = {};
	struct bridge_to *to;

	__builtin_memcpy(key.mac, eth_of(f)->h_dest, ETH_ALEN);
	to = bpf_map_lookup_elem(&bridge, &key);
	if (!to || to->kind == BRIDGE_DROP)
		return decide(KIND_DROP, 0);
	return decide(to->kind == BRIDGE_FLOOD ? KIND_FLOOD : KIND_PORT, to->value);
}

static __always_inline void address(struct frame *f, __be32 src, __be32 dst)
{
	ip_of(f)->saddr = src;
	ip_of(f)->daddr = dst;
	ip_of(f)->check = 0;
	ip_of(f)->check = fold(words_of(ip_of(f), sizeof(struct iphdr)));
}

/* The port of a home that is responsible for a chunk, as the workers know it. */
static __always_inline __be16 home_port(__u16 first, __u16 mask, __u32 seq)
{
	return bpf_htons(first + (seq >> 6 & mask));
}

/* A partial sum to its home: the header is made new, for it may be another chunk's. */
static __always_inline struct decision send_up(struct frame *f, const struct uplink *up, const struct outcome *out)
{
	struct wire_header *h = wire_of(f);
	__u32 seq = out->id ^ up->key;

	h->flags = out->flags;
	h->op = out->op;
	h->job = bpf_htons(out->tag >> 16);
	h->generation = out->tag >> 8;
	h->priority = 0;
	h->cookie = bpf_htonl(up->cookie);
	h->seq = bpf_htonl(seq);
	wire_set_bitmap(h, out->bitmap);
	__builtin_memcpy(eth_of(f)->h_dest, up->mac, ETH_ALEN);
	udp_of(f)->dest = home_port(up->first_port, up->port_mask, seq);
	udp_of(f)->check = 0;
	address(f, up->src, up->dst);
	return decide(KIND_PORT, up->port);
}

/* A complete sum to all workers, or as one contribution to the parent. */
static __always_inline struct decision publish_sum(struct frame *f, const struct publish *p, const struct outcome *out)
{
	struct wire_header *h = wire_of(f);

	if (p->kind == PUBLISH_NOT)
		return decide(KIND_DROP, 0);
	h->flags = out->flags;
	__builtin_memcpy(eth_of(f)->h_dest, p->dst_mac, ETH_ALEN);
	address(f, p->src, p->dst);
	if (p->kind == PUBLISH_TO_PARENT) {
		h->priority = 0;
		wire_set_bitmap(h, p->bits);
		udp_of(f)->dest = home_port(p->src_port, p->dst_port, bpf_ntohl(h->seq));
		udp_of(f)->check = 0;
		return decide(KIND_PORT, p->out);
	}
	h->type = WIRE_RESULT;
	wire_set_bitmap(h, out->bitmap);
	__builtin_memcpy(eth_of(f)->h_source, p->src_mac, ETH_ALEN);
	udp_of(f)->source = bpf_htons(p->src_port);
	udp_of(f)->dest = bpf_htons(p->dst_port);
	udp_of(f)->check = udp_checksum(f, out->words);
	return decide(KIND_GROUP, p->out);
}
