/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The Internet checksum (RFC 1071). It is added up in 32-bit words as they lie in
 * memory: one's complement sums do not mind the byte order (section 2). */
#pragma once

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

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
