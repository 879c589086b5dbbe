/* observer.h: the process beside a run that writes for TensorBoard what the run records (--tensorboard).
 *
 * It is `lockstep metrics RUN --tensorboard DIR --follow`, a program of its own that reads the run's folder: workers
 * know nothing of it, and what becomes of it does the run no harm. A pipe that the run's processes hold tells it when
 * they have ended; the kernel kills it with the process that started it. */
#ifndef LS_CLI_TRAIN_OBSERVER_H
#define LS_CLI_TRAIN_OBSERVER_H

#include <sys/types.h>

#include "config/options.h"

typedef struct ls_observer {
    pid_t pid; /* 0: there is none */
    int pipe;
} ls_observer;

/* Where --tensorboard is given, in the first process of the run. Warns where it cannot be started. */
void ls_observer_start(const ls_options *options, const char *run, ls_observer *out);
/* To be called when the run has ended: waits for the last events. A writer that is stopped or stuck is killed, with a
 * warning. */
void ls_observer_end(ls_observer *observer);

#endif
