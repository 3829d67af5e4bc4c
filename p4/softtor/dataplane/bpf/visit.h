/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What a DATA or RESULT packet does to its slot. Everything that changes a slot
 * is in this file, under the slot's lock. */
#pragma once

#include "combine.h"
#include "events.h"

/* What the rules need of an admitted packet. */
struct request {
	__u64 bitmap;
	__u64 full; /* the bitmap of a complete sum */
	__u32 id;
	__u32 tag;
	__s32 urgency;
	__u8 op;
	__u8 mark; /* WIRE_ECN if it met congestion */
	bool first_come;
};

enum leaves {
	LEAVES_NOT,   /* the packet ends here */
	LEAVES_AS_IT_CAME,
	LEAVES_COMPLETE, /* the packet has a complete sum */
	LEAVES_PARTIAL,  /* the packet has what was in the slot, and perhaps its own besides */
};

struct outcome {
	__u64 bitmap; /* of what leaves, and its id, tag, flags and op */
	__u64 words;  /* the sum over its elements, for the checksum */
	__u32 id;
	__u32 tag;
	__u8 flags;
	__u8 op;
	__u8 event;
	__u8 leaves;
	bool saturated; /* the sum that leaves left the int32 range here */
	bool worn_out;  /* the incumbent, which is of tag, aged to nothing */
};

enum move {
	MOVE_NONE,
	MOVE_STORE,
	MOVE_MERGE,
	MOVE_JOIN,
	MOVE_SWAP,
};

static __always_inline void take_content(struct slot *slot, struct outcome *out)
{
	out->bitmap = slot->bitmap;
	out->id = slot->id;
	out->tag = slot->tag;
	out->flags |= slot->flags & WIRE_KNOWN_FLAGS;
	out->op = op_of(slot->flags);
	out->saturated = slot->flags & WIRE_SATURATED;
	out->leaves = LEAVES_PARTIAL;
}

static __always_inline void put_content(struct slot *slot, const struct elements *e, const struct request *r)
{
	slot->urgency = r->urgency;
	slot->id = r->id;
	slot->tag = r->tag;
	slot->bitmap = r->bitmap;
	slot->elems = e->count;
	slot->flags = r->mark | r->op << OP_SHIFT;
}

/* Whether packet and slot, of one chunk, can be combined. */
static __always_inline bool fits(const struct slot *slot, const struct elements *e, const struct request *r)
{
	return slot->elems == e->count && op_of(slot->flags) == r->op;
}

/* DATA that may rest. */
static __always_inline enum move contest(struct slot *slot, const struct elements *e, const struct request *r,
					 struct outcome *out)
{
	bool taken = slot->urgency != 0;

	if (taken && slot->id == r->id && slot->tag == r->tag) {
		if (!fits(slot, e, r)) {
			out->event = EVENT_MISMATCH;
			out->leaves = LEAVES_AS_IT_CAME;
			return MOVE_NONE;
		}
		if (r->urgency - slot->urgency > MARGIN)
			slot->urgency = r->urgency;
		if (slot->bitmap & r->bitmap) {
			out->event = EVENT_DUPLICATE;
			return MOVE_NONE;
		}
		slot->bitmap |= r->bitmap;
		slot->flags |= r->mark;
		if (slot->bitmap != r->full) {
			out->event = EVENT_MERGED;
			return MOVE_MERGE;
		}
		take_content(slot, out);
		slot->urgency = 0;
		out->event = EVENT_COMPLETED;
		out->leaves = LEAVES_COMPLETE;
		return MOVE_JOIN;
	}
	if (!taken) {
		put_content(slot, e, r);
		out->event = EVENT_CLAIMED;
		return MOVE_STORE;
	}
	/* One id of two jobs is a coincidence that nothing can be made of: the P4
	 * programs know a content by its id before they know its tag. */
	bool contested = slot->id != r->id && !r->first_come;

	/* A packet never grows, and what leaves must have come whole. */
	if (contested && r->urgency - slot->urgency > MARGIN && slot->elems == e->count) {
		take_content(slot, out);
		put_content(slot, e, r);
		out->event = EVENT_PREEMPTS;
		return MOVE_SWAP;
	}
	out->event = EVENT_SPILLED;
	out->leaves = LEAVES_AS_IT_CAME;
	if (contested) {
		slot->urgency -= AGE;
		if (slot->urgency <= 0) {
			slot->urgency = 0;
			out->worn_out = true;
			out->tag = slot->tag;
		}
	}
	return MOVE_NONE;
}

/* DATA that may not rest takes along what there is of its chunk. */
static __always_inline enum move take_along(struct slot *slot, const struct elements *e, const struct request *r,
					    struct outcome *out)
{
	out->event = EVENT_PASSED;
	out->leaves = LEAVES_AS_IT_CAME;
	if (slot->urgency == 0 || slot->id != r->id)
		return MOVE_NONE;
	if (slot->tag != r->tag) {
		slot->urgency = 0;
		return MOVE_NONE;
	}
	if (!fits(slot, e, r)) {
		out->event = EVENT_MISMATCH;
		return MOVE_NONE;
	}
	slot->urgency = 0;
	out->flags |= r->mark;
	take_content(slot, out);
	out->event = EVENT_RESEND_EVICTED;
	if (!(slot->bitmap & r->bitmap)) {
		out->bitmap |= r->bitmap;
		return MOVE_JOIN;
	}
	if (r->bitmap & ~slot->bitmap)
		out->event = EVENT_OVERLAP;
	return MOVE_SWAP;
}

/* out->flags is what the packet's own flags give to what leaves. */
static __always_inline void visit_slot(struct slot *slot, const struct elements *e, const struct request *r, bool rests,
				       struct outcome *out)
{
	enum move move;
	bool overflow = false;

	bpf_spin_lock(&slot->lock);
	move = rests ? contest(slot, e, r, out) : take_along(slot, e, r, out);
	switch (move) {
	case MOVE_NONE:
		break;
	case MOVE_STORE:
		elements_store(e);
		break;
	case MOVE_MERGE:
		overflow = elements_merge(e, r->op);
		break;
	case MOVE_JOIN:
		overflow = elements_join(e, r->op, &out->words);
		break;
	case MOVE_SWAP:
		elements_swap(e);
		break;
	}
	if (overflow) {
		slot->flags |= WIRE_SATURATED;
		out->flags |= WIRE_SATURATED;
		out->saturated = true;
	}
	bpf_spin_unlock(&slot->lock);
}

/* RESULT: its chunk needs no slot any more. */
static __always_inline bool free_slot(struct slot *slot, __u32 id)
{
	bool freed = false;

	bpf_spin_lock(&slot->lock);
	if (slot->urgency != 0 && slot->id == id) {
		slot->urgency = 0;
		freed = true;
	}
	bpf_spin_unlock(&slot->lock);
	return freed;
}
