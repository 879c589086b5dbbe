/* status_page.h: publishes what the workers of a run are doing, in memory that other processes can read.
 *
 * The page is a memfd of the run's first worker and disappears with it. The worker's heartbeat thread (beat.h)
 * copies the heartbeats of all workers of its machine there ten times a second; the heartbeats of other machines are
 * not known. A reader finds the page through the process that holds the lock of the run's folder, maps it read-only and
 * validates what it reads. Reading costs the run nothing. */
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

/* Whether the run can be resized (run/recover/resize.h), and if not, why. */
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

/* Creates this process's page, of which there is at most one, and lets the heartbeat fill it. Errors are ignored,
 * because a run does not depend on its page. */
void ls_status_page_begin(ls_world *world);
void ls_status_page_end(ls_world *world);
/* Writes to this process's page, if there is one. */
void ls_status_page_set_resizes(ls_status_resizes resizes);
/* Returns the bytes of memory that the workers of this machine use, with shared memory counted once; of this process
 * alone if `world` is NULL. 0: not known. */
double ls_status_memory(const ls_world *world);

/* Maps the page of the process that holds the folder's lock, or of one of its children; NULL: none. The caller closes
 * it. */
const ls_status_page *ls_status_page_open(const char *folder);
void ls_status_page_close(const ls_status_page *page);
/* Writes "computing gradients" or "waiting for worker 3 in all-reduce". */
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
