/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* One packet through the aggregator: membership, job, slot, answer. The rules
 * are those of docs/protocol.md, section 3, in the same order. */
#pragma once

#include "answer.h"
#include "counters.h"
#include "elements.h"
#include "hold.h"
#include "lateness.h"
#include "member.h"
#include "parse.h"
#include "quorum.h"
#include "tree.h"

/* What the slot made of a packet: an enum counter and these. */
#define VERDICT_EVENT 0xff
#define VERDICT_ABANDONED (1 << 8) /* the old content was not complete */
#define VERDICT_SATURATED (1 << 9) /* this merge left the int32 range */
#define VERDICT_PUBLISH (1 << 10)  /* the packet's elements are the RESULT now, for all */
#define VERDICT_EMITTED (1 << 11)  /* likewise, for all or for the sender alone */
#define VERDICT_DUE (1 << 12)      /* the deadline of its chunk is over */
#define VERDICT_RELEASED (1 << 13) /* the sum was released without everybody */
#define VERDICT_RESEND (1 << 14)   /* DATA would be answered with the RESULT */
#define VERDICT_SUM (1 << 15)      /* the packet's elements are the sum now, for the parent */

struct outcome {
	__u32 verdict;
	__u8 flags;  /* the slot's */
	__be16 place; /* likewise */
	__u64 have;  /* the slot's bitmap, if it is of this chunk */
	__u64 age;   /* since the slot was claimed, in jiffies */
	__u64 words; /* of the elements put into the packet, for the checksum */
};

/* The payload of a slot and how many elements it has room for. */
static __always_inline void *payload_of(const struct job *job, __u32 offset, __u32 *capacity)
{
	__u32 index = job->payload_base + offset;

	switch (job->class) {
	case CLASS_32:
		*capacity = 32;
		return bpf_map_lookup_elem(&payload_32_map, &index);
	case CLASS_64:
		*capacity = 64;
		return bpf_map_lookup_elem(&payload_64_map, &index);
	case CLASS_256:
		*capacity = 256;
		return bpf_map_lookup_elem(&payload_256_map, &index);
	case CLASS_832:
		*capacity = 832;
		return bpf_map_lookup_elem(&payload_832_map, &index);
	}
	return NULL;
}

/* WIRE_ECN when the packet met congestion (CE: both ECN bits). Without a branch,
 * which would double what the verifier explores. */
static __always_inline __u8 congestion_mark(const struct frame *f)
{
	__u8 tos = *(volatile __u8 *)&ip_of(f)->tos;

	return (tos & tos >> 1 & 1) << 3;
}

/* Everything that changes a slot is in this function; its caller holds the slot.
 *
 * The verdict goes by way of the slot's memory, so that the verifier forgets
 * which branch made it: the loops are explored once for each class of slots and
 * not for each branch besides. */
static __always_inline struct outcome visit_slot(struct slot *slot, const struct job *job,
						 const struct elements *e, __u32 elems,
						 __u32 tenant, __u64 now, __u32 terms, __u64 absent)
{
	struct outcome out = {};
	const struct frame *f = e->frame;
	__u64 bitmap = wire_bitmap(wire_of(f));
	__u32 seq = bpf_ntohl(wire_of(f)->seq);
	__u8 op = wire_of(f)->op;
	__u8 flags = wire_of(f)->flags & (WIRE_SATURATED | WIRE_PARTIAL | WIRE_ECN);
	bool store = false, merge = false, rebase = false;
	__u64 distance = narrow(job->bound), taken = 0, back = 0;
	__u32 verdict;

	flags |= congestion_mark(f);
	if (terms & TERM_ABOVE) /* the parent's RESULT has this level's bits here */
		bitmap = job->full;

	bool present = slot->tenant == tenant;
	__s32 ahead = seq - slot->seq;

	if (wire_of(f)->type == WIRE_DATA) {
		if (held_back(terms, present, ahead)) {
			verdict = COUNT_LAGGING;
		} else if (!present || ahead > 0) {
			verdict = COUNT_CLAIMED;
			if (present && !slot->complete)
				verdict |= VERDICT_ABANDONED;
			slot->claimed = now;
			store = true;
		} else if (ahead < 0) {
			verdict = COUNT_STALE;
		} else if (slot->op != op || slot->elems != elems) {
			verdict = COUNT_MISMATCH;
		} else if (slot->complete) {
			verdict = COUNT_RESULT_RESENT | VERDICT_EMITTED;
		} else if (summed(slot, job, terms)) {
			verdict = COUNT_END | VERDICT_SUM | VERDICT_EMITTED;
		} else if (!(slot->bitmap & bitmap)) {
			verdict = COUNT_MERGED;
			merge = true;
		} else if (!(bitmap & ~slot->bitmap)) {
			verdict = COUNT_PENDING;
		} else if (!(slot->bitmap & ~bitmap)) {
			verdict = COUNT_REPLACED;
			store = true;
		} else {
			verdict = COUNT_OVERLAP;
		}
	} else if ((!present || ahead > 0) && (terms & TERM_ABOVE)) {
		/* Nothing of it is here; the children may wait for it all the same. */
		verdict = COUNT_RESTORED;
		if (present && !slot->complete)
			verdict |= VERDICT_ABANDONED;
		slot->claimed = now;
		store = true;
	} else if (!present || ahead > 0) {
		/* A RESULT nobody asked for, or a PROBE of what is not here. */
		verdict = wire_of(f)->type == WIRE_RESULT	? (terms & TERM_INNER ? COUNT_RETURNED_UP : COUNT_UNSOLICITED)
			  : held_back(terms, present, ahead) ? COUNT_LAGGING
							     : COUNT_PENDING;
	} else if (ahead < 0) {
		verdict = COUNT_STALE;
	} else if (wire_of(f)->type == WIRE_PROBE) {
		verdict = slot->complete		  ? COUNT_PENDING
			  : summed(slot, job, terms) ? COUNT_ASKED_UP
						     : COUNT_SOLICITED;
		if (job->quorum && (slot->complete ? slot->bitmap != job->full : due(slot, job, now, terms, absent)))
			verdict = COUNT_PENDING | VERDICT_RESEND;
	} else if (slot->op != op || slot->elems != elems) {
		verdict = COUNT_MISMATCH;
	} else if (slot->complete) {
		verdict = (terms & (TERM_INNER | TERM_ABOVE)) == TERM_INNER ? COUNT_RETURNED_UP : COUNT_DUPLICATE_RESULT;
	} else {
		verdict = COUNT_RESTORED;
		store = true;
	}
	/* With this packet or without it: what is over can be published in it. */
	if (wire_of(f)->type == WIRE_DATA && present && !ahead && verdict != COUNT_MISMATCH &&
	    overdue(slot, job, now, terms, absent, verdict == COUNT_OVERLAP ? slot->bitmap : slot->bitmap | bitmap))
		verdict |= VERDICT_DUE;
	else if (wire_of(f)->type == WIRE_DATA && store && awaited(job, terms, absent, bitmap) == 0)
		verdict |= VERDICT_DUE; /* claimed just now */
	slot->verdict = verdict;

	if (store) {
		slot->seq = seq;
		slot->tenant = tenant;
		slot->op = op;
		slot->elems = elems;
		slot->bitmap = bitmap;
		slot->flags = flags;
		slot->complete = 0;
		slot->addends = 1;
		if (!(terms & TERM_ABOVE))
			slot->place = wire_of(f)->slot;
		else if (!present || ahead)
			slot->place = 0xffff; /* no child has named one */
		slot->wide = op != WIRE_SUM;
		distance &= (__u64)slot->wide - 1;
		back = distance;
		rebase = outside(elements_store(e, distance), job->bound) & !slot->wide;
	} else if (merge) {
		slot->bitmap |= bitmap;
		slot->flags |= flags;
		if (op != WIRE_SUM) {
			elements_max(e, op == WIRE_MIN ? ~0ull : 0);
		} else if (!slot->wide) {
			taken = ~0ull;
			back = widen(job->bound, slot->addends);
			rebase = outside(elements_add(e, distance), job->bound);
			slot->addends++;
		}
	}
	if (rebase) {
		elements_rebase(e, distance, taken, back);
		slot->wide = 1;
	}
	barrier();
	if (merge && op == WIRE_SUM && slot->wide && elements_add_clamped(e)) {
		slot->flags |= WIRE_SATURATED;
		slot->verdict |= VERDICT_SATURATED;
	}
	barrier();
	if (store || merge) {
		verdict = slot->verdict;
		/* A restored RESULT is final also when it is PARTIAL. */
		if ((verdict & VERDICT_EVENT) == COUNT_RESTORED || (slot->bitmap == job->full && !(terms & TERM_INNER))) {
			slot->complete = 1;
			slot->verdict = verdict | VERDICT_PUBLISH | VERDICT_EMITTED;
		} else if (slot->bitmap == job->full) {
			slot->verdict = verdict | VERDICT_SUM | VERDICT_EMITTED;
		}
	}
	barrier();
	if ((slot->verdict & VERDICT_DUE) && !slot->complete && !(terms & TERM_INNER) && ranks_in(slot->bitmap) >= job->quorum) {
		slot->complete = 1;
		slot->flags |= WIRE_PARTIAL;
		slot->verdict |= VERDICT_RELEASED | VERDICT_PUBLISH | VERDICT_EMITTED;
	}
	barrier();
	if (slot->verdict & VERDICT_EMITTED)
		out.words = elements_emit(e, widen(job->bound, slot->addends) & ((__u64)slot->wide - 1));
	out.verdict = slot->verdict;
	out.flags = slot->flags;
	out.place = slot->place;
	out.age = now - slot->claimed;
	if (slot->tenant == tenant && slot->seq == seq)
		out.have = slot->bitmap;
	return out;
}

static __always_inline int aggregate(struct xdp_md *ctx)
{
	struct frame *f;

	switch (parse(ctx, &f)) {
	case PARSED_FOREIGN:
		return XDP_PASS;
	case PARSED_TO_ITSELF: /* a home is no member of its jobs */
		return drop_jobless(COUNT_NOT_MEMBER);
	case PARSED_TRUNCATED:
		return drop_jobless(COUNT_BAD_LENGTH);
	case PARSED_WHOLE:
		break;
	}

	__u8 type = wire_of(f)->type;
	__u32 elems = bpf_ntohs(wire_of(f)->elems);

	if (wire_of(f)->version != WIRE_VERSION)
		return drop_jobless(COUNT_BAD_VERSION);

	/* A parent's packets have its name for the job. */
	const struct below *below = NULL;

	if (type != WIRE_DATA && type != WIRE_PROBE) {
		below = node_below(f);
		if (type != WIRE_RESULT && (!below || (type != WIRE_SOLICIT && type != WIRE_PENDING)))
			return drop_jobless(COUNT_BAD_TYPE);
	}
	if (wire_of(f)->flags & ~WIRE_KNOWN_FLAGS)
		return drop_jobless(COUNT_BAD_FLAGS);
	if (wire_of(f)->op > WIRE_MIN)
		return drop_jobless(COUNT_BAD_OP);
	if ((type >= WIRE_SOLICIT) != (elems == 0) || elems > WIRE_MAX_ELEMENTS)
		return drop_jobless(COUNT_BAD_ELEMS);
	if (bpf_ntohs(udp_of(f)->len) != sizeof(struct udphdr) + sizeof(struct wire_header) + elems * 4)
		return drop_jobless(COUNT_BAD_LENGTH);

	__u32 id = (below ? below->job : bpf_ntohs(wire_of(f)->job)) & 0xffff;
	struct job *job = bpf_map_lookup_elem(&jobs, &id);

	/* The program has ports of several kinds: a ToR vouches for the senders of packets to some of them, and lets
	 * those to others through unseen. A packet to another port than the job's would not have been seen by its ToR. */
	if (!job || !job->active ||
	    (!below && (ip_of(f)->daddr != job->home ||
			(__u16)(bpf_ntohs(udp_of(f)->dest) - bpf_ntohs(job->home_port)) >= job->home_ports)))
		return drop_jobless(COUNT_UNKNOWN_JOB);

	struct job_counters *c = bpf_map_lookup_elem(&counters, &id);

	if (!c)
		return XDP_DROP;

	__u32 tenant = tenant_of(id, job->generation);
	__u64 bitmap = wire_bitmap(wire_of(f));
	const struct member *member;
	__u32 above; /* TERM_ABOVE or 0; the verifier knows it in neither case */

	if (below) {
		__u32 refused = check_above(ctx, id);

		if (refused == COUNT_UNKNOWN_JOB)
			return drop_jobless(COUNT_UNKNOWN_JOB);
		if (refused < COUNT_END)
			return drop(c, refused);
		if (type != WIRE_RESULT)
			return descend(ctx, id);
		member = &below->as;
		above = below->terms;
	} else {
		if (wire_of(f)->generation != job->generation)
			return drop(c, COUNT_BAD_GENERATION);
		if (bpf_ntohl(wire_of(f)->cookie) != job->cookie)
			return drop(c, COUNT_BAD_COOKIE);
		if (elems > job->elements)
			return drop(c, COUNT_BAD_ELEMS);

		member = member_of(id, job, tenant, ip_of(f)->saddr);
		if (!member)
			return drop(c, COUNT_NOT_MEMBER);
		/* A RESULT carries everybody's bits; short of that it must say so, and not in a tree. */
		if (type == WIRE_RESULT ? (bitmap != job->full && (!(wire_of(f)->flags & WIRE_PARTIAL) ||
								   (bitmap & ~job->full) || job->inner))
					: (bitmap & ~member->bits) != 0)
			return drop(c, COUNT_BAD_BITMAP);
		if (!bitmap)
			return drop(c, COUNT_BAD_BITMAP);
		above = job->zero;
	}

	__u64 bits = member->bits;
	__u32 index = member->index, rank = member->rank;
	__u32 offset = bpf_ntohl(wire_of(f)->seq) & job->ring_mask;
	__u32 slot_index = job->slot_base + offset;
	struct slot *slot = bpf_map_lookup_elem(&slots, &slot_index);
	struct elements e = {
		.frame = f,
		.data_end = (void *)(long)ctx->data_end,
		.zero = job->zero,
	};

	e.payload = payload_of(job, offset, &e.capacity);
	if (!slot || !e.payload || elems > e.capacity || index >= MAX_MEMBERS)
		return drop(c, COUNT_INTERNAL);

	/* No call: the kernel puts a load of its tick count in its place. */
	__u64 now = bpf_jiffies64();

	__u32 terms = job->inner | above;

	if (!(terms & TERM_ABOVE)) {
		c->member[index].packets++;
		c->member[index].last = now;
	}
	count(c, type == WIRE_DATA ? COUNT_DATA : type == WIRE_RESULT ? COUNT_RESULT : COUNT_PROBE);

	__u64 absent = 0;
	__u32 seq = bpf_ntohl(wire_of(f)->seq);

	if (job->quorum) {
		struct job_progress *p = bpf_map_lookup_elem(&progress, &id);

		if (!p)
			return drop(c, COUNT_INTERNAL);
		if (simulated_clock)
			now = p->clock;
		terms |= terms_of(p, slot, bits, rank, id, tenant, seq, type, bitmap);
		if (type != WIRE_RESULT)
			note_present(p, job, bitmap, seq);
		absent = *(volatile __u64 *)&p->absent;
	}

	if (!hold(slot, slot_index))
		return drop(c, COUNT_CONTENDED);

	struct outcome out = visit_slot(slot, job, &e, elems, tenant, now, terms, absent);

	let_go(slot);

	__u32 event = out.verdict & VERDICT_EVENT;

	bool late = event == COUNT_RESULT_RESENT && job->quorum && (bitmap & ~out.have);
	bool aggregates = bits & (bits - 1);

	/* A worker's contribution to a chunk; also to one released before, which is the latest there is. A ToR's sum of all says
	 * of nobody that he was late, and of one that took the place of what was there, some ranks were there. */
	if (event == COUNT_CLAIMED || event == COUNT_MERGED || late) {
		__u64 age = (__s64)out.age > 0 ? out.age : 0;

		if (!aggregates && !age)
			c->member[index].prompt++;
		else if (!aggregates)
			note_late(id, rank, age);
		else if (late || bitmap != job->full)
			note_late_sum(id, late ? bitmap & ~out.have : bitmap, age);
	}
	if (out.verdict & VERDICT_RELEASED) {
		count(c, COUNT_RELEASED);
		note_without(id, job->full & ~out.have);
		note_absent(id, job->full & ~out.have, seq);
		if (event == COUNT_PENDING || event == COUNT_OVERLAP)
			event = COUNT_END; /* it was no more than an occasion */
	}
	if (event < COUNT_END)
		count(c, event);
	if (congestion_mark(f))
		count(c, COUNT_ECN);
	if (out.verdict & VERDICT_ABANDONED)
		count(c, COUNT_ABANDONED);
	if (out.verdict & VERDICT_SATURATED)
		count(c, COUNT_SATURATED);

	bool resend = wire_of(f)->flags & WIRE_RESEND;
	/* Whose RESEND a ToR made its own, by taking along what it held, is not
	 * known here: the answer is for all. */
	bool adopted = resend && aggregates;

	if ((out.verdict & VERDICT_SUM) || event == COUNT_ASKED_UP || event == COUNT_RETURNED_UP) {
		if (out.verdict & VERDICT_SUM)
			count(c, COUNT_SENT_UP);
		else
			out.flags = wire_of(f)->flags & (WIRE_SATURATED | WIRE_ECN);
		return send_up(ctx, id, rank, out.flags);
	}
	if ((terms & TERM_ABOVE) && (out.verdict & VERDICT_EMITTED)) {
		count(c, COUNT_PUBLISHED);
		return publish_below(ctx, id, out.flags, out.place, out.words);
	}
	if (out.verdict & VERDICT_EMITTED) {
		bool to_all = (out.verdict & VERDICT_PUBLISH) || adopted;

		if (out.verdict & VERDICT_PUBLISH) {
			count(c, COUNT_PUBLISHED);
			if (job->quorum && out.have == job->full)
				note_full(id, seq, job->window, event != COUNT_RESTORED);
		} else if (late) {
			count(c, COUNT_LATE);
		}
		if (to_all)
			address_all(f, job);
		else
			address_sender(f);
		make_result(f, out.have, out.flags, out.words);
		return to_all ? send_all(job) : XDP_TX;
	}

	bool changed = event == COUNT_CLAIMED || event == COUNT_MERGED || event == COUNT_REPLACED;
	bool solicit = event == COUNT_SOLICITED || (resend && (changed || event == COUNT_OVERLAP)) ||
		       (adopted && event == COUNT_PENDING);

	if (!solicit && event != COUNT_PENDING && event != COUNT_LAGGING)
		return XDP_DROP;
	if (event == COUNT_LAGGING)
		out.have = beyond_of(id);
	f = make_short(ctx, elems * 4, solicit ? WIRE_SOLICIT : WIRE_PENDING, out.have);
	if (!f)
		return drop(c, COUNT_INTERNAL);
	if (event == COUNT_LAGGING)
		wire_of(f)->flags = WIRE_PARTIAL;
	else if (out.verdict & VERDICT_RESEND)
		wire_of(f)->flags = WIRE_RESEND;
	if (solicit) {
		if (event != COUNT_SOLICITED)
			count(c, COUNT_SOLICITED);
		address_all(f, job);
	} else {
		address_sender(f);
	}
	finish_ip(ip_of(f));
	return solicit ? send_all(job) : XDP_TX;
}
