/* stop.h: signals that ask a run to stop in order, or to save.
 *
 *     SIGINT                      stop; a second one ends the process at once, as it would without handlers
 *     SIGTERM, SIGHUP, SIGXCPU    stop; may be sent again, as schedulers do, without more effect
 *     SIGUSR2                     stop with the status that asks for a restart
 *     SIGUSR1                     save and continue
 *
 * The handlers only set flags, which the training loop (loop.h) and evaluations poll. A signal that was ignored before
 * (nohup, a job in the background) stays ignored. System calls are restarted.
 *
 * The parent forwards signals to workers of ls_workers_run() with pass_signals and counts the SIGINTs; requests to stop
 * arrive as SIGTERM, and ls_stop_signal() returns the original one.
 *
 * The handlers belong to the process; install and restore are called from one thread. */
#ifndef LS_RUN_STOP_H
#define LS_RUN_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Installs handlers for SIGINT, SIGTERM, SIGHUP and SIGXCPU, and clears an earlier request to stop, unless it is a
 * SIGUSR2 that arrived during a hold; a request to save stays. LS_ERR_FAILED leaves the previous handlers. */
ls_status ls_stop_install(void);
/* Restores the previous handlers, if any were replaced. The flags stay readable. */
void ls_stop_restore(void);

/* Catches SIGUSR1 and SIGUSR2 from the first hold to the last release, because they would end a process without
 * handlers; a program holds them from before its run until it exits. Meanwhile SIGHUP and SIGXCPU act as SIGTERM if no
 * loop catches them. Call ls_stop_hold() before ls_stop_install(). The first hold clears earlier requests; later
 * requests are kept. */
ls_status ls_stop_hold(void);
/* Ends one ls_stop_hold(); the last one restores the previous handlers of these signals. */
void ls_stop_release(void);

/* Returns the first signal to stop that arrived since the handlers were installed, or a SIGUSR2 since the hold: SIGINT,
 * SIGTERM (also for SIGHUP and SIGXCPU) or SIGUSR2; 0: none. Any thread may call it. */
int ls_stop_signal(void);
/* Returns when the signal of ls_stop_signal() arrived, by ls_clock_ns(); meaningless without one. */
uint64_t ls_stop_ns(void);
/* Returns whether SIGUSR1 arrived since the last call, and clears that. */
bool ls_stop_take_save(void);

/* Returns the status of a run that was stopped by ls_stop_signal(): LS_ERR_INTERRUPTED, LS_ERR_TERMINATED or
 * LS_ERR_REQUEUED with a message; LS_OK without a signal. */
ls_status ls_stop_status(void);
/* Returns the status of a run that stopped for `signal`, which another worker may have received: LS_ERR_INTERRUPTED,
 * LS_ERR_TERMINATED or LS_ERR_REQUEUED with a message; 0: LS_OK. */
ls_status ls_stop_status_of(int signal);

#endif
