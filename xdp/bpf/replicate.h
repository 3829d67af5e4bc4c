/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Where the fabric has no multicast: one copy of a RESULT or SOLICIT to each
 * worker. The XDP program makes the packet out from the home to itself, and
 * passes it up to this program at tc ingress. Nothing of the kind comes from the
 * wire: the XDP program drops it (to_itself in parse.h) unless a VLAN tag hides
 * it, which the kernel has taken off here, but remembers. */
#pragma once

#include <linux/pkt_cls.h>

#include "maps.h"
#include "parse.h"

#define OFFSET_OF(at, header, field) ((at) + __builtin_offsetof(struct header, field))

static __always_inline int replicate(struct __sk_buff *skb)
{
	if (bpf_skb_pull_data(skb, FRAME_SIZE))
		return TC_ACT_OK;

	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct frame *f = data;

	if (data + FRAME_SIZE > data_end)
		return TC_ACT_OK;
	if (skb->vlan_present || !to_itself(f))
		return TC_ACT_OK;

	__u32 id = bpf_ntohs(wire_of(f)->job);
	const struct job *job = bpf_map_lookup_elem(&jobs, &id);

	if (!job || !job->active || job->group || ip_of(f)->daddr != job->home ||
	    udp_of(f)->source != job->home_port)
		return TC_ACT_OK;

	__be32 addr = job->home;
	__be16 port = job->worker_port;
	bool checksum = udp_of(f)->check != 0;
	__u32 copies = job->replicas;

	for (__u32 i = 0; i < 64 && i < copies; i++) {
		__u32 index = id * 64 + i;
		const struct replica *to = bpf_map_lookup_elem(&replicas, &index);

		if (!to)
			break;
		if (bpf_l3_csum_replace(skb, OFFSET_OF(IP_AT, iphdr, check), addr, to->addr, 4))
			break;
		if (checksum && bpf_l4_csum_replace(skb, OFFSET_OF(UDP_AT, udphdr, check), addr, to->addr,
						    BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0 | 4))
			break;
		if (checksum && to->port != port &&
		    bpf_l4_csum_replace(skb, OFFSET_OF(UDP_AT, udphdr, check), port, to->port, BPF_F_MARK_MANGLED_0 | 2))
			break;
		addr = to->addr;
		port = to->port;
		if (bpf_skb_store_bytes(skb, OFFSET_OF(IP_AT, iphdr, daddr), &addr, 4, 0) ||
		    bpf_skb_store_bytes(skb, OFFSET_OF(UDP_AT, udphdr, dest), &port, 2, 0) ||
		    bpf_skb_store_bytes(skb, OFFSET_OF(0, ethhdr, h_dest), to->mac, ETH_ALEN, 0))
			break;
		/* A failed copy is a lost packet, which the worker will ask for again. */
		bpf_clone_redirect(skb, to->ifindex, 0);
	}
	return TC_ACT_SHOT;
}
