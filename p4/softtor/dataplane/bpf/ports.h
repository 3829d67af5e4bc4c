/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* From the interface a frame came in by to its port, and from a decision to interfaces. */
#pragma once

#include "send.h"

/* From the index of an interface to its port number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

/* And back. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

/* Replication groups: a packet that is broadcast goes to every device of one map,
 * so each group has a map of its own. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, MAX_GROUPS);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_DEVMAP);
		__uint(max_entries, 1);
		__type(key, __u32);
		__type(value, __u32);
	});
} groups SEC(".maps");

static __always_inline int carry_out(struct decision d)
{
	__u32 value = d.value;
	void *group;

	switch (d.kind) {
	case KIND_PORT:
		return bpf_redirect_map(&devices, value, XDP_DROP);
	case KIND_GROUP:
	case KIND_FLOOD:
		group = bpf_map_lookup_elem(&groups, &value);
		if (!group)
			break;
		return bpf_redirect_map(group, 0, d.kind == KIND_FLOOD ? BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS : BPF_F_BROADCAST);
	}
	return XDP_DROP;
}
