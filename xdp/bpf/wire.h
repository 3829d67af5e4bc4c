/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The C twin of package wire: the packet format. xdp/wire_test.go runs the
 * golden vectors of wire/testdata through the compiled program, so that the
 * two cannot drift. */
#pragma once

#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define WIRE_VERSION 1
#define WIRE_MAX_ELEMENTS 832

enum wire_type {
	WIRE_DATA = 1,
	WIRE_RESULT = 2,
	WIRE_SOLICIT = 3,
	WIRE_PENDING = 4,
	WIRE_PROBE = 5,
};

enum wire_flag {
	WIRE_RESEND = 1,
	WIRE_SATURATED = 2,
	WIRE_PARTIAL = 4,
	WIRE_ECN = 8,
	WIRE_KNOWN_FLAGS = 15,
};

enum wire_op {
	WIRE_SUM = 0,
	WIRE_MAX = 1,
	WIRE_MIN = 2,
};

struct wire_header {
	__u8 version;
	__u8 type;
	__u8 flags;
	__u8 op;
	__be16 job;
	__u8 generation;
	__u8 priority;
	__be32 cookie;
	__be32 seq;
	__be32 bitmap[2]; /* wire_bitmap, wire_set_bitmap */
	__be16 elems;
	__be16 slot;
};

_Static_assert(sizeof(struct wire_header) == 28, "the header is 28 bytes");

static __always_inline __u64 wire_bitmap(const struct wire_header *h)
{
	return bpf_be64_to_cpu(*(const __be64 *)h->bitmap);
}

static __always_inline void wire_set_bitmap(struct wire_header *h, __u64 bitmap)
{
	*(__be64 *)h->bitmap = bpf_cpu_to_be64(bitmap);
}
