/* life.h: detects the death of a worker before the kernel has torn its process down.
 *
 * SIGCHLD reaches a parent only after the kernel has freed all memory of the child, which takes tens to hundreds of
 * milliseconds for a worker with gigabytes. The kernel releases the locks of a process earlier. So each worker holds a
 * robust mutex in the segment while it lives, and for each worker a thread of the supervisor waits for that mutex. */
#ifndef LS_COMM_SHM_LIFE_H
#define LS_COMM_SHM_LIFE_H

#include "comm/shm/segment.h"

typedef struct ls_life_watch {
    struct ls_life_watcher {
        ls_life *life;     /* the worker's mutex, in the segment */
        _Atomic bool died; /* set by the thread; SIGCHLD follows */
        pthread_t thread;
    } of[LS_WORKERS_MAX]; /* by rank */
    int count;            /* number of watching threads; 0: no watch */
} ls_life_watch;

/* Initializes the mutexes of all workers in the segment. The supervisor calls this before it forks. */
void ls_life_init(ls_segment *segment);
/* Locks a worker's mutex until its process dies. The worker's first thread calls this. */
void ls_life_hold(ls_life *life);

/* Starts the watching threads, which send SIGCHLD to this process when a worker dies. The supervisor calls this once
 * all workers hold their mutex. If a thread cannot be started, deaths are noticed later, by the kernel's own SIGCHLD.
 */
void ls_life_watch_begin(ls_life_watch *watch, ls_segment *segment);
/* Joins the threads; all workers must be dead. */
void ls_life_watch_end(ls_life_watch *watch);
/* Returns in *wait_status the wait status of a dying process before waitpid() can; false: not known yet, or it exits
 * with status 0. */
bool ls_life_status(int pid, int *wait_status);

#endif
