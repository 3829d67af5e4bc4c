/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The lock of a slot. Not the kernel's bpf_spin_lock, whose two calls can cost as much as adding 80 elements
 * (docs/decisions/0043): one atomic instruction takes it and one gives it back, both of them full barriers. Who does not get it
 * tries again for some time, and then drops the packet, as a network may at any time. So a CPU that the hypervisor has
 * taken away from the holder stops nobody, and a packet that interrupts the holder does not wait for ever. */
#pragma once

#include "maps.h"

#define HOLD_TRIES 1024 /* some 20 microseconds: dozens of contributions of 256 elements */

/* Tells the verifier that what registers held is of no use any more, which it would else tell apart in all that follows: a helper that
 * the kernel puts a single load in the place of. Without it the program is beyond what the verifier looks at. */
static __always_inline void forget_registers(void)
{
	bpf_jiffies64();
}

static __always_inline bool try_hold(struct slot *slot)
{
	return __sync_val_compare_and_swap(&slot->held, 0, 1) == 0;
}

/* Tries again and again; 0 if it was for nothing. A function of its own, which the verifier looks at once. */
__attribute__((noinline)) int hold_later(__u32 index)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);

	if (!slot)
		return 0;
	for (int i = 0; i < HOLD_TRIES; i++) {
		if (*(volatile __u32 *)&slot->held == 0 && try_hold(slot))
			return 1;
		bpf_ktime_get_ns(); /* to look less often: some 20 nanoseconds */
	}
	return 0;
}

static __always_inline bool hold(struct slot *slot, __u32 index)
{
	bool held = try_hold(slot) || hold_later(index);

	forget_registers();
	return held;
}

static __always_inline void let_go(struct slot *slot)
{
	forget_registers();
	__sync_lock_test_and_set(&slot->held, 0);
}
