/* stop.h: signals that ask a run to stop in order, or to save.
 *
 *     SIGINT                      stop; a second one ends the process at once, as it would without handlers
 *     SIGTERM, SIGHUP, SIGXCPU    stop; may be sent again, as schedulers do, without more effect
 *     SIGUSR2                     stop with the status that asks for a restart
 *     SIGUSR1                     save and continue
 *
 * The handlers only set flags, which the training loop polls (loop.h). A signal that was ignored before (nohup, a job
 * in the background) stays ignored. System calls are restarted.
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

/* Installs handlers for SIGINT, SIGTERM, SIGHUP and SIGXCPU and clears earlier requests. A second call does nothing. */
ls_status ls_stop_install(void);
/* Restores the previous handlers, if any were replaced. The flags stay readable. */
void ls_stop_restore(void);

/* SIGUSR1 and SIGUSR2, which would end a process that has no handler, are caught from the first hold to the last
 * release, so that a program may hold them from before its run until it ends; SIGHUP and SIGXCPU become SIGTERM where
 * no loop catches them. To be called before ls_stop_install(). The first hold clears everything; what is asked for from
 * then on stays. */
ls_status ls_stop_hold(void);
void ls_stop_release(void);

/* The first signal to stop that came since installing: SIGINT, SIGTERM (for SIGHUP and SIGXCPU as well) or SIGUSR2; 0:
 * none. Any thread. */
int ls_stop_signal(void);
/* When it came, by ls_clock_ns(). */
uint64_t ls_stop_ns(void);
/* Whether SIGUSR1 came since the last call. */
bool ls_stop_take_save(void);

/* What a run that was stopped returns: LS_OK without a signal, else LS_ERR_INTERRUPTED, LS_ERR_TERMINATED or
 * LS_ERR_REQUEUED with a message. */
ls_status ls_stop_status(void);
/* The same for a signal that another worker has got. */
ls_status ls_stop_status_of(int signal);

#endif
