/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The headers of one packet. */
#pragma once

#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/types.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

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
