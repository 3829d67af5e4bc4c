/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Two elements as lanes of one 64-bit word. */
#pragma once

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define BOTH(lane) ((__u64)(lane) << 32 | (__u32)(lane))
#define SIGNS 0x8000000080000000ull

/* The greater and the smaller of two numbers below 2^62 in magnitude. */
static __always_inline __s64 greater(__s64 a, __s64 b)
{
	__s64 less = a - b;

	barrier_var(less);
	return a - (less & (less >> 63));
}

static __always_inline __s64 smaller(__s64 a, __s64 b)
{
	__s64 less = a - b;

	barrier_var(less);
	return b + (less & (less >> 63));
}
