/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* From a frame to a Spillway header: bounds, addresses, lengths. */
#pragma once

#include "frame.h"
#include "maps.h"

enum parsed {
	PARSED_FOREIGN,   /* not for this program: the kernel's */
	PARSED_TO_ITSELF, /* forged: what only this program makes */
	PARSED_TRUNCATED, /* to one of our ports, but not whole */
	PARSED_WHOLE,
};

/* Whether an Ethernet frame that begins with f, of WIRE_AT bytes or more, is UDP from an address to itself. This is how
 * the XDP program marks what the tc program is to replicate, and so nothing of the kind may come from the wire. */
static __always_inline bool to_itself(const struct frame *f)
{
	return eth_of(f)->h_proto == bpf_htons(ETH_P_IP) && ip_of(f)->ihl == 5 && ip_of(f)->protocol == IPPROTO_UDP &&
	       ip_of(f)->saddr == ip_of(f)->daddr;
}

/* Whether the frame is UDP to one of the home's ports, and all of it is there.
 * Packets with IP options and later fragments show no port at the usual place;
 * they are the kernel's, where nothing listens. */
static __always_inline enum parsed parse(struct xdp_md *ctx, struct frame **out)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct frame *f = data;

	if (data + WIRE_AT > data_end)
		return PARSED_FOREIGN;
	if (to_itself(f))
		return PARSED_TO_ITSELF;
	if (eth_of(f)->h_proto != bpf_htons(ETH_P_IP) || ip_of(f)->version != 4 || ip_of(f)->ihl != 5 ||
	    ip_of(f)->protocol != IPPROTO_UDP || (ip_of(f)->frag_off & bpf_htons(0x1fff)))
		return PARSED_FOREIGN;
	if ((__u16)(bpf_ntohs(udp_of(f)->dest) - first_port) >= port_count)
		return PARSED_FOREIGN;

	__u16 length = bpf_ntohs(udp_of(f)->len);

	if (data + FRAME_SIZE > data_end || (ip_of(f)->frag_off & bpf_htons(0x2000)) ||
	    bpf_ntohs(ip_of(f)->tot_len) != length + sizeof(struct iphdr) ||
	    data + sizeof(struct ethhdr) + sizeof(struct iphdr) + length != data_end)
		return PARSED_TRUNCATED;
	*out = f;
	return PARSED_WHOLE;
}
