/* Loads the library late, into a process that has its signals and its floating-point environment set as it likes: late LIBRARY. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void handler(int s) { (void)s; }

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			return 1; \
		} \
	} while (0)

int main(int argc, char **argv) {
	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_ONSTACK}, now;
	sigset_t mask;
	if (argc != 2)
		return 2;
	for (int s = 1; s < NSIG; s++)
		sigaction(s, &a, NULL); /* some cannot be taken */
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	CHECK(pthread_sigmask(SIG_BLOCK, &mask, NULL) == 0 && fesetround(FE_DOWNWARD) == 0);

	void *library = dlopen(argv[1], RTLD_NOW);
	if (library == NULL)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library != NULL);
	int (*rank)(const void *) = (int (*)(const void *))dlsym(library, "spillway_rank");
	int (*code)(void) = (int (*)(void))dlsym(library, "spillway_last_error_code");
	CHECK(rank != NULL && code != NULL && rank(NULL) == -1 && code() == 2);

	CHECK(fegetround() == FE_DOWNWARD);
	CHECK(pthread_sigmask(0, NULL, &mask) == 0 && sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGINT) && !sigismember(&mask, SIGSEGV));
	for (int s = 1; s < NSIG; s++)
		if (sigaction(s, NULL, &now) == 0 && s != SIGKILL && s != SIGSTOP)
			CHECK(now.sa_handler == handler && now.sa_flags & SA_ONSTACK);

	pid_t child = fork();
	if (child == 0)
		_exit(rank(NULL) == -1 && code() == 13 ? 0 : 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
