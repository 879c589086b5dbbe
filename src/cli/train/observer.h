/* observer.h: starts and ends the process that writes TensorBoard files for a run while it trains (--tensorboard).
 *
 * It is `lockstep metrics RUN --tensorboard DIR --follow`, which only reads the run's folder, so its failures do not
 * affect the run. It ends when the run's processes have closed a pipe that they inherit; the kernel kills it if the
 * process that started it dies. */
#ifndef LS_CLI_TRAIN_OBSERVER_H
#define LS_CLI_TRAIN_OBSERVER_H

#include <sys/types.h>

#include "config/options.h"

typedef struct ls_observer {
    pid_t pid; /* 0: there is none */
    int pipe;  /* write end of the pipe whose closing ends the process */
} ls_observer;

/* Starts it if --tensorboard was given, before the first process of the run forks; else sets pid to 0. A failure is
 * only a warning. */
void ls_observer_start(const ls_options *options, const char *run, ls_observer *out);
/* Closes the pipe, after the run has ended, and waits until the last events are written. A process that hangs is
 * killed, with a warning. */
void ls_observer_end(ls_observer *observer);

#endif
