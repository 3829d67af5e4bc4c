/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The tables. Go is their only writer; an entry is replaced whole, so a packet
 * sees the old one or the new one. Addresses and UDP ports of addresses are as
 * they are on the wire, numbers as the machine has them. */
#pragma once

#include "events.h"

#define MAX_PORTS 512
#define MAX_JOBS 1024 /* ids that have an entry in any of job, region, uplink, publish */
#define MAX_MEMBERS 4096
#define MAX_ROUTES 1024
#define MAX_GROUPS 1024

/* An entry of forward. */
struct route {
	__u16 port;
	__u8 mac[ETH_ALEN];
	__u16 drop;
	__u16 traffic; /* index of forward_traffic */
};

struct prefix {
	__u32 length; /* bits */
	__be32 addr;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_ROUTES);
	__type(key, struct prefix);
	__type(value, struct route);
} forward SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_ROUTES);
	__type(key, __u32);
	__type(value, struct traffic);
} forward_traffic SEC(".maps");

/* From a multicast address to its replication group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ROUTES);
	__type(key, __be32);
	__type(value, __u32);
} group_routes SEC(".maps");

#define BRIDGE_DROP 0
#define BRIDGE_LINK 1
#define BRIDGE_FLOOD 2

struct bridge_to {
	__u16 kind;
	__u16 value; /* port or group */
};

struct bridge_key {
	__u8 mac[ETH_ALEN];
	__u16 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ROUTES);
	__type(key, struct bridge_key);
	__type(value, struct bridge_to);
} bridge SEC(".maps");

enum region_mode {
	REGION_NONE,
	REGION_PRIVATE,
	REGION_SHARED,
	REGION_FIRST_COME,
};

struct region {
	__u16 value;
	__u16 mask;
	__u16 mode;
};

#define MAX_REGIONS 4 /* of one job */

struct uplink {
	__u8 present;
	__u8 index;
	__u16 port;
	__be32 src;
	__be32 dst;
	__u32 cookie;
	__u32 key;
	__u16 first_port;
	__u16 port_mask;
	__u8 mac[ETH_ALEN];
	__u16 unused;
};

#define PUBLISH_NOT 0
#define PUBLISH_TO_WORKERS 1
#define PUBLISH_TO_PARENT 2

struct publish {
	__u64 bits; /* to the parent: this ToR's */
	__be32 src;
	__be32 dst;
	__u16 kind;
	__u16 out;      /* group or port */
	__u16 src_port; /* to the parent: the first port */
	__u16 dst_port; /* to the parent: the mask */
	__u8 src_mac[ETH_ALEN];
	__u8 dst_mac[ETH_ALEN];
	__u32 unused;
};

/* Everything the tables job, region, uplink and publish say of one job id, so
 * that a packet looks it up once. */
struct tenant {
	__u32 cookie;
	__u32 key;
	__u8 present; /* there is an entry in job */
	__u8 index;
	__u8 generation;
	__u8 unused;
	struct region regions[MAX_REGIONS];
	__u32 unused2;
	struct publish publish;
	struct uplink uplink;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_JOBS);
	__type(key, __u32);
	__type(value, struct tenant);
} tenants SEC(".maps");

struct member_key {
	__be32 addr;
	__u16 port;
	__u16 job;
};

enum role {
	ROLE_STRANGER,
	ROLE_WORKER,
	ROLE_HOME,
	ROLE_ECHO,
};

struct member {
	__u64 bits;
	__u64 full; /* bits and everyone else's */
	__u32 role;
	__u32 traffic; /* index of member_traffic */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_MEMBERS);
	__type(key, struct member_key);
	__type(value, struct member);
} members SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_MEMBERS);
	__type(key, __u32);
	__type(value, struct traffic);
} member_traffic SEC(".maps");
