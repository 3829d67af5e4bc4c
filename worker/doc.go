// Package worker is Spillway's library for training processes: Join a job as one rank, AllReduce tensors in place.
//
// All ranks issue the same collectives in the same order; nothing else is negotiated. A collective returns the same bits at every
// rank, or the same error. Nothing hangs: when no chunk has been summed for the job's silence, every collective in flight fails
// with a MissingRanksError or a HomeSilentError.
//
// Errors come in two kinds. After most (a NonFiniteError, a SaturatedError) the job goes on and the next collective is good. After
// those with ErrBroken in their chain this worker can take no further part: close it and join again, with a new generation of the job.
// A generation, with its cookie, is to be used once: the home remembers the sums of the last one that used it.
//
// The appliance gives a job's generations out: Join calls it and returns when all ranks have. The call lasts as long as the worker, so that the
// appliance knows who takes part, and can say who was lost: a MissingRanksError carries that. It is not needed for a sum. While the appliance's daemon is away, collectives
// go on, and the worker calls again until it is back; if it says then that this worker's part is over, the job is broken at the worker (ErrBroken).
//
// Packets go by UDP sockets, or by AF_XDP past the kernel's network stack (WithTransport). Who waits for a collective while nothing else is in flight does the worker's work itself meanwhile, so that a small
// one costs no change of threads; WithBusyPoll saves it the sleep as well. Many small tensors are reduced together by ReduceAll, in one descriptor's and hardly more packets than their elements need.
//
// The protocol itself is package engine, the numbers are package fixedpoint, sockets and rings package transport.
package worker
