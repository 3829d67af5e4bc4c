/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The loops over elements: packet (big-endian) and slot (host order). Whole
 * blocks of 32 are unrolled, the rest of a short chunk goes one by one. All
 * run under the slot's lock, where no function may be called.
 *
 * Three things here are for the verifier, which would otherwise explore the
 * exits of one loop times those of the next. Each loop reads the element count
 * from the packet again, so that what its exits teach about the count is
 * forgotten afterwards. Each loop walks an own pointer into the packet, made
 * with a zero of unknown value, so that what is proved about the packet's
 * length dies with the pointer. And barrier_var keeps the compiler from folding
 * an index into a pointer before the comparison that proves its bound; on what a
 * loop collects, it keeps it from saving 32 words up to collect them later. */
#pragma once

#include "maps.h"
#include "parse.h"
#include "wire.h"

#define BLOCK 32
#define MAX_BLOCKS (WIRE_MAX_ELEMENTS / BLOCK)

/* A chunk's elements in both places. */
struct elements {
	struct frame *frame;
	void *data_end;
	void *payload;  /* the slot's */
	__u32 capacity; /* of the slot, in elements */
	__u32 zero;     /* job.zero */
};

static __always_inline void *elements_packet(const struct elements *e)
{
	__u32 zero = e->zero & 4;

	barrier_var(zero);
	return (void *)e->frame + FRAME_SIZE + zero;
}

static __always_inline __u32 elements_count(const struct elements *e)
{
	__u32 n = bpf_ntohs(*(volatile __be16 *)&wire_of(e->frame)->elems);

	if (n > e->capacity)
		n = 0;
	barrier_var(n);
	return n;
}

/* Runs body over every element: p[i] is the packet's, s[i] the slot's. */
#define FOR_ELEMENTS(e, body)                                                                  \
	do {                                                                                   \
		void *packet_ = elements_packet(e);                                            \
		__u32 blocks_ = elements_count(e) / BLOCK, block_;                             \
		for (block_ = 0; block_ < MAX_BLOCKS; block_++) {                              \
			barrier_var(block_);                                                   \
			if (block_ >= blocks_)                                                 \
				break;                                                         \
			__be32 *p = packet_ + block_ * BLOCK * 4;                              \
			__s32 *s = (e)->payload + block_ * BLOCK * 4;                          \
			if ((void *)(p + BLOCK) > (e)->data_end)                               \
				break;                                                         \
			_Pragma("clang loop unroll(full)") for (int i = 0; i < BLOCK; i++) body \
		}                                                                              \
		__u32 count_ = elements_count(e);                                              \
		__u32 at_ = count_ & ~(BLOCK - 1);                                             \
		packet_ = elements_packet(e);                                                  \
		_Pragma("clang loop unroll(disable)") for (__u32 rest_ = 0; rest_ < BLOCK - 1;       \
							   rest_++, at_++) {                   \
			barrier_var(at_);                                                      \
			if (at_ >= count_)                                                     \
				break;                                                         \
			__be32 *p = packet_ + at_ * 4;                                         \
			__s32 *s = (e)->payload + at_ * 4;                                     \
			if ((void *)(p + 1) > (e)->data_end)                                   \
				break;                                                         \
			const int i = 0;                                                       \
			body                                                                   \
		}                                                                              \
	} while (0)

/* Overflow is found in two steps, of which honest sums pay only the first. Each
 * of n children stays within [-bound, bound) with n * bound <= 2^31 when it
 * leaves room for n addends, as block fixed point does; then no sum overflows, and it is
 * enough to look at the addend. That takes two instructions an element:
 * an addend is within iff addend + bound has no bit at or above 2 * bound. A slot
 * that ever took one outside is wide, and its sums are looked at exactly. */
static __always_inline __u32 outside(__u32 collected, __u32 bound)
{
	return collected & -(bound << 1);
}

/* slot = packet; whether some element is outside the bound. */
static __always_inline __u32 elements_store(const struct elements *e, __u32 bound)
{
	__u32 collected = 0;

	FOR_ELEMENTS(e, {
		__u32 word = bpf_ntohl(p[i]);

		s[i] = word;
		collected |= word + bound;
		barrier_var(collected);
	});
	return outside(collected, bound);
}

/* slot += packet, wrapping; whether some element of the packet is outside the bound. */
static __always_inline __u32 elements_add(const struct elements *e, __u32 bound)
{
	__u32 collected = 0;

	FOR_ELEMENTS(e, {
		__u32 word = bpf_ntohl(p[i]);

		s[i] += word;
		collected |= word + bound;
		barrier_var(collected);
	});
	return outside(collected, bound);
}

/* After elements_add: the addend is still in the packet, so what wrapped can be
 * found (Hacker's Delight, 2-13: the sum's sign differs from both addends') and set to
 * the end of the range it left by. Returns whether anything wrapped. */
static __always_inline __u32 elements_saturate(const struct elements *e)
{
	__u32 any = 0;

	FOR_ELEMENTS(e, {
		__u32 sum = s[i];
		__u32 b = bpf_ntohl(p[i]);
		__u32 a = sum - b;
		__u32 wrapped = (__u32)((__s32)((a ^ sum) & (b ^ sum)) >> 31); /* all ones */
		__u32 end = (__u32)((__s32)b >> 31) ^ 0x7fffffff;

		s[i] = (sum & ~wrapped) | (end & wrapped);
		any |= wrapped;
		barrier_var(any);
	});
	return any;
}

/* Without branches: the data decides, and nothing would predict it. barrier_var
 * hides from the compiler that this is a maximum, for which it would branch. */
static __always_inline void elements_max(const struct elements *e)
{
	FOR_ELEMENTS(e, {
		__s64 a = s[i];
		__s64 less = a - (__s64)(__s32)bpf_ntohl(p[i]);

		barrier_var(less);
		s[i] = a - (less & (less >> 63));
	});
}

static __always_inline void elements_min(const struct elements *e)
{
	FOR_ELEMENTS(e, {
		__s64 b = (__s32)bpf_ntohl(p[i]);
		__s64 less = (__s64)s[i] - b;

		barrier_var(less);
		s[i] = b + (less & (less >> 63));
	});
}

/* packet = slot; the sum of the words written, for the UDP checksum: one's
 * complement sums do not mind the byte order (RFC 1071, section 2). */
static __always_inline __u64 elements_emit(const struct elements *e)
{
	__u64 words = 0;

	FOR_ELEMENTS(e, {
		__be32 word = bpf_htonl(s[i]);

		words += word;
		barrier_var(words);
		p[i] = word;
	});
	return words;
}
