/* ends.h: which machine was to blame for the end of a job of mpirun or srun, for tools/relaunch and for people.
 *
 *     RUN/hosts.json             {"start":"…","hosts":["a","a","b","b"]}: of the newest start, and by worker
 *     RUN/ends/START-WORKER.json {"start":"…","step":…,"host":"b","worker":2,"found":"hung","persistent":false,…}
 *
 * `found` is "hung": it did not answer; "wrong": an audit found that it computes wrongly; "damaged": what it keeps is
 * not what it wrote. A worker that is killed takes the job with it before anybody can write: tools/relaunch adds that
 * ("killed") by what the launcher says. Each worker writes a file of its own, whole or not at all, so that several may
 * tell of one end: two machines with a cut cable between them blame each other. A job that ended well leaves none. */
#ifndef LS_RUN_RECOVER_ENDS_H
#define LS_RUN_RECOVER_ENDS_H

#include <limits.h>

#include "run/trainer.h"

typedef struct ls_ends {
    char run[PATH_MAX]; /* "": nothing is written */
    char start[24];     /* the same for all workers of a start, and another for the next */
    bool is_written;
} ls_ends;

/* All workers of a launcher together; the folder is there. */
ls_status ls_ends_begin(ls_ends *ends, ls_world *world, const char *run);
/* This worker ends with a failure, whose message stays. Writes whom it knows to be to blame, once; what cannot be
 * written within seconds is left, since the job must end. `trainer` may be NULL. */
void ls_ends_write(ls_ends *ends, ls_world *world, const ls_trainer *trainer, ls_status status);

#endif
