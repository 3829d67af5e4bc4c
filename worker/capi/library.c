//go:build cgo

#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "_cgo_export.h"

#define API __attribute__((visibility("default")))

static pid_t home; /* the process that the library works in */
static char version[64];
static pthread_key_t last_error; /* a struct outcome, of malloc */

/*
 * The runtime of Go starts when the library is loaded: it makes a thread, and takes the signals that concern it. Its threads are made with the mask and the floating-point environment of
 * that one. So its start is wrapped: before, everything is blocked and the environment is the default; afterwards, the caller's handlers, mask and environment are put back. Without its handlers
 * the runtime can do nothing about a fault but end the process, as the default is; preemption by signal is lost, which only loops without calls would need.
 *
 * The order of the three is that of .init_array: what has a priority comes first, then Go's part, which is first in the link, then the rest.
 */
static struct {
	struct sigaction action[NSIG];
	sigset_t mask;
	fenv_t env;
} caller;

__attribute__((constructor(101))) static void before_runtime(void) {
	sigset_t all;
	home = getpid();
	pthread_key_create(&last_error, free);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &caller.mask);
	fegetenv(&caller.env);
	fesetenv(FE_DFL_ENV);
	for (int s = 1; s < NSIG; s++)
		sigaction(s, NULL, &caller.action[s]);
}

__attribute__((constructor)) static void after_runtime(void) {
	goReady(version, sizeof version); /* waits for the runtime to have started */
	for (int s = 1; s < NSIG; s++) {
		struct sigaction now;
		if (sigaction(s, NULL, &now) == 0 && now.sa_handler != caller.action[s].sa_handler)
			sigaction(s, &caller.action[s], NULL);
	}
	fesetenv(&caller.env);
	pthread_sigmask(SIG_SETMASK, &caller.mask, NULL);
}

/* Around each call of Go: threads that the runtime makes meanwhile are made as at its start, and handlers do not run on a stack of Go's. */
struct visit {
	sigset_t mask;
	fenv_t env;
};

static void enter(struct visit *v) {
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &v->mask);
	fegetenv(&v->env);
	fesetenv(FE_DFL_ENV);
}

static void leave(struct visit *v) {
	fesetenv(&v->env);
	pthread_sigmask(SIG_SETMASK, &v->mask, NULL);
}

/* The last error of the calling thread. It is no _Thread_local: the runtime of Go makes this library's a part of the block that each thread has from its start, of which a library that is loaded
 * late gets little. */
static struct outcome *last(void) {
	static struct outcome none = {.text = "out of memory, also for the text of an error"};
	struct outcome *l = pthread_getspecific(last_error);
	if (l == NULL) {
		l = calloc(1, sizeof *l);
		if (l == NULL || pthread_setspecific(last_error, l) != 0) {
			free(l);
			return &none;
		}
	}
	return l;
}

static int fail(int code, const char *text) {
	struct outcome *l = last();
	l->code = code;
	l->broken = 0;
	l->ranks = 0;
	snprintf(l->text, sizeof l->text, "%s", text);
	return code;
}

/* The status of an outcome, which becomes the last error if it is one. */
static int status(const struct outcome *out) {
	if (out->code != SPILLWAY_OK)
		*last() = *out;
	return out->code;
}

static int forked(void) {
	if (getpid() == home)
		return 0;
	fail(SPILLWAY_FORKED, "this process was forked from the one that loaded libspillway, which does not work here: exec, or fork before the library is loaded");
	return 1;
}

/* Waits for a post, without end if timeout < 0; 0 if the time was over. */
static int posted(sem_t *sem, double timeout) {
	struct timespec until = {0};
	int endless = timeout < 0 || timeout > 1e9, rc;
	if (!endless) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		double whole = floor(timeout);
		until.tv_sec += (time_t)whole;
		until.tv_nsec += (long)((timeout - whole) * 1e9);
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
	}
	do
		rc = endless ? sem_wait(sem) : sem_clockwait(sem, CLOCK_MONOTONIC, &until);
	while (rc != 0 && errno == EINTR);
	return rc == 0;
}

/* Waits for a request that sem is registered for, or that there is none of (0: out says why), and uses it up unless the time is over. */
static int collect(uint64_t request, sem_t *sem, double timeout, struct outcome *out) {
	struct visit v;
	if (request != 0) {
		posted(sem, timeout);
		enter(&v);
		goCollect(request, out);
		leave(&v);
	}
	sem_destroy(sem);
	return status(out);
}

API int spillway_join(const spillway_options *options, spillway_worker **worker) {
	struct outcome out = {0};
	struct joining j = {0};
	struct visit v;
	sem_t sem;
	if (worker != NULL)
		*worker = NULL;
	if (forked())
		return SPILLWAY_FORKED;
	if (options == NULL || worker == NULL)
		return fail(SPILLWAY_INVALID, "spillway_join: options and worker must not be NULL");
	if (options->size < offsetof(spillway_options, patience) + sizeof options->patience)
		return fail(SPILLWAY_INVALID, "spillway_join: options.size is too small: set it to sizeof(spillway_options)");
	j.addr = options->addr;
	j.job = options->job;
	j.rank = options->rank;
	j.address = options->address;
	j.ca = options->ca;
	j.cert = options->cert;
	j.key = options->key;
	j.timeout = options->timeout;
	j.patience = options->patience;
	/* What was compiled against an earlier header has no more than that. */
	if (options->size >= offsetof(spillway_options, transport) + sizeof options->transport)
		j.transport = options->transport;
	if (options->size >= offsetof(spillway_options, busy_poll) + sizeof options->busy_poll)
		j.busy_poll = options->busy_poll;
	sem_init(&sem, 0, 0);
	enter(&v);
	uint64_t request = goJoin(&j, &sem, &out);
	leave(&v);
	collect(request, &sem, -1, &out);
	*worker = (spillway_worker *)(uintptr_t)out.worker;
	return out.code;
}

static int number(const spillway_worker *worker, int of_ranks) {
	struct outcome out = {0};
	struct visit v;
	if (forked())
		return -1;
	enter(&v);
	int n = goNumber((uintptr_t)worker, of_ranks, &out);
	leave(&v);
	return status(&out) == SPILLWAY_OK ? n : -1;
}

API int spillway_rank(const spillway_worker *worker) { return number(worker, 0); }
API int spillway_size(const spillway_worker *worker) { return number(worker, 1); }

API int spillway_all_reduce(spillway_worker *worker, void *data, size_t n, spillway_dtype dtype, spillway_op op) {
	struct outcome out = {0};
	struct visit v;
	sem_t sem;
	if (forked())
		return SPILLWAY_FORKED;
	sem_init(&sem, 0, 0);
	enter(&v);
	uint64_t request = goAllReduce((uintptr_t)worker, data, n, (int)dtype, (int)op, &sem, &out);
	leave(&v);
	return collect(request, &sem, -1, &out);
}

API int spillway_all_reduce_async(spillway_worker *worker, void *data, size_t n, spillway_dtype dtype, spillway_op op, spillway_request **request) {
	struct outcome out = {0};
	struct visit v;
	if (request != NULL)
		*request = NULL;
	if (forked())
		return SPILLWAY_FORKED;
	if (request == NULL)
		return fail(SPILLWAY_INVALID, "spillway_all_reduce_async: request must not be NULL");
	enter(&v);
	*request = (spillway_request *)(uintptr_t)goAllReduce((uintptr_t)worker, data, n, (int)dtype, (int)op, NULL, &out);
	leave(&v);
	return status(&out);
}

API int spillway_wait(spillway_request *request, double timeout) {
	struct outcome out = {0};
	struct visit v;
	sem_t sem;
	if (forked())
		return SPILLWAY_FORKED;
	if (isnan(timeout))
		return fail(SPILLWAY_INVALID, "spillway_wait: the timeout is no number");
	sem_init(&sem, 0, 0);
	enter(&v);
	uint64_t found = goWatch((uintptr_t)request, &sem, &out);
	leave(&v);
	return collect(found, &sem, timeout, &out);
}

API int spillway_test(spillway_request *request, int *done) {
	struct outcome out = {0};
	struct visit v;
	if (forked())
		return SPILLWAY_FORKED;
	if (done == NULL)
		return fail(SPILLWAY_INVALID, "spillway_test: done must not be NULL");
	enter(&v);
	*done = goTest((uintptr_t)request, &out);
	leave(&v);
	return status(&out);
}

API int spillway_barrier(spillway_worker *worker) {
	struct outcome out = {0};
	struct visit v;
	sem_t sem;
	if (forked())
		return SPILLWAY_FORKED;
	sem_init(&sem, 0, 0);
	enter(&v);
	uint64_t request = goBarrier((uintptr_t)worker, &sem, &out);
	leave(&v);
	return collect(request, &sem, -1, &out);
}

API int spillway_broadcast(spillway_worker *worker, void *data, size_t size, int root) {
	struct outcome out = {0};
	struct visit v;
	sem_t sem;
	if (forked())
		return SPILLWAY_FORKED;
	sem_init(&sem, 0, 0);
	enter(&v);
	uint64_t request = goBroadcast((uintptr_t)worker, data, size, root, &sem, &out);
	leave(&v);
	return collect(request, &sem, -1, &out);
}

API int spillway_all_gather(spillway_worker *worker, const void *own, size_t size, void *all) {
	struct outcome out = {0};
	struct visit v;
	sem_t sem;
	if (forked())
		return SPILLWAY_FORKED;
	sem_init(&sem, 0, 0);
	enter(&v);
	uint64_t request = goAllGather((uintptr_t)worker, (void *)own, size, all, &sem, &out);
	leave(&v);
	return collect(request, &sem, -1, &out);
}

API int spillway_leave(spillway_worker *worker) {
	struct outcome out = {0};
	struct visit v;
	sem_t sem;
	if (forked())
		return SPILLWAY_FORKED;
	sem_init(&sem, 0, 0);
	enter(&v);
	uint64_t request = goLeave((uintptr_t)worker, &sem, &out);
	leave(&v);
	return collect(request, &sem, -1, &out);
}

API const char *spillway_last_error(void) { return last()->text; }
API int spillway_last_error_code(void) { return last()->code; }
API uint64_t spillway_last_error_ranks(void) { return last()->ranks; }
API int spillway_last_error_broken(void) { return last()->broken; }
API const char *spillway_version(void) { return version; }
