/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The loops over elements: packet (big-endian) and slot. All run while
 * the slot is held (hold.h).
 *
 * Two elements at a time are lanes of one 64-bit word, swapped, added and stored
 * together. So that nothing is carried from the lower lane to the upper one, lanes are
 * unsigned numbers with an offset:
 *
 *   element + 2^31 (its sign bit flipped) is in [0, 2^32), "plain";
 *   element + 2^k, for an element in [-2^k, 2^k), is in [0, 2^(k+1)), "narrow".
 *
 * Honest contributions to a job of n children are in [-2^k, 2^k) with
 * n * 2^k <= 2^31, for block fixed point leaves room for n addends. The sum of up to n
 * narrow lanes stays below 2^32, so narrow slots are just added to, and cannot
 * overflow. Whether an addend is outside shows in the same numbers, as a bit at
 * or above 2^(k+1). A slot that ever took one outside is wide: its lanes are plain, and every
 * addition clamps. Slots of MAX and MIN are plain too: offset numbers have the
 * order of the signed ones.
 *
 * In memory a slot has whole blocks of 32 elements as words of two lanes, which
 * swaps neighbours, and the rest of a short chunk one by one. Packets of a chunk
 * agree on its length, so nobody sees this.
 *
 * Three things are for the verifier, which would otherwise explore the exits of
 * one loop times those of the next. Each loop reads the element count from the packet
 * again, so that what its exits teach about the count is forgotten afterwards.
 * Each loop walks an own pointer into the packet, made with a zero of unknown
 * value, so that what is proved about the packet's length dies with the pointer.
 * And barrier_var keeps the compiler from folding an index into a pointer before
 * the comparison that proves its bound; on what a loop collects, it keeps it from saving
 * words up to collect them later; on signs, from branching. */
#pragma once

#include "lanes.h"
#include "maps.h"
#include "parse.h"

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

/* Runs body over every element: x is the packet's word of two lanes (or of one,
 * in the lower half), s the slot's; put_packet and put_slot say what is written back. */
#define FOR_LANES(e, put_packet, put_slot, body)                                               \
	do {                                                                                   \
		void *packet_ = elements_packet(e);                                            \
		__u32 blocks_ = elements_count(e) / BLOCK, block_;                             \
		for (block_ = 0; block_ < MAX_BLOCKS; block_++) {                              \
			barrier_var(block_);                                                   \
			if (block_ >= blocks_)                                                 \
				break;                                                         \
			__be64 *p_ = packet_ + block_ * BLOCK * 4;                             \
			__u64 *s_ = (e)->payload + block_ * BLOCK * 4;                         \
			if ((void *)(p_ + BLOCK / 2) > (e)->data_end)                          \
				break;                                                         \
			_Pragma("clang loop unroll(full)") for (int i = 0; i < BLOCK / 2; i++) \
			{                                                                      \
				__u64 x = bpf_be64_to_cpu(p_[i]), s = s_[i];                   \
				body;                                                          \
				if (put_slot)                                                  \
					s_[i] = s;                                             \
				if (put_packet) {                                              \
					x = bpf_cpu_to_be64(x);                                \
					p_[i] = x;                                             \
					both_ += x;                                            \
					barrier_var(both_);                                    \
					x >>= 32;                                              \
					upper_ += x;                                           \
					barrier_var(upper_);                                   \
				}                                                              \
			}                                                                      \
		}                                                                              \
		__u32 count_ = elements_count(e);                                              \
		__u32 at_ = count_ & ~(BLOCK - 1);                                             \
		packet_ = elements_packet(e);                                                  \
		_Pragma("clang loop unroll(disable)") for (__u32 rest_ = 0; rest_ < BLOCK - 1; \
							   rest_++, at_++)                     \
		{                                                                              \
			barrier_var(rest_);                                                    \
			barrier_var(at_);                                                      \
			if (at_ >= count_)                                                     \
				break;                                                         \
			__be32 *p_ = packet_ + at_ * 4;                                        \
			__u32 *s_ = (e)->payload + at_ * 4;                                    \
			if ((void *)(p_ + 1) > (e)->data_end)                                  \
				break;                                                         \
			__u64 x = bpf_ntohl(*p_), s = *s_;                                     \
			body;                                                                  \
			if (put_slot)                                                          \
				*s_ = s;                                                       \
			if (put_packet) {                                                      \
				__be32 word_ = bpf_htonl((__u32)x);                            \
				*p_ = word_;                                                   \
				both_ += word_;                                                \
				barrier_var(both_);                                            \
			}                                                                      \
		}                                                                              \
	} while (0)

/* What the loops that write no packet have for a checksum. */
#define NO_CHECKSUM __u64 __attribute__((unused)) both_ = 0, upper_ = 0

/* The distance from plain to narrow lanes, and from the sum of addends narrow
 * ones back to plain. Neither is negative. */
static __always_inline __u64 narrow(__u32 bound)
{
	return BOTH(0x80000000 - bound);
}

static __always_inline __u64 widen(__u32 bound, __u32 addends)
{
	return BOTH(0x80000000 - bound * addends);
}

/* Whether some collected narrow lane is none. */
static __always_inline bool outside(__u64 collected, __u32 bound)
{
	return collected & BOTH(-(bound << 1));
}

/* slot = packet, in lanes that are distance below plain; returns all bits seen. */
static __always_inline __u64 elements_store(const struct elements *e, __u64 distance)
{
	__u64 collected = 0;
	NO_CHECKSUM;

	FOR_LANES(e, false, true, {
		s = (x ^ SIGNS) - distance;
		collected |= s;
		barrier_var(collected);
	});
	return collected;
}

/* slot += packet, in narrow lanes; returns all bits seen. */
static __always_inline __u64 elements_add(const struct elements *e, __u64 distance)
{
	__u64 collected = 0;
	NO_CHECKSUM;

	FOR_LANES(e, false, true, {
		x = (x ^ SIGNS) - distance;
		s += x;
		collected |= x;
		barrier_var(collected);
	});
	return collected;
}

/* Makes the lanes plain: takes the packet's off again where taken is all ones
 * (exactly, whatever was carried), and adds back. */
static __always_inline void elements_rebase(const struct elements *e, __u64 distance, __u64 taken, __u64 back)
{
	NO_CHECKSUM;

	FOR_LANES(e, false, true, { s = s - (((x ^ SIGNS) - distance) & taken) + back; });
}

/* The sum of two plain lanes, clamped; collects something if it was. */
static __always_inline __u64 clamped_sum(__u64 a, __u64 b, __u64 *collected)
{
	__s64 sum = a + b - 0x80000000ull;
	__s64 clamped = smaller(greater(sum, 0), 0xffffffff);

	*collected |= sum ^ clamped;
	barrier_var(*collected);
	return clamped;
}

/* slot += packet, in plain lanes; whether any sum was clamped. */
static __always_inline bool elements_add_clamped(const struct elements *e)
{
	__u64 collected = 0;
	NO_CHECKSUM;

	FOR_LANES(e, false, true, {
		x ^= SIGNS;
		__u64 high = clamped_sum(s >> 32, x >> 32, &collected);

		/* Where there is only one lane, the upper sum is 0 + 2^31: not clamped, and dropped. */
		s = clamped_sum(s & 0xffffffff, x & 0xffffffff, &collected) | high << 32;
	});
	return collected;
}

/* slot = the greater of slot and packet, in plain lanes; the smaller with flip
 * all ones, for that turns the order round. */
static __always_inline void elements_max(const struct elements *e, __u64 flip)
{
	NO_CHECKSUM;

	FOR_LANES(e, false, true, {
		x ^= SIGNS ^ flip;
		s ^= flip;
		s = (greater(s & 0xffffffff, x & 0xffffffff) | greater(s >> 32, x >> 32) << 32) ^ flip;
	});
}

/* packet = slot, whose lanes are back below plain; returns the sum of the words
 * written, for the UDP checksum: one's complement sums do not mind the byte order
 * (RFC 1071, section 2). Added up are the words of two lanes, which overflows, and the upper lanes alone, which does not:
 * two short chains, where one that adds lane after lane would be what the loop waits for. */
static __always_inline __u64 elements_emit(const struct elements *e, __u64 back)
{
	__u64 both_ = 0, upper_ = 0;

	FOR_LANES(e, true, false, { x = (s + back) ^ SIGNS; });
	return both_ - (upper_ << 32) + upper_;
}
