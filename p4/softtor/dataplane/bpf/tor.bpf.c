// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The software ToR. */
#include "pipeline.h"
#include "ports.h"

/* On every port. */
SEC("xdp")
int tor(struct xdp_md *ctx)
{
	__u32 ifindex = ctx->ingress_ifindex;
	__u32 *port = bpf_map_lookup_elem(&ports, &ifindex);

	if (!port)
		return XDP_DROP;
	return carry_out(pipeline(ctx, *port));
}

/* The port that tor_run's frame comes in by. */
volatile __u32 run_port;

/* The same for BPF_PROG_TEST_RUN, which has no ports: returns the decision,
 * kind << 16 | value. */
SEC("xdp")
int tor_run(struct xdp_md *ctx)
{
	struct decision d = pipeline(ctx, run_port);

	return d.kind << 16 | d.value;
}

/* Keep the enums in the object's BTF, where the Go side gets them from. */
const enum event event_names __attribute__((unused)) = EVENT_END;
const enum kind kind_names __attribute__((unused)) = KIND_DROP;
const enum role role_names __attribute__((unused)) = ROLE_STRANGER;
const enum region_mode region_mode_names __attribute__((unused)) = REGION_NONE;

char _license[] SEC("license") = "Dual MIT/GPL";
