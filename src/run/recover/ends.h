/* ends.h: records which machine caused the end of a job of mpirun or srun, for tools/relaunch and for people.
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
    bool is_written;
} ls_ends;

/* All workers of a launcher together; the folder is there. */
ls_status ls_ends_begin(ls_ends *ends, ls_world *world, const char *run);
/* Records, once, the worker that caused the failure of `step` with which this worker ends; keeps the message. Gives up
 * after seconds, because the job must end. `blame` may be NULL: no worker computed wrongly. */
void ls_ends_write(ls_ends *ends, ls_world *world, const ls_wrong *blame, int64_t step, ls_status status);

#endif
