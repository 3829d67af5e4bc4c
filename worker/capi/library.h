/* What library.c and the Go side have in common. */
#ifndef SPILLWAY_LIBRARY_H
#define SPILLWAY_LIBRARY_H

#include "spillway.h"

#include <semaphore.h>

/* How a call ended. The Go side writes it into the caller's. */
struct outcome {
	int code; /* spillway_status */
	int broken;
	uint64_t ranks;
	uint64_t worker; /* that a join made */
	char text[2048];
};

/* Options as far as the caller's has them. */
struct joining {
	const char *addr, *job, *address, *ca, *cert, *key, *transport;
	int rank;
	double timeout, patience, busy_poll;
};

#endif
