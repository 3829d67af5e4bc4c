/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* From a frame to a Spillway header: bounds, addresses, lengths. */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include "maps.h"
#include "wire.h"

/* One packet: no header has options, so all offsets are constant. Not packed
 * structures in a structure: the compiler would access those byte by byte, and
 * wherever XDP runs 32-bit loads need no alignment. */
struct frame;

#define IP_AT sizeof(struct ethhdr)
#define UDP_AT (IP_AT + sizeof(struct iphdr))
#define WIRE_AT (UDP_AT + sizeof(struct udphdr))
#define FRAME_SIZE (WIRE_AT + sizeof(struct wire_header))
_Static_assert(FRAME_SIZE == 70, "Ethernet 14, IPv4 20, UDP 8, Spillway 28");

static __always_inline struct ethhdr *eth_of(const struct frame *f)
{
	return (void *)f;
}

static __always_inline struct iphdr *ip_of(const struct frame *f)
{
	return (void *)f + IP_AT;
}

static __always_inline struct udphdr *udp_of(const struct frame *f)
{
	return (void *)f + UDP_AT;
}

static __always_inline struct wire_header *wire_of(const struct frame *f)
{
	return (void *)f + WIRE_AT;
}

enum parsed {
	PARSED_FOREIGN,   /* not for this program: the kernel's */
	PARSED_TRUNCATED, /* to one of our ports, but not whole */
	PARSED_WHOLE,
};

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
