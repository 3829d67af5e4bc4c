// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/* Injected faults: loss, duplication, reordering and congestion marks at a
 * switch port of a rack. See faults.go for how it is attached.
 *
 * Dice are thrown once for each packet and side. A packet that this program puts back into the
 * network (a duplicate, one that comes back from its detour) meets it again at the same
 * hook, so it carries a mark that says: already decided.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Probabilities in units of 2^-32, set at load. */
volatile const __u32 loss_threshold;
volatile const __u32 duplicate_threshold;
volatile const __u32 reorder_threshold;
volatile const __u32 ecn_threshold;
/* TCP meets the dice too. */
volatile const bool with_tcp;

/* From the port's worker to the switch, and back: tc ingress and egress. */
enum side { SIDE_UPLINK, SIDE_DOWNLINK, SIDE_COUNT };

enum event {
	EVENT_PACKETS, /* that met the dice */
	EVENT_DROPPED,
	EVENT_DUPLICATED,
	EVENT_REORDERED, /* sent on the detour */
	EVENT_RETURNED,  /* came back from it; the difference was lost there */
	EVENT_MARKED,
	EVENT_FAILED, /* a helper refused; the packet went its way untouched */
	EVENT_COUNT,
};

/* Make the enums part of the types that bpf2go exports. */
const enum side *unused_side __attribute__((unused));
const enum event *unused_event __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, SIDE_COUNT * EVENT_COUNT);
} counters SEC(".maps");

/* The detour of a port: its ifindex → the near end of a veth pair whose queue
 * is slow and whose far end has the program faults_return. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 64);
} detours SEC(".maps");

/* skb->mark of a packet that was decided: the port in the low bits, so that
 * faults_return knows where it belongs. It does not outlive the namespace. */
#define MARK_DECIDED (1U << 31)
#define MARK_UPLINK (1U << 30)
#define MARK_FILLER (1U << 29)
#define MARK_PORT ((1U << 29) - 1)

static __always_inline void count(enum side side, enum event event)
{
	__u32 key = side * EVENT_COUNT + event;
	__u64 *n = bpf_map_lookup_elem(&counters, &key);

	if (n)
		*n += 1;
}

static __always_inline bool happens(__u32 threshold)
{
	return threshold && bpf_get_prandom_u32() < threshold;
}

static __always_inline bool plays(struct __sk_buff *skb)
{
	__u8 protocol;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return false;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct iphdr, protocol), &protocol, 1))
		return false;
	return protocol == IPPROTO_UDP || (with_tcp && protocol == IPPROTO_TCP);
}

/* Sends the packet on its port's detour, behind a filler of the same size that
 * empties the detour's token bucket. Without it a lone packet would
 * find a full bucket and not be late at all. */
static __always_inline int detour(struct __sk_buff *skb, enum side side, __u32 mark)
{
	__u32 port = skb->ifindex;
	__u32 *near = bpf_map_lookup_elem(&detours, &port);

	if (!near) {
		count(side, EVENT_FAILED);
		return TC_ACT_OK;
	}
	skb->mark = mark | MARK_FILLER;
	if (bpf_clone_redirect(skb, *near, 0))
		count(side, EVENT_FAILED);
	skb->mark = mark;
	count(side, EVENT_REORDERED);
	return bpf_redirect(*near, 0);
}

static __always_inline int decide(struct __sk_buff *skb, enum side side)
{
	__u32 mark = MARK_DECIDED | skb->ifindex;

	if (side == SIDE_UPLINK)
		mark |= MARK_UPLINK;
	if (skb->mark & MARK_DECIDED) {
		/* On to the next port, where it is new. */
		skb->mark = 0;
		return TC_ACT_OK;
	}
	if (!plays(skb))
		return TC_ACT_OK;
	count(side, EVENT_PACKETS);
	if (happens(loss_threshold)) {
		count(side, EVENT_DROPPED);
		return TC_ACT_SHOT;
	}
	if (happens(ecn_threshold)) {
		/* The copies of a multicast packet share their bytes; this one gets its own. Then the
		 * mark is refused for a packet that is not ECN-capable, and for nothing else. */
		bpf_skb_pull_data(skb, ETH_HLEN + sizeof(struct iphdr));
		if (bpf_skb_ecn_set_ce(skb))
			count(side, EVENT_MARKED);
		else
			count(side, EVENT_FAILED);
	}
	if (happens(duplicate_threshold)) {
		skb->mark = mark;
		if (bpf_clone_redirect(skb, skb->ifindex, side == SIDE_UPLINK ? BPF_F_INGRESS : 0))
			count(side, EVENT_FAILED);
		else
			count(side, EVENT_DUPLICATED);
		skb->mark = 0;
	}
	if (happens(reorder_threshold))
		return detour(skb, side, mark);
	return TC_ACT_OK;
}

SEC("tc")
int faults_uplink(struct __sk_buff *skb)
{
	return decide(skb, SIDE_UPLINK);
}

SEC("tc")
int faults_downlink(struct __sk_buff *skb)
{
	return decide(skb, SIDE_DOWNLINK);
}

/* The far end of a detour: back to the port and the side where it left. */
SEC("tc")
int faults_return(struct __sk_buff *skb)
{
	bool uplink = skb->mark & MARK_UPLINK;

	if (!(skb->mark & MARK_DECIDED) || skb->mark & MARK_FILLER)
		return TC_ACT_SHOT;
	count(uplink ? SIDE_UPLINK : SIDE_DOWNLINK, EVENT_RETURNED);
	return bpf_redirect(skb->mark & MARK_PORT, uplink ? BPF_F_INGRESS : 0);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
