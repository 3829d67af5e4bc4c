/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* One frame through the ToR. */
#pragma once

#include "admit.h"
#include "send.h"

static __always_inline enum region_mode region_of(const struct tenant *t, __u16 slot)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < MAX_REGIONS; i++) {
		const struct region *r = &t->regions[i];

		if (!r->mode)
			break;
		if ((slot & r->mask) == r->value)
			return r->mode;
	}
	return REGION_NONE;
}

/* WIRE_ECN when the packet met congestion (CE: both ECN bits), or the header says so. */
static __always_inline __u8 congestion_mark(const struct frame *f)
{
	__u8 tos = ip_of(f)->tos;

	return ((tos & tos >> 1 & 1) << 3) | (wire_of(f)->flags & WIRE_ECN);
}

static __always_inline struct decision handle_data(struct frame *f, void *data_end, const struct tenant *t,
						   const struct member *m)
{
	const struct wire_header *h = wire_of(f);
	__u32 index = bpf_ntohs(h->slot);
	enum region_mode mode = region_of(t, index);

	if (mode == REGION_NONE) {
		count_event(t->index, index == 0xffff ? EVENT_PASSED : EVENT_BAD_SLOT);
		return forward_ip(f, data_end);
	}

	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	struct elements e = {
		.frame = f,
		.data_end = data_end,
		.payload = bpf_map_lookup_elem(&payloads, &index),
		.count = bpf_ntohs(h->elems),
	};

	if (!slot || !e.payload || e.count > slot_elements || e.count % BLOCK) {
		count_event(t->index, EVENT_PASSED);
		return forward_ip(f, data_end);
	}

	struct request r = {
		.bitmap = wire_bitmap(h),
		.full = m->full,
		.id = bpf_ntohl(h->seq) ^ t->key,
		.tag = tag_of(h),
		.urgency = (__s32)h->priority << PRIORITY_SHIFT,
		.op = h->op,
		.mark = congestion_mark(f),
		.first_come = mode == REGION_FIRST_COME,
	};
	bool rests = r.urgency > 0 && !(h->flags & (WIRE_RESEND | WIRE_SATURATED | WIRE_PARTIAL)) &&
		     r.bitmap == m->bits;
	struct outcome out = { .flags = rests ? 0 : h->flags };

	visit_slot(slot, &e, &r, rests, &out);
	count_event(t->index, out.event);
	const struct tenant *owner = t;

	if (out.leaves == LEAVES_PARTIAL || out.worn_out) {
		__u32 job = out.tag >> 16;

		owner = bpf_map_lookup_elem(&tenants, &job);
		if (out.event != EVENT_RESEND_EVICTED && out.event != EVENT_OVERLAP && owner && owner->uplink.present)
			count_in(&preempted, owner->uplink.index);
	}
	switch (out.leaves) {
	case LEAVES_AS_IT_CAME:
		return forward_ip(f, data_end);
	case LEAVES_COMPLETE:
		if (out.saturated)
			count_in(&saturated, t->index);
		return publish_sum(f, &t->publish, &out);
	case LEAVES_PARTIAL:
		/* Without an uplink the partial sum is lost, as in a reboot. */
		if (!owner || !owner->uplink.present)
			break;
		if (out.saturated)
			count_in(&saturated, owner->uplink.index);
		return send_up(f, &owner->uplink, &out);
	}
	return decide(KIND_DROP, 0);
}

static __always_inline struct decision handle_result(struct frame *f, void *data_end, const struct tenant *t,
						     const struct member *m)
{
	__u32 index = bpf_ntohs(wire_of(f)->slot);
	bool freed = false;

	if (region_of(t, index) != REGION_NONE) {
		struct slot *slot = bpf_map_lookup_elem(&slots, &index);

		if (slot)
			freed = free_slot(slot, bpf_ntohl(wire_of(f)->seq) ^ t->key);
	}
	count_event(t->index, freed ? EVENT_FREED : EVENT_FORWARDED);
	if (m->role == ROLE_ECHO)
		return decide(KIND_DROP, 0);
	return forward_ip(f, data_end);
}

static __always_inline struct decision pipeline(struct xdp_md *ctx, __u32 port)
{
	void *data_end = (void *)(long)ctx->data_end;
	struct frame *f = (void *)(long)ctx->data;
	const struct tenant *t;
	const struct member *m;

	if ((void *)f + IP_AT > data_end)
		return decide(KIND_DROP, 0);
	if (eth_of(f)->h_proto != bpf_htons(ETH_P_IP))
		return bridge_frame(f);
	if ((void *)f + UDP_AT > data_end)
		return decide(KIND_DROP, 0);
	if (!is_spillway(f, data_end))
		return forward_ip(f, data_end);
	if (!admit(f, data_end, port, &t, &m))
		return decide(KIND_DROP, 0);
	/* For the verifier, which does not see that admit made sure of it. */
	if ((void *)f + FRAME_SIZE > data_end)
		return decide(KIND_DROP, 0);
	switch (wire_of(f)->type) {
	case WIRE_DATA:
		return handle_data(f, data_end, t, m);
	case WIRE_RESULT:
		return handle_result(f, data_end, t, m);
	}
	count_event(t->index, EVENT_FORWARDED);
	return forward_ip(f, data_end);
}
