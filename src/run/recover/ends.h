/* ends.h: records which machine caused the end of a job of mpirun or srun, for tools/relaunch and for people. Each
 * worker of api/run_work.c calls it; runs that fork their workers have a supervisor instead.
 *
 *     RUN/hosts.json             {"start":"…","hosts":["a","a","b","b"]}: of the newest start, and by worker
 *     RUN/ends/START-WORKER.json {"start":"…","step":…,"host":"b","worker":2,"found":"hung","persistent":false,…}
 *
 * `found` is "hung": it did not answer; "wrong": an audit found that it computes wrongly; "damaged": its state failed a
 * checksum. A killed worker takes the job with it before any worker can write, so tools/relaunch adds "killed" from the
 * launcher's output. Each worker writes a file of its own, atomically; several may report one end, because two machines
 * with a cut cable between them blame each other. A job that ended well leaves no file. */
#ifndef LS_RUN_RECOVER_ENDS_H
#define LS_RUN_RECOVER_ENDS_H

#include <limits.h>

#include "comm/world/world.h"
#include "run/guard/event.h"

typedef struct ls_ends {
    char run[PATH_MAX]; /* "": nothing is written */
    char start[24];     /* the same for all workers of a start, and another for the next */
    bool is_written;    /* ls_ends_write() was called */
} ls_ends;

/* Writes hosts.json and gives all workers of a launcher the name of this start. The folder `run` exists and is rank
 * 0's. Collective. */
ls_status ls_ends_begin(ls_ends *ends, ls_world *world, const char *run);
/* Records, once, the worker that caused the failure of `step` with which this worker ends, if that is known; keeps the
 * message. Waits at most a few seconds for the file system, because the job must end. `blame` NULL, or without
 * is_found: no worker computed wrongly; then a worker that did not answer is reported, if `status` is LS_ERR_DEADLINE.
 * With is_found rank 0 alone writes, and a barrier follows, so all workers call it; otherwise it is not collective. */
void ls_ends_write(ls_ends *ends, ls_world *world, const ls_wrong *blame, int64_t step, ls_status status);

#endif
