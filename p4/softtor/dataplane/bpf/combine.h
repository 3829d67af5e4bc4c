/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The loops over elements, two at a time and 32 unrolled, under the slot's lock.
 *
 * A word has two elements in two's complement. Their sum is one addition of
 * words, less what the lower lane carried into the upper; it left the int32
 * range where its sign is neither addend's. Such a sum is flagged, for ever, and
 * its elements mean nothing (docs/protocol.md: a flagged RESULT fails its
 * collective), so nothing is clamped. */
#pragma once

#include "lanes.h"
#include "slots.h"

#define BLOCK 32

struct elements {
	struct frame *frame;
	void *data_end;
	struct payload *payload; /* the slot's */
	__u32 count;             /* of both, a multiple of BLOCK up to slot_elements */
};

/* Runs body over every word: x is the packet's, s the slot's; put_packet and put_slot
 * say what is written back, words collects what goes into the packet. */
#define FOR_WORDS(e, put_packet, put_slot, body)                                       \
	do {                                                                           \
		void *packet_ = (void *)(e)->frame + FRAME_SIZE;                       \
		void *payload_ = (e)->payload;                                         \
		__u32 blocks_ = (e)->count / BLOCK;                                    \
		for (__u32 block_ = 0; block_ < slot_elements / BLOCK; block_++) {     \
			barrier_var(block_);                                           \
			if (block_ >= blocks_)                                         \
				break;                                                 \
			__be64 *p_ = packet_ + block_ * BLOCK * 4;                     \
			__u64 *s_ = payload_ + block_ * BLOCK * 4;                     \
			if ((void *)(p_ + BLOCK / 2) > (e)->data_end)                  \
				break;                                                 \
			_Pragma("clang loop unroll(full)") for (int i = 0; i < BLOCK / 2; i++) \
			{                                                              \
				__u64 x = bpf_be64_to_cpu(p_[i]), s = s_[i];           \
				body;                                                  \
				if (put_slot)                                          \
					s_[i] = s;                                     \
				if (put_packet) {                                      \
					x = bpf_cpu_to_be64(x);                        \
					p_[i] = x;                                     \
					words += (__u32)x;                             \
					words += x >> 32;                              \
					barrier_var(words);                            \
				}                                                      \
			}                                                              \
		}                                                                      \
	} while (0)

#define NO_CHECKSUM __u64 __attribute__((unused)) words = 0

/* The sum of two words; what overflowed shows at SIGNS of collected. */
static __always_inline __u64 sum_of(__u64 a, __u64 b, __u64 *collected)
{
	__u64 sum = a + b;

	sum -= (sum ^ a ^ b) & 1ull << 32;
	*collected |= (sum ^ a) & (sum ^ b);
	barrier_var(*collected);
	return sum;
}

/* The greater elements of two words, the smaller with flip all ones, which turns the
 * order round. */
static __always_inline __u64 extreme_of(__u64 a, __u64 b, __u64 flip)
{
	a ^= SIGNS ^ flip;
	b ^= SIGNS ^ flip;
	return (greater(a & 0xffffffff, b & 0xffffffff) | greater(a >> 32, b >> 32) << 32) ^ SIGNS ^ flip;
}

static __always_inline __u64 flip_of(__u8 op)
{
	return op == WIRE_MIN ? ~0ull : 0;
}

/* slot = packet */
static __always_inline void elements_store(const struct elements *e)
{
	NO_CHECKSUM;

	FOR_WORDS(e, false, true, { s = x; });
}

/* slot = op(slot, packet); whether a sum left the int32 range. */
static __always_inline bool elements_merge(const struct elements *e, __u8 op)
{
	__u64 collected = 0, flip = flip_of(op);
	NO_CHECKSUM;

	if (op == WIRE_SUM)
		FOR_WORDS(e, false, true, { s = sum_of(s, x, &collected); });
	else
		FOR_WORDS(e, false, true, { s = extreme_of(s, x, flip); });
	return collected & SIGNS;
}

/* packet = op(slot, packet), likewise; *written is the sum over the packet's elements for its checksum. */
static __always_inline bool elements_join(const struct elements *e, __u8 op, __u64 *written)
{
	__u64 collected = 0, flip = flip_of(op), words = 0;

	if (op == WIRE_SUM)
		FOR_WORDS(e, true, false, { x = sum_of(s, x, &collected); });
	else
		FOR_WORDS(e, true, false, { x = extreme_of(s, x, flip); });
	*written = words;
	return collected & SIGNS;
}

/* slot <-> packet */
static __always_inline void elements_swap(const struct elements *e)
{
	NO_CHECKSUM;

	FOR_WORDS(e, true, true, {
		__u64 t = s;
		s = x;
		x = t;
	});
}
