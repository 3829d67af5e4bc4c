// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/* Steers the packets of one worker from an interface's queues to its AF_XDP sockets:
 * UDP to its address or to its job's group, at its port. Everything else, and what is for
 * the worker in a form that its sockets can read as well (IP options, fragments), is the kernel's.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* In network byte order, set at load. A job without a group has its worker's address twice. */
volatile const __u32 own_address;
volatile const __u32 group_address;
volatile const __u16 worker_port;

/* By queue. A queue without a socket leaves its packets to the kernel, and so to the worker's UDP sockets. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} rings SEC(".maps");

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
		return XDP_PASS;
	if (ip->frag_off & bpf_htons(0x3fff))
		return XDP_PASS;
	if (udp->dest != worker_port || (ip->daddr != own_address && ip->daddr != group_address))
		return XDP_PASS;
	return bpf_redirect_map(&rings, ctx->rx_queue_index, XDP_PASS);
}

char _license[] SEC("license") = "Dual MIT/GPL";
