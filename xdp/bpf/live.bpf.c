// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* What drives the aggregator with live frames over a veth link (BPF_F_TEST_XDP_LIVE_FRAMES), and what stands in its place for
 * comparison. The source is run at one end and sends every frame over the link; a CPU's frames come to the other end on the queue of
 * that CPU, which takes them in right away: so a core does all that its packets need, from the making to the verdict. */
#include "aggregate.h"
#include "bare.h"

/* Contributions by rank, headers only. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u8[FRAME_SIZE]);
} live_contributions SEC(".maps");

/* What one CPU sends: contributions of ranks [first, first + ranks) to chunks seq, seq + step, .... Cache lines of its own. */
struct stream {
	__u32 job;
	__u32 first;
	__u32 ranks;
	__u32 step;
	__u32 next; /* the rank that is next, from first on */
	__u32 seq;
	__u32 beside; /* 1 + the CPU that contributes to the same chunks; 0: none does */
	__u32 ahead;  /* how far it may be ahead of that one */
	__u64 sent;
	__u64 waited;  /* times it was too far ahead, and sent nothing */
	__u64 arrived; /* at what stands in the aggregator's place */
	__u64 results; /* that came back */
	__u64 unused[8];
};

#define MAX_STREAMS 64

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_STREAMS);
	__type(key, __u32);
	__type(value, struct stream);
} live_streams SEC(".maps");

static __always_inline struct stream *own_stream(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&live_streams, &cpu);
}

/* The same for a frame that came over the link. What the kernel sends on a new link by itself is none of them. */
static __always_inline struct stream *stream_of(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;

	if (data + FRAME_SIZE > (void *)(long)ctx->data_end || eth_of(data)->h_proto != bpf_htons(ETH_P_IP))
		return NULL;
	return own_stream();
}

/* Elements are 0, so a frame that is used again needs new headers only. */
SEC("xdp")
int live_source(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct frame *f = data;
	struct stream *s = own_stream();

	if (!s || data + FRAME_SIZE > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	if (s->beside) {
		__u32 cpu = s->beside - 1;
		const struct stream *other = bpf_map_lookup_elem(&live_streams, &cpu);

		if (!other)
			return XDP_ABORTED;
		if ((__s32)(s->seq - *(volatile __u32 *)&other->seq) > (__s32)s->ahead) {
			s->waited++;
			return XDP_DROP;
		}
	}

	__u32 rank = s->first + s->next;
	const void *fresh = bpf_map_lookup_elem(&live_contributions, &rank);

	if (!fresh)
		return XDP_ABORTED;
	__builtin_memcpy(f, fresh, FRAME_SIZE);
	wire_of(f)->seq = bpf_htonl(s->seq);
	wire_of(f)->job = bpf_htons(s->job);
	s->sent++;
	if (++s->next >= s->ranks) {
		s->next = 0;
		s->seq += s->step;
	}
	return XDP_TX;
}

/* At the source's end of the link: the results. */
SEC("xdp")
int live_sink(struct xdp_md *ctx)
{
	struct stream *s = stream_of(ctx);

	if (s)
		s->results++;
	return XDP_DROP;
}

/* In the aggregator's place: nothing, so that what the link costs is known. */
SEC("xdp")
int live_nothing(struct xdp_md *ctx)
{
	struct stream *s = stream_of(ctx);

	if (s)
		s->arrived++;
	return XDP_DROP;
}

/* In the aggregator's place: the bare loop. */
SEC("xdp")
int live_bare(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct elements e = { .frame = data, .data_end = (void *)(long)ctx->data_end };
	struct stream *s = stream_of(ctx);

	if (!s || data + FRAME_SIZE > e.data_end)
		return XDP_DROP;

	__u32 id = bpf_ntohs(wire_of(e.frame)->job);
	const struct job *job = bpf_map_lookup_elem(&jobs, &id);

	if (!job)
		return XDP_DROP;
	e.zero = job->zero;
	e.payload = payload_of(job, bpf_ntohl(wire_of(e.frame)->seq) & job->ring_mask, &e.capacity);
	if (!e.payload)
		return XDP_DROP;
	bare_loop(&e);
	s->arrived++;
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";
