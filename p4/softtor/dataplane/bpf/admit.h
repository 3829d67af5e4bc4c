/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* From a frame to an admitted Spillway packet: who may say what. Nothing here
 * changes anything but counters. */
#pragma once

#include "tables.h"

/* Nothing but homes' ports lies in it. */
#define PORT_BLOCK 9696
#define PORT_BLOCK_MASK 0xffe0

static __always_inline bool in_block(__be16 port)
{
	return (port & bpf_htons(PORT_BLOCK_MASK)) == bpf_htons(PORT_BLOCK);
}

/* Whether an IPv4 packet is Spillway's. Packets with options and fragments are
 * not: nobody who follows the protocol sends them. */
static __always_inline bool is_spillway(const struct frame *f, const void *data_end)
{
	if ((void *)f + WIRE_AT > data_end)
		return false;
	return ip_of(f)->version == 4 && ip_of(f)->ihl == 5 && !(ip_of(f)->frag_off & bpf_htons(0x3fff)) &&
	       ip_of(f)->protocol == IPPROTO_UDP && (in_block(udp_of(f)->dest) || in_block(udp_of(f)->source));
}

/* Whether the header is one of this version, all there, and as long as it says. */
static __always_inline bool header_holds(const struct frame *f, const void *data_end)
{
	if ((void *)f + FRAME_SIZE > data_end)
		return false;

	const struct wire_header *h = wire_of(f);
	__u32 elems = bpf_ntohs(h->elems);
	__u32 length = sizeof(struct udphdr) + sizeof(struct wire_header) + elems * 4;
	bool carries = h->type == WIRE_DATA || h->type == WIRE_RESULT;

	return h->version == WIRE_VERSION && h->type >= WIRE_DATA && h->type <= WIRE_PROBE &&
	       !(h->flags & ~WIRE_KNOWN_FLAGS) && h->op <= WIRE_MIN && carries == (elems != 0) &&
	       elems <= WIRE_MAX_ELEMENTS && bpf_ntohs(udp_of(f)->len) == length &&
	       bpf_ntohs(ip_of(f)->tot_len) == length + sizeof(struct iphdr) &&
	       (void *)udp_of(f) + length == data_end;
}

/* What a role may send, a bit for each type. */
static __always_inline __u32 types_of(__u32 role)
{
	switch (role) {
	case ROLE_WORKER:
		return 1 << WIRE_DATA | 1 << WIRE_RESULT | 1 << WIRE_PROBE;
	case ROLE_HOME:
		return 1 << WIRE_RESULT | 1 << WIRE_SOLICIT | 1 << WIRE_PENDING;
	case ROLE_ECHO:
		return 1 << WIRE_RESULT;
	}
	return 0;
}

static __always_inline bool bitmap_holds(const struct wire_header *h, const struct member *m)
{
	__u64 bitmap = wire_bitmap(h);

	switch (h->type) {
	case WIRE_DATA:
	case WIRE_PROBE:
		return bitmap && !(bitmap & ~m->bits);
	case WIRE_RESULT:
		return bitmap;
	}
	return true;
}

/* Fills in the job and the member, or counts why not. */
static __always_inline bool admit(const struct frame *f, const void *data_end, __u32 port, const struct tenant **t,
				  const struct member **m)
{
	if (!header_holds(f, data_end)) {
		count_event(0, EVENT_BAD_HEADER);
		return false;
	}

	const struct wire_header *h = wire_of(f);
	__u32 job = bpf_ntohs(h->job);

	*t = bpf_map_lookup_elem(&tenants, &job);
	if (!*t || !(*t)->present) {
		count_event(0, EVENT_UNKNOWN_JOB);
		return false;
	}

	__u8 index = (*t)->index;

	if (h->generation != (*t)->generation) {
		count_event(index, EVENT_STALE);
		return false;
	}
	if (bpf_ntohl(h->cookie) != (*t)->cookie) {
		count_event(index, EVENT_BAD_COOKIE);
		return false;
	}

	struct member_key key = { .addr = ip_of(f)->saddr, .port = port, .job = job };

	*m = bpf_map_lookup_elem(&members, &key);
	if (!*m || (*m)->role == ROLE_STRANGER) {
		count_event(index, EVENT_NOT_MEMBER);
		return false;
	}
	count_traffic(&member_traffic, (*m)->traffic, data_end - (void *)f);
	if (!(types_of((*m)->role) & 1 << h->type)) {
		count_event(index, EVENT_BAD_DIRECTION);
		return false;
	}
	if (!bitmap_holds(h, *m)) {
		count_event(index, EVENT_BAD_BITMAP);
		return false;
	}
	return true;
}
