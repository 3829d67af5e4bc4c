/*
 * spillway.h - collectives over Spillway's in-network aggregation, from C.
 *
 * A process joins a job as one rank, reduces tensors together with the other ranks, and leaves:
 *
 *     spillway_options o = {.size = sizeof o, .addr = "aggregator:9690", .job = "train", .rank = rank,
 *                           .ca = "ca.pem", .cert = "worker.pem", .key = "worker.key", .timeout = 60};
 *     spillway_worker *w;
 *     if (spillway_join(&o, &w)) { fprintf(stderr, "%s\n", spillway_last_error()); exit(1); }
 *     spillway_all_reduce(w, gradient, n, SPILLWAY_FLOAT32, SPILLWAY_AVG);
 *     spillway_leave(w);
 *
 * Link with -lspillway (pkg-config spillway).
 *
 * Status. Functions that return int return a spillway_status: SPILLWAY_OK (0), or what went wrong; then spillway_last_error() has the text of it
 * for the calling thread. Times are seconds.
 *
 * Order. Collectives complete in the order in which they were issued, and that order must be the same at all ranks, also when several
 * threads issue them: which of two concurrent calls is first is for the caller to settle.
 *
 * Threads. All functions may be called from any thread at any time. No function keeps a thread-local state but the last error.
 *
 * Buffers. A buffer belongs to the library from the call that issues a collective until it is complete: until the blocking call has
 * returned, spillway_wait has returned anything but SPILLWAY_TIMEOUT, or spillway_leave has returned. It is read and written in place, and afterwards never touched again. After an
 * error its content is undefined. Nothing else that is handed in is kept: strings and options are copied.
 *
 * Handles. A spillway_worker * or spillway_request * is a number in the form of a pointer. It points to nothing; one that was used up, or made
 * up, is SPILLWAY_BAD_HANDLE.
 *
 * Fork. In the child of a fork the library does not work: every function returns SPILLWAY_FORKED there and does nothing else (the ones that
 * return no status: -1 or NULL). The parent is not disturbed. The child should exec, or load the library after the fork instead.
 *
 * Signals. The library leaves the signal handlers of the process as it found them, and handlers run during a blocking call, which goes on afterwards. A handler must not call
 * the library. The library's own threads take none of the process's signals but SIGCHLD, SIGURG and SIGPROF, which cannot be kept from them: handlers
 * of these are to be installed with SA_ONSTACK.
 *
 * Floating point. What the calling thread has set (rounding, flushing of subnormals) has no influence on results, and is not changed.
 */
#ifndef SPILLWAY_H
#define SPILLWAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spillway_worker spillway_worker;   /* one rank of a job */
typedef struct spillway_request spillway_request; /* a collective in flight */

/* The status of a call. Numbers do not change; new ones may come. */
typedef enum {
	SPILLWAY_OK = 0,
	SPILLWAY_INVALID = 1,       /* an argument is wrong; nothing was issued */
	SPILLWAY_BAD_HANDLE = 2,    /* no such worker or request: used up, or never one; or somebody else waits for the request */
	SPILLWAY_TIMEOUT = 3,       /* the time was over: of a wait, the request is still in flight; of a join, the text says what was waited for */
	SPILLWAY_UNREACHABLE = 4,   /* no appliance answers at the address */
	SPILLWAY_REFUSED = 5,       /* the appliance said no; the text says why and what to do */
	SPILLWAY_MISSING_RANKS = 6, /* ranks sent nothing for too long: spillway_last_error_ranks */
	SPILLWAY_HOME_SILENT = 7,   /* the aggregator did not answer for too long */
	SPILLWAY_DISAGREEMENT = 8,  /* ranks issued different collectives: length, type or operation */
	SPILLWAY_NON_FINITE = 9,    /* a rank contributed a NaN or an infinity to a sum: spillway_last_error_ranks */
	SPILLWAY_SATURATED = 10,    /* an int32 sum left its range */
	SPILLWAY_BROKEN = 11,       /* the job is broken at this worker for another reason, which the text says */
	SPILLWAY_CLOSED = 12,       /* the worker has left */
	SPILLWAY_FORKED = 13,       /* called in the child of a fork */
	SPILLWAY_PARTIAL = 14,      /* a sum was released without some ranks: spillway_last_error_ranks */
	SPILLWAY_INTERNAL = 15,     /* a bug, or a failure of the operating system */
	SPILLWAY_DEAD_RANKS = 16    /* the appliance says that ranks are dead: spillway_last_error_ranks */
} spillway_status;

/* The type of a tensor's elements, in the machine's byte order. */
typedef enum {
	SPILLWAY_FLOAT32 = 1,
	SPILLWAY_INT32 = 2,
	SPILLWAY_FLOAT64 = 3,
	SPILLWAY_FLOAT16 = 4, /* IEEE 754 binary16 */
	SPILLWAY_BFLOAT16 = 5 /* the upper half of a float32 */
} spillway_dtype;

/*
 * What is done with the elements. The result has the same bits at every rank. How large the error of SUM and AVG may be: docs/c-api.md.
 *
 *              float32, float16, bfloat16   float64               int32
 *   SUM        block fixed point            block fixed point     exact; beyond the range: SPILLWAY_SATURATED
 *   AVG        the sum / n, rounded once    the same              SPILLWAY_INVALID
 *   MAX, MIN   exact; a NaN gives NaN       SPILLWAY_INVALID      exact
 */
typedef enum { SPILLWAY_SUM = 0, SPILLWAY_MAX = 1, SPILLWAY_MIN = 2, SPILLWAY_AVG = 3 } spillway_op;

/* How to join. Set size to sizeof(spillway_options), and what is not needed to 0: then fields that later versions add mean what they did before. */
typedef struct {
	size_t size;
	const char *addr;    /* of the appliance: "host:port", or "unix:" and the path of a socket. Of several appliances: all, with commas between them */
	const char *job;     /* its name */
	int rank;            /* from 0 */
	const char *address; /* the IPv4 address to send from; NULL: that of the connection to the appliance. Needed with a Unix socket */
	const char *ca;      /* PEM files for TLS: the authority of the appliance's certificate, */
	const char *cert;    /*   this worker's certificate, */
	const char *key;     /*   and its key. All three, or NULL for a connection without TLS */
	double timeout;      /* how long to wait for the other ranks; 0: without end */
	double patience;     /* how long to go on trying while the appliance cannot be reached; 0: 10 seconds */
	const char *transport; /* how packets are moved: "auto", "udp" or "af_xdp"; NULL: what SPILLWAY_TRANSPORT in the environment says, else "auto" */
	double busy_poll;    /* how long to look again and again for packets before sleeping, at most 0.1; 0: what SPILLWAY_BUSY_POLL says, else not at all */
} spillway_options;

/* Joins a job and waits until all of its ranks have. The worker must be left. On an error *worker is NULL. */
int spillway_join(const spillway_options *options, spillway_worker **worker);

/* The rank of the worker, and how many ranks the job has; -1 on an error. */
int spillway_rank(const spillway_worker *worker);
int spillway_size(const spillway_worker *worker);

/*
 * Replaces the n elements at data, at every rank, by their reduction over all ranks. n is 1 to 2^31 - 1 and the same at all ranks; data has the
 * alignment of its type. Returns when it is done; that it ends is certain, since the job's silence bounds how long ranks may send nothing.
 */
int spillway_all_reduce(spillway_worker *worker, void *data, size_t n, spillway_dtype dtype, spillway_op op);

/* Issues an all-reduce and returns at once. The request must be waited for, once. On an error *request is NULL and nothing was issued. */
int spillway_all_reduce_async(spillway_worker *worker, void *data, size_t n, spillway_dtype dtype, spillway_op op, spillway_request **request);

/*
 * Waits until a request is complete, and returns its outcome; timeout < 0 waits without end. After SPILLWAY_TIMEOUT the request is still in flight and may
 * be waited for again; after anything else it is used up. One thread at a time.
 */
int spillway_wait(spillway_request *request, double timeout);

/* Says in *done whether a request is complete (1) or not (0), without using it up: it must still be waited for. */
int spillway_test(spillway_request *request, int *done);

/* Returns when all ranks have called it. A collective like the others: it keeps their order. */
int spillway_barrier(spillway_worker *worker);

/*
 * Small data, exactly, as bytes; each byte costs two on every link. size, and for all-gather the size times the number of ranks, is at most 2^26.
 *
 * Broadcast replaces data at all ranks by that of the rank root. All-gather puts the size bytes of every rank into all, rank by rank: all has size
 * times the number of ranks; own may be a part of it. The size and root are the same at all ranks; that the root is, is not checked.
 */
int spillway_broadcast(spillway_worker *worker, void *data, size_t size, int root);
int spillway_all_gather(spillway_worker *worker, const void *own, size_t size, void *all);

/*
 * Leaves the job. Collectives in flight end with SPILLWAY_CLOSED, and no buffer is touched after the return. The handle is used up, whatever is returned; requests may still
 * be waited for. It takes two seconds at most, when the appliance is away.
 */
int spillway_leave(spillway_worker *worker);

/*
 * The last error of the calling thread: of the last function that failed in it. The text is one line, and stays valid until the next error in this thread; "" before
 * the first. The ranks are a bitmap, rank r is bit r; 0 if the error is about none. Broken is 1 if the worker can take no further part and must be left
 * and joined again, 0 if the next collective may succeed.
 */
const char *spillway_last_error(void);
int spillway_last_error_code(void);
uint64_t spillway_last_error_ranks(void);
int spillway_last_error_broken(void);

/* The version of the library, like "0.4.0". */
const char *spillway_version(void);

#ifdef __cplusplus
}
#endif

#endif
