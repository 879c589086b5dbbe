/* grace.h: how long forked workers may take to end after a signal has asked them to (--grace; ls_workers_options,
 * pass_signals). After that the parent kills them, so that a run stops in bounded time even if a worker hangs. The run
 * sets it; shm.c enforces it. */
#ifndef LS_COMM_GRACE_H
#define LS_COMM_GRACE_H

/* In seconds; 0: no limit. Written by one thread before the workers are forked, read by the process that forks them
 * (shm.c). */
extern double ls_workers_grace_s;

#endif
