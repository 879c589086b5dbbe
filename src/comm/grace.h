/* grace.h: how long forked workers may take to end after a signal has asked them to (ls_workers_options, pass_signals).
 * After that the parent kills them, so that a run stops in bounded time even if a worker hangs. */
#ifndef LS_COMM_GRACE_H
#define LS_COMM_GRACE_H

/* Seconds; 0: no limit. To be set before the workers are forked. */
extern double ls_workers_grace_s;

#endif
