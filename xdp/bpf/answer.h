/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Answers are made in place, out of the packet that they answer: never longer
 * than it came. */
#pragma once

#include "checksum.h"
#include "counters.h"
#include "parse.h"

/* ECT(0) (RFC 3168): switches may mark instead of drop. */
#define TOS_ECT0 0x02

static __always_inline void finish_ip(struct iphdr *ip)
{
	ip->tos = TOS_ECT0;
	ip->id = 0;
	ip->frag_off = bpf_htons(0x4000); /* DF */
	ip->ttl = 64;
	ip->check = 0;
	/* The IP header lies at an odd multiple of two in the frame, as usual;
	 * 32-bit loads of it are fine wherever BPF runs XDP. */
	ip->check = fold(words_of(ip, sizeof(*ip)));
}

/* To the sender of the packet. */
static __always_inline void address_sender(struct frame *f)
{
	__u8 mac[ETH_ALEN];

	__builtin_memcpy(mac, eth_of(f)->h_dest, ETH_ALEN);
	__builtin_memcpy(eth_of(f)->h_dest, eth_of(f)->h_source, ETH_ALEN);
	__builtin_memcpy(eth_of(f)->h_source, mac, ETH_ALEN);

	__be32 addr = ip_of(f)->saddr;
	__be16 port = udp_of(f)->source;

	ip_of(f)->saddr = ip_of(f)->daddr;
	ip_of(f)->daddr = addr;
	udp_of(f)->source = udp_of(f)->dest;
	udp_of(f)->dest = port;
}

/* To all workers of the job: its group, or in a unicast job the home itself,
 * which is where the tc program takes it up (replicate.h). */
static __always_inline void address_all(struct frame *f, const struct job *job)
{
	__builtin_memcpy(eth_of(f)->h_source, eth_of(f)->h_dest, ETH_ALEN);
	if (job->group) {
		__u32 group = bpf_ntohl(job->group);

		/* RFC 1112, section 6.4 */
		eth_of(f)->h_dest[0] = 0x01;
		eth_of(f)->h_dest[1] = 0x00;
		eth_of(f)->h_dest[2] = 0x5e;
		eth_of(f)->h_dest[3] = (group >> 16) & 0x7f;
		eth_of(f)->h_dest[4] = group >> 8;
		eth_of(f)->h_dest[5] = group;
		ip_of(f)->daddr = job->group;
	} else {
		ip_of(f)->daddr = job->home;
	}
	ip_of(f)->saddr = job->home;
	udp_of(f)->source = job->home_port;
	udp_of(f)->dest = job->worker_port;
}

/* The verdict for a packet that address_all made out. */
static __always_inline int send_all(const struct job *job)
{
	return job->group ? XDP_TX : XDP_PASS;
}

/* RESULT, with the UDP checksum that receivers' coalescing (GRO) asks for. The
 * elements are in place already; words is their sum. */
static __always_inline void make_result(struct frame *f, __u64 bitmap, __u8 flags, __u64 words)
{
	wire_of(f)->type = WIRE_RESULT;
	wire_of(f)->flags = flags;
	wire_of(f)->priority = 0; /* it was summed here, not in a ToR */
	wire_set_bitmap(wire_of(f), bitmap);
	udp_of(f)->check = udp_checksum(f, words);
	finish_ip(ip_of(f));
}

/* SOLICIT or PENDING: the header alone. Cuts the elements off, so the caller's
 * pointers into the packet are void afterwards; NULL if the driver refuses. */
static __always_inline struct frame *make_short(struct xdp_md *ctx, int payload, __u8 type, __u64 have)
{
	if (payload && bpf_xdp_adjust_tail(ctx, -payload))
		return NULL;

	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct frame *f = data;

	if (data + FRAME_SIZE > data_end)
		return NULL;
	wire_of(f)->type = type;
	wire_of(f)->flags = 0;
	wire_set_bitmap(wire_of(f), have);
	wire_of(f)->elems = 0;
	udp_of(f)->len = bpf_htons(sizeof(struct udphdr) + sizeof(struct wire_header));
	udp_of(f)->check = 0;
	ip_of(f)->tot_len = bpf_htons(sizeof(struct iphdr) + sizeof(struct udphdr) + sizeof(struct wire_header));
	return f;
}
