/* status_page.h: what the workers of a run are doing, in memory that other processes can read.
 *
 * The first worker of a run has it as a memfd, which dies with it. Its beat (comm/beat.h) copies the beats of all
 * workers of its machine there, ten times a second; workers of other machines are not known. A reader finds it through
 * the process that holds the lock of the run's folder, maps it for reading alone and trusts nothing in it: the run
 * cannot notice that it is read, and does nothing for it. */
#ifndef LS_COMM_STATUS_PAGE_H
#define LS_COMM_STATUS_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lockstep.h"

enum { LS_STATUS_PAGE_VERSION = 2 };
#define LS_STATUS_PAGE_NAME "lockstep-status"

typedef struct ls_status_worker {
    _Atomic uint64_t beat_ns, moved_ns;      /* by the machine's monotonic clock; 0: not known */
    _Atomic int pid, phase, waits_for, kind; /* as ls_beat */
} ls_status_worker;

/* Whether the run takes another number of workers (run/recover/resize.h), and if not, why. */
typedef enum ls_status_resizes {
    LS_RESIZES_TAKEN,
    LS_RESIZES_UNSUPERVISED,
    LS_RESIZES_LAUNCHED,
    LS_RESIZES_OWN_STEPS
} ls_status_resizes;

typedef struct ls_status_page {
    char magic[16]; /* LS_STATUS_PAGE_NAME */
    uint32_t version, bytes;
    _Atomic int workers, resizes;
    ls_status_worker worker[LS_WORKERS_MAX];
} ls_status_page;

/* Makes the page of this process, which has one at most, and has the beat of the world fill it. What goes wrong is
 * passed over: a run does not depend on being seen. */
void ls_status_page_begin(ls_world *world);
void ls_status_page_end(ls_world *world);
/* Notes it on the page of this process, if there is one. */
void ls_status_page_set_resizes(ls_status_resizes resizes);
/* What this worker and those of its machine have in memory together, what they share counted once; of one alone,
 * `world` is NULL. 0: not known. */
double ls_status_memory(const ls_world *world);
/* By the beat. */
void ls_status_page_fill(ls_status_page *page, const ls_world *world);

/* Of the process that holds the lock of the folder, or one of its children. NULL: none is there. */
const ls_status_page *ls_status_page_open(const char *folder);
void ls_status_page_close(const ls_status_page *page);
/* "computing gradients", "waiting for worker 3 in all-reduce"; *look: of its box on a page. */
void ls_status_page_text(const ls_status_page *page, int worker, char *text, size_t room);
typedef enum ls_status_kind {
    LS_STATUS_COMPUTES,
    LS_STATUS_WAITS,
    LS_STATUS_EVALUATES,
    LS_STATUS_SAVES,
    LS_STATUS_STARTS,
    LS_STATUS_SILENT
} ls_status_kind;
ls_status_kind ls_status_page_kind(const ls_status_page *page, int worker);

#endif
