/* life.h: a death is seen before the dead process is gone.
 *
 * A parent hears of a child's end when the kernel has taken down all of its memory, which takes tens to hundreds of
 * milliseconds for a worker with gigabytes of it. Locks that a process holds are released before that: each worker
 * holds a robust one in the segment for as long as it lives, and a thread of the supervisor for each of them waits for
 * it. */
#ifndef LS_COMM_SHM_LIFE_H
#define LS_COMM_SHM_LIFE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lockstep.h"

typedef struct ls_life {
    pthread_mutex_t held;
} ls_life;

struct ls_segment;

typedef struct ls_life_watch {
    struct ls_life_watcher {
        ls_life *life;
        _Atomic bool died;
        pthread_t thread;
    } of[LS_WORKERS_MAX];
    int count; /* 0: nobody watches */
} ls_life_watch;

/* Of the supervisor, before it forks. */
void ls_life_init(struct ls_segment *segment);
/* Of a worker's first thread: from now on until it dies. */
void ls_life_hold(ls_life *life);

/* Of the supervisor, once all workers hold theirs: SIGCHLD comes to this process when one dies. Where threads cannot be
 * had deaths are seen when the parent hears of them. */
void ls_life_watch_begin(ls_life_watch *watch, struct ls_segment *segment);
/* When all are dead. */
void ls_life_watch_end(ls_life_watch *watch);
/* The status of a process that is ending, as waitpid() will tell it; false: not known yet. */
bool ls_life_status(int pid, int *wait_status);

#endif
