/* A worker in C, for the tests: driver SCENARIO ADDR JOB RANK WORKERS CA CERT KEY [FILE]. It says what it did in lines of JSON, and exits with 0 if all was as it should be. */
#define _GNU_SOURCE
#include <spillway.h>

#include <dirent.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static spillway_options options = {.size = sizeof options, .timeout = 60};
static int ranks;
static const char *file;

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "rank %d, line %d: %s: last error %d: %s\n", options.rank, __LINE__, #condition, spillway_last_error_code(), spillway_last_error()); \
			exit(1); \
		} \
	} while (0)

/* The error is of this code, and its text has this in it. */
#define FAILS(call, code, has) \
	do { \
		int got_ = (call); \
		if (got_ != (code) || spillway_last_error_code() != (code) || strstr(spillway_last_error(), has) == NULL || strchr(spillway_last_error(), '\n') != NULL) { \
			fprintf(stderr, "rank %d, line %d: %s is %d, want %d with \"%s\": %s\n", options.rank, __LINE__, #call, got_, (code), has, spillway_last_error()); \
			exit(1); \
		} \
	} while (0)

static void say(const char *format, ...) {
	va_list args;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

/* Waits for a line from the test. */
static void told(void) {
	char line[64];
	CHECK(fgets(line, sizeof line, stdin) != NULL);
}

static spillway_worker *join(void) {
	spillway_worker *w;
	CHECK(spillway_join(&options, &w) == SPILLWAY_OK);
	CHECK(spillway_rank(w) == options.rank && spillway_size(w) == ranks);
	return w;
}

/* The input is records of dtype, op, n, bytes (int32 each) and the elements; the results go to the same name with .out, all issued at once and waited for from the last to the first. */
static void reduce(void) {
	enum { MOST = 256 };
	struct { int32_t head[4]; void *data; spillway_request *request; } c[MOST];
	char name[4096];
	int n = 0;
	FILE *in = fopen(file, "rb");
	CHECK(in != NULL);
	for (; n < MOST && fread(c[n].head, sizeof c[n].head, 1, in) == 1; n++) {
		c[n].data = malloc((size_t)c[n].head[3]);
		CHECK(fread(c[n].data, (size_t)c[n].head[3], 1, in) == 1);
	}
	fclose(in);
	spillway_worker *w = join();
	for (int i = 0; i < n; i++) {
		size_t count = (size_t)c[i].head[2];
		c[i].request = NULL;
		if (i % 8 == 7)
			CHECK(spillway_all_reduce(w, c[i].data, count, (spillway_dtype)c[i].head[0], (spillway_op)c[i].head[1]) == SPILLWAY_OK);
		else
			CHECK(spillway_all_reduce_async(w, c[i].data, count, (spillway_dtype)c[i].head[0], (spillway_op)c[i].head[1], &c[i].request) == SPILLWAY_OK);
	}
	snprintf(name, sizeof name, "%s.out", file);
	FILE *out = fopen(name, "wb");
	CHECK(out != NULL);
	for (int i = n - 1; i >= 0; i--)
		CHECK(c[i].request == NULL || spillway_wait(c[i].request, -1) == SPILLWAY_OK);
	for (int i = 0; i < n; i++) {
		CHECK(fwrite(c[i].data, (size_t)c[i].head[3], 1, out) == 1);
		free(c[i].data);
	}
	CHECK(fclose(out) == 0);

	/* Bytes of every length, exactly. */
	for (size_t size = 1; size < 3000; size = size * 3 + 1) {
		unsigned char *own = malloc(size), *all = malloc(size * (size_t)ranks);
		for (size_t i = 0; i < size; i++)
			own[i] = (unsigned char)(255 - i * 7 - (size_t)options.rank);
		CHECK(spillway_all_gather(w, own, size, all) == SPILLWAY_OK);
		for (int r = 0; r < ranks; r++)
			for (size_t i = 0; i < size; i++)
				CHECK(all[(size_t)r * size + i] == (unsigned char)(255 - i * 7 - (size_t)r));
		CHECK(spillway_broadcast(w, own, size, ranks - 1) == SPILLWAY_OK);
		for (size_t i = 0; i < size; i++)
			CHECK(own[i] == (unsigned char)(255 - i * 7 - (size_t)(ranks - 1)));
		free(own);
		free(all);
	}
	CHECK(spillway_barrier(w) == SPILLWAY_OK);
	CHECK(spillway_leave(w) == SPILLWAY_OK);
}

static void *fresh_thread(void *unused) {
	(void)unused;
	CHECK(spillway_last_error_code() == 0 && spillway_last_error()[0] == 0);
	return NULL;
}

static void errors(void) {
	spillway_worker *w = (spillway_worker *)&options, *none;
	spillway_request *r = (spillway_request *)&options, *again;
	float x[8] = {1}, inf[8] = {1.0f / 0.0f};
	int32_t big[8] = {0x7fffffff, 0x7fffffff};
	int done;
	spillway_options o = options;

	CHECK(spillway_last_error_code() == 0 && spillway_last_error()[0] == 0 && strcmp(spillway_version(), "1.2.3") == 0);
	FAILS(spillway_join(NULL, &none), SPILLWAY_INVALID, "NULL");
	FAILS(spillway_join(&o, NULL), SPILLWAY_INVALID, "NULL");
	o.size = 8;
	FAILS(spillway_join(&o, &none), SPILLWAY_INVALID, "sizeof");
	o = options, o.addr = NULL;
	FAILS(spillway_join(&o, &none), SPILLWAY_INVALID, "options.addr");
	o = options, o.job = "";
	FAILS(spillway_join(&o, &none), SPILLWAY_INVALID, "options.job");
	o = options, o.rank = -1;
	FAILS(spillway_join(&o, &none), SPILLWAY_INVALID, "options.rank");
	o = options, o.timeout = -1;
	FAILS(spillway_join(&o, &none), SPILLWAY_INVALID, "options.timeout");
	o = options, o.transport = "pigeon";
	FAILS(spillway_join(&o, &none), SPILLWAY_INVALID, "options.transport \"pigeon\"");
	o = options, o.busy_poll = 0.2;
	FAILS(spillway_join(&o, &none), SPILLWAY_INVALID, "options.busy_poll");
	o = options, o.size = offsetof(spillway_options, transport), o.transport = "pigeon", o.job = "another"; /* as from before these fields */
	FAILS(spillway_join(&o, &none), SPILLWAY_REFUSED, "another");
	o = options, o.key = NULL;
	FAILS(spillway_join(&o, &none), SPILLWAY_INVALID, "together");
	o = options, o.ca = "/nowhere/ca.pem";
	FAILS(spillway_join(&o, &none), SPILLWAY_INVALID, "/nowhere/ca.pem");
	o = options, o.address = "home";
	FAILS(spillway_join(&o, &none), SPILLWAY_INVALID, "IPv4");
	o = options, o.addr = "unix:/nowhere";
	FAILS(spillway_join(&o, &none), SPILLWAY_INVALID, "address");
	o = options, o.addr = "10.77.255.254:1", o.patience = 0.3;
	FAILS(spillway_join(&o, &none), SPILLWAY_UNREACHABLE, "spillwayd");
	CHECK(none == NULL);
	o = options, o.job = "another";
	FAILS(spillway_join(&o, &none), SPILLWAY_REFUSED, "another");
	if (options.rank == 0) {
		o = options, o.timeout = 0.5;
		FAILS(spillway_join(&o, &none), SPILLWAY_TIMEOUT, "rank 1");
		CHECK(spillway_last_error_ranks() & 2);
		say("{\"step\":\"timeout\"}");
	} else {
		told(); /* until rank 0 has been alone for long enough */
	}

	/* Handles that were never any. */
	FAILS(spillway_all_reduce(w, x, 8, SPILLWAY_FLOAT32, SPILLWAY_SUM), SPILLWAY_BAD_HANDLE, "no such worker");
	FAILS(spillway_all_reduce(NULL, x, 8, SPILLWAY_FLOAT32, SPILLWAY_SUM), SPILLWAY_BAD_HANDLE, "no such worker");
	FAILS(spillway_wait(r, 0), SPILLWAY_BAD_HANDLE, "no such request");
	FAILS(spillway_wait(NULL, -1), SPILLWAY_BAD_HANDLE, "no such request");
	FAILS(spillway_test(r, &done), SPILLWAY_BAD_HANDLE, "no such request");
	FAILS(spillway_leave(w), SPILLWAY_BAD_HANDLE, "no such worker");
	CHECK(spillway_rank(w) == -1 && spillway_size(NULL) == -1 && spillway_last_error_code() == SPILLWAY_BAD_HANDLE);

	w = join();
	FAILS(spillway_all_reduce(w, NULL, 8, SPILLWAY_FLOAT32, SPILLWAY_SUM), SPILLWAY_INVALID, "NULL");
	FAILS(spillway_all_reduce(w, x, 0, SPILLWAY_FLOAT32, SPILLWAY_SUM), SPILLWAY_INVALID, "n is 0");
	FAILS(spillway_all_reduce(w, x, (size_t)1 << 40, SPILLWAY_FLOAT32, SPILLWAY_SUM), SPILLWAY_INVALID, "1 to 2147483647");
	FAILS(spillway_all_reduce(w, (char *)x + 1, 4, SPILLWAY_FLOAT32, SPILLWAY_SUM), SPILLWAY_INVALID, "aligned");
	FAILS(spillway_all_reduce(w, x, 8, (spillway_dtype)9, SPILLWAY_SUM), SPILLWAY_INVALID, "dtype 9");
	FAILS(spillway_all_reduce(w, x, 8, SPILLWAY_FLOAT32, (spillway_op)9), SPILLWAY_INVALID, "op 9");
	FAILS(spillway_all_reduce(w, x, 8, SPILLWAY_INT32, SPILLWAY_AVG), SPILLWAY_INVALID, "AVG");
	FAILS(spillway_all_reduce(w, x, 4, SPILLWAY_FLOAT64, SPILLWAY_MAX), SPILLWAY_INVALID, "float64");
	FAILS(spillway_all_reduce_async(w, x, 8, SPILLWAY_FLOAT32, SPILLWAY_SUM, NULL), SPILLWAY_INVALID, "request");
	FAILS(spillway_broadcast(w, x, sizeof x, ranks), SPILLWAY_INVALID, "rank");
	FAILS(spillway_broadcast(w, NULL, 4, 0), SPILLWAY_INVALID, "NULL");
	FAILS(spillway_all_gather(w, x, (size_t)1 << 26, x), SPILLWAY_INVALID, "67108864");
	CHECK(!spillway_last_error_broken());
	pthread_t t;
	CHECK(pthread_create(&t, NULL, fresh_thread, NULL) == 0 && pthread_join(t, NULL) == 0);

	/* Waiting, testing, and once too often. */
	CHECK(spillway_all_reduce_async(w, x, 8, SPILLWAY_FLOAT32, SPILLWAY_SUM, &r) == SPILLWAY_OK);
	CHECK(spillway_wait(r, 30) == SPILLWAY_OK && x[0] == (float)ranks);
	FAILS(spillway_wait(r, -1), SPILLWAY_BAD_HANDLE, "no such request");
	FAILS(spillway_wait((spillway_request *)w, 0), SPILLWAY_BAD_HANDLE, "no such request");
	FAILS(spillway_all_reduce((spillway_worker *)r, x, 8, SPILLWAY_FLOAT32, SPILLWAY_SUM), SPILLWAY_BAD_HANDLE, "no such worker");
	if (options.rank == 0) { /* the other has not issued it yet */
		CHECK(spillway_all_reduce_async(w, x, 8, SPILLWAY_FLOAT32, SPILLWAY_SUM, &r) == SPILLWAY_OK);
		FAILS(spillway_wait(r, 0.2), SPILLWAY_TIMEOUT, "in flight");
		CHECK(spillway_test(r, &done) == SPILLWAY_OK && !done);
		say("{\"step\":\"pending\"}");
	} else {
		told();
		CHECK(spillway_all_reduce_async(w, x, 8, SPILLWAY_FLOAT32, SPILLWAY_SUM, &r) == SPILLWAY_OK);
	}
	do
		CHECK(spillway_test(r, &done) == SPILLWAY_OK);
	while (!done);
	CHECK(spillway_wait(r, 0) == SPILLWAY_OK && x[0] == (float)(ranks * ranks));

	/* Errors of the sums, after which the job goes on. */
	FAILS(spillway_all_reduce(w, inf, 8, SPILLWAY_FLOAT32, SPILLWAY_SUM), SPILLWAY_NON_FINITE, "has a NaN");
	CHECK(spillway_last_error_ranks() == (uint64_t)1 << (ranks - 1) && !spillway_last_error_broken());
	FAILS(spillway_all_reduce(w, big, 8, SPILLWAY_INT32, SPILLWAY_SUM), SPILLWAY_SATURATED, "beyond the range");
	CHECK(spillway_barrier(w) == SPILLWAY_OK);

	/* After a disagreement it does not. */
	FAILS(spillway_all_reduce(w, x, (size_t)(1 + options.rank), SPILLWAY_FLOAT32, SPILLWAY_SUM), SPILLWAY_DISAGREEMENT, "disagree");
	CHECK(spillway_last_error_broken());
	FAILS(spillway_barrier(w), SPILLWAY_DISAGREEMENT, "joined again");
	CHECK(spillway_leave(w) == SPILLWAY_OK);
	FAILS(spillway_leave(w), SPILLWAY_BAD_HANDLE, "no such worker");
	FAILS(spillway_barrier(w), SPILLWAY_BAD_HANDLE, "has left");

	/* Leaving with something in flight. */
	w = join();
	if (options.rank == 0) {
		CHECK(spillway_all_reduce_async(w, x, 8, SPILLWAY_FLOAT32, SPILLWAY_SUM, &r) == SPILLWAY_OK);
		CHECK(spillway_all_reduce_async(w, big, 8, SPILLWAY_INT32, SPILLWAY_SUM, &again) == SPILLWAY_OK);
		CHECK(spillway_leave(w) == SPILLWAY_OK);
		FAILS(spillway_wait(again, 1), SPILLWAY_CLOSED, "closed");
		FAILS(spillway_wait(r, -1), SPILLWAY_CLOSED, "closed");
		CHECK(spillway_last_error_broken());
	} else {
		CHECK(spillway_leave(w) == SPILLWAY_OK);
	}
}

static volatile sig_atomic_t alarms, faults;
static void on_alarm(int s) { (void)s; alarms++; }
static void on_fault(int s) { (void)s; faults++; }

/* How many of this process's threads, other than this one, take the signal. */
static int takers(int signal) {
	int n = 0;
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *d;
	while ((d = readdir(tasks)) != NULL) {
		char path[512], line[256];
		unsigned long long blocked;
		if (atoi(d->d_name) <= 0 || atoi(d->d_name) == gettid())
			continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/status", d->d_name);
		FILE *f = fopen(path, "r");
		if (f == NULL)
			continue; /* it has ended */
		while (fgets(line, sizeof line, f) != NULL)
			if (sscanf(line, "SigBlk: %llx", &blocked) == 1 && !(blocked >> (signal - 1) & 1))
				n++;
		fclose(f);
	}
	closedir(tasks);
	return n;
}

/* Handlers, masks, the floating-point environment, and forks. */
static void process(void) {
	static const int all[] = {SIGSEGV, SIGBUS, SIGFPE, SIGPIPE, SIGURG, SIGINT, SIGTERM, SIGHUP, SIGPROF, SIGUSR1, SIGCHLD, SIGALRM};
	struct sigaction a;
	sigset_t mask;
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		CHECK(sigaction(all[i], NULL, &a) == 0);
#ifndef __SANITIZE_ADDRESS__ /* which has handlers of its own */
		CHECK(a.sa_handler == SIG_DFL);
#endif
	}
	CHECK(pthread_sigmask(0, NULL, &mask) == 0);
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		CHECK(!sigismember(&mask, all[i]));
	memset(&a, 0, sizeof a);
	a.sa_handler = on_fault;
	CHECK(sigaction(SIGSEGV, &a, NULL) == 0);

	CHECK(fesetround(FE_UPWARD) == 0);
	spillway_worker *w = join();
	double third[3] = {1.0 / 3, 2.0 / 3, 1e-300};
	float up[3] = {0.1f, 1e-40f, 3};
	CHECK(spillway_all_reduce(w, third, 3, SPILLWAY_FLOAT64, SPILLWAY_AVG) == SPILLWAY_OK);
	CHECK(spillway_all_reduce(w, up, 3, SPILLWAY_FLOAT32, SPILLWAY_AVG) == SPILLWAY_OK);
	CHECK(up[0] <= 0.1f && up[2] == 3);
	CHECK(fegetround() == FE_UPWARD && fesetround(FE_TONEAREST) == 0);

	CHECK(takers(SIGALRM) == 0 && takers(SIGINT) == 0 && takers(SIGTERM) == 0 && takers(SIGUSR1) == 0 && takers(SIGPIPE) == 0);
	CHECK(sigaction(SIGSEGV, NULL, &a) == 0 && a.sa_handler == on_fault);
	raise(SIGSEGV);
	CHECK(faults == 1);

	/* A handler without SA_ONSTACK runs while this thread waits. */
	a.sa_handler = on_alarm;
	CHECK(sigaction(SIGALRM, &a, NULL) == 0);
	if (options.rank == 0) {
		struct itimerval timer = {{0, 10000}, {0, 10000}}, off = {{0, 0}, {0, 0}};
		spillway_request *r;
		CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
		CHECK(spillway_all_reduce_async(w, up, 3, SPILLWAY_FLOAT32, SPILLWAY_SUM, &r) == SPILLWAY_OK);
		FAILS(spillway_wait(r, 0.5), SPILLWAY_TIMEOUT, "in flight");
		CHECK(alarms > 10);
		say("{\"step\":\"alarms\"}");
		CHECK(spillway_wait(r, -1) == SPILLWAY_OK);
		CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
	} else {
		told();
		CHECK(spillway_all_reduce(w, up, 3, SPILLWAY_FLOAT32, SPILLWAY_SUM) == SPILLWAY_OK);
	}

	/* The child gets nothing but errors; the parent goes on. */
	fflush(stdout);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		spillway_worker *other = w;
		spillway_request *r;
		int done;
		FAILS(spillway_all_reduce(w, up, 3, SPILLWAY_FLOAT32, SPILLWAY_SUM), SPILLWAY_FORKED, "forked");
		FAILS(spillway_all_reduce_async(w, up, 3, SPILLWAY_FLOAT32, SPILLWAY_SUM, &r), SPILLWAY_FORKED, "forked");
		FAILS(spillway_join(&options, &other), SPILLWAY_FORKED, "forked");
		FAILS(spillway_wait(r, -1), SPILLWAY_FORKED, "forked");
		FAILS(spillway_test(r, &done), SPILLWAY_FORKED, "forked");
		FAILS(spillway_barrier(w), SPILLWAY_FORKED, "forked");
		FAILS(spillway_broadcast(w, up, 3, 0), SPILLWAY_FORKED, "forked");
		FAILS(spillway_all_gather(w, up, 1, up), SPILLWAY_FORKED, "forked");
		FAILS(spillway_leave(w), SPILLWAY_FORKED, "forked");
		CHECK(other == NULL && r == NULL && spillway_rank(w) == -1 && spillway_size(w) == -1 && strcmp(spillway_version(), "1.2.3") == 0);
		_exit(7);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
	CHECK(spillway_barrier(w) == SPILLWAY_OK && spillway_leave(w) == SPILLWAY_OK);
}

/* Many threads: they issue in turns, and wait all at once. */
enum { THREADS = 16, TURNS = 50 };
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next = PTHREAD_COND_INITIALIZER;
static int issued;
static spillway_worker *shared;

static void *thread(void *number) {
	int me = (int)(intptr_t)number;
	for (int i = 0; i < TURNS; i++) {
		enum { N = 3000 };
		int32_t *x = malloc(N * sizeof *x);
		spillway_request *r = NULL;
		for (int j = 0; j < N; j++)
			x[j] = j * (me + 1) + i + options.rank;
		FAILS(spillway_all_reduce(shared, x, 0, SPILLWAY_INT32, SPILLWAY_SUM), SPILLWAY_INVALID, "n is 0");
		pthread_mutex_lock(&turn);
		while (issued % THREADS != me)
			pthread_cond_wait(&next, &turn);
		CHECK(spillway_all_reduce_async(shared, x, N, SPILLWAY_INT32, SPILLWAY_SUM, &r) == SPILLWAY_OK);
		issued++;
		pthread_cond_broadcast(&next);
		pthread_mutex_unlock(&turn);
		int rc = spillway_wait(r, me % 2 ? -1 : 0);
		while (rc == SPILLWAY_TIMEOUT)
			rc = spillway_wait(r, 0.001 * (me + 1));
		CHECK(rc == SPILLWAY_OK);
		FAILS(spillway_wait(r, 0), SPILLWAY_BAD_HANDLE, "no such request");
		for (int j = 0; j < N; j++)
			CHECK(x[j] == ranks * (j * (me + 1) + i) + ranks * (ranks - 1) / 2);
		free(x);
	}
	return NULL;
}

static void threads(void) {
	pthread_t all[THREADS];
	shared = join();
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&all[i], NULL, thread, (void *)(intptr_t)i) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(all[i], NULL) == 0);
	CHECK(spillway_leave(shared) == SPILLWAY_OK);
}

static long resident(void) {
	long size = 0, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	CHECK(f != NULL && fscanf(f, "%ld %ld", &size, &pages) == 2);
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE) / 1024;
}

static int descriptors(void) {
	int n = 0;
	DIR *d = opendir("/proc/self/fd");
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* Memory and descriptors stay as they are. */
static void flat(void) {
	spillway_worker *w = join();
	float x[4096] = {0};
	long before = 0;
	int open = 0;
	for (int i = 0; i < 6000; i++) {
		if (i == 2000)
			before = resident(), open = descriptors();
		CHECK(spillway_all_reduce(w, x, 4096, SPILLWAY_FLOAT32, SPILLWAY_AVG) == SPILLWAY_OK);
	}
	long grown = resident() - before;
	int more = descriptors() - open;
	say("{\"grown\":%ld,\"descriptors\":%d}", grown, more);
	CHECK(spillway_leave(w) == SPILLWAY_OK);
}

/* Reduces until somebody is missing. */
static void killed(void) {
	spillway_worker *w = join();
	float x[256] = {1};
	CHECK(spillway_all_reduce(w, x, 256, SPILLWAY_FLOAT32, SPILLWAY_AVG) == SPILLWAY_OK);
	say("{\"step\":\"running\"}");
	int rc;
	do
		rc = spillway_all_reduce(w, x, 256, SPILLWAY_FLOAT32, SPILLWAY_AVG);
	while (rc == SPILLWAY_OK);
	say("{\"code\":%d,\"ranks\":%llu,\"broken\":%d,\"text\":\"%s\"}", rc, (unsigned long long)spillway_last_error_ranks(), spillway_last_error_broken(), spillway_last_error());
	CHECK(spillway_leave(w) == SPILLWAY_OK);
}

int main(int argc, char **argv) {
	static const struct { const char *name; void (*run)(void); } scenarios[] = {
		{"reduce", reduce}, {"errors", errors}, {"process", process}, {"threads", threads}, {"flat", flat}, {"killed", killed},
	};
	if (argc < 9)
		return 2;
	options.addr = argv[2];
	options.job = argv[3];
	options.rank = atoi(argv[4]);
	ranks = atoi(argv[5]);
	options.ca = argv[6];
	options.cert = argv[7];
	options.key = argv[8];
	file = argc > 9 ? argv[9] : NULL;
	for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
		if (strcmp(scenarios[i].name, argv[1]) == 0) {
			scenarios[i].run();
			say("{\"step\":\"done\"}");
			return 0;
		}
	return 2;
}
