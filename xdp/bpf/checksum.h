/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The Internet checksum (RFC 1071). It is added up in 32-bit words as they lie in
 * memory: one's complement sums do not mind the byte order (section 2). */
#pragma once

#include "frame.h"

static __always_inline __u16 fold(__u64 words)
{
	words = (words & 0xffffffff) + (words >> 32);
	words = (words & 0xffffffff) + (words >> 32);
	words = (words & 0xffff) + (words >> 16);
	words = (words & 0xffff) + (words >> 16);
	return ~(__u16)words;
}

/* Sum of the 32-bit words of [from, from + size), for fold. */
static __always_inline __u64 words_of(const void *from, int size)
{
	const __u32 *word = from;
	__u64 words = 0;

#pragma clang loop unroll(full)
	for (int i = 0; i < size / 4; i++)
		words += word[i];
	return words;
}

/* The UDP checksum of a whole frame, words being the sum over its elements. */
static __always_inline __u16 udp_checksum(struct frame *f, __u64 words)
{
	udp_of(f)->check = 0;
	words += words_of(wire_of(f), sizeof(struct wire_header));
	words += words_of(udp_of(f), sizeof(struct udphdr));
	words += words_of(&ip_of(f)->saddr, 8);
	words += bpf_htons(IPPROTO_UDP);
	words += udp_of(f)->len;

	__u16 check = fold(words);

	return check ? check : 0xffff;
}
