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
    _Atomic uint64_t beat_ns, moved_ns;      /* last heartbeat and last progress, monotonic; 0: not known */
    _Atomic int pid, phase, waits_for, kind; /* as in ls_beat (shm/segment.h): waits_for is a rank + 1 */
} ls_status_worker;

/* Whether the run can be resized (run/recover/resize.h), and if not, why. */
typedef enum ls_status_resizes {
    LS_RESIZES_TAKEN,        /* yes: requests to resize are accepted */
    LS_RESIZES_UNSUPERVISED, /* no: the workers have no supervisor, which would fork a new number of them */
    LS_RESIZES_LAUNCHED,     /* no: mpirun or srun started the workers */
    LS_RESIZES_OWN_STEPS     /* no: the program calls the steps itself instead of the training loop */
} ls_status_resizes;

typedef struct ls_status_page {
    char magic[16];                          /* LS_STATUS_PAGE_NAME */
    uint32_t version, bytes;                 /* LS_STATUS_PAGE_VERSION and the size of this struct */
    _Atomic int workers, resizes;            /* number of workers, 0 before the first heartbeat; ls_status_resizes */
    ls_status_worker worker[LS_WORKERS_MAX]; /* by rank; zeros for workers of other machines */
} ls_status_page;

/* Creates this process's page, of which there is at most one, and lets the heartbeat fill it. Errors are ignored,
 * because a run does not depend on its page. */
void ls_status_page_begin(ls_world *world);
/* Removes this process's page, after the heartbeat thread has stopped filling it; does nothing without a page. */
void ls_status_page_end(ls_world *world);
/* Writes to this process's page whether the run can be resized; does nothing without a page. */
void ls_status_page_set_resizes(ls_status_resizes resizes);
/* Returns the bytes of memory that the workers of this machine use, with shared memory counted once (that of the
 * worker that maps most); of this process alone if `world` is NULL. 0: not known. */
double ls_status_memory(const ls_world *world);

/* Maps, read-only, the page of the process that holds the lock of the run's folder, or of one of its children; NULL:
 * none, one of another version, or no permission. The caller closes it. */
const ls_status_page *ls_status_page_open(const char *folder);
/* Unmaps a page that ls_status_page_open() returned; NULL does nothing. */
void ls_status_page_close(const ls_status_page *page);
/* Writes "computing gradients" or "waiting for worker 3 in all-reduce", "waiting" if for an unknown worker, and "no
 * sign of life" for a silent worker (LS_STATUS_SILENT). */
void ls_status_page_text(const ls_status_page *page, int worker, char *text, size_t room);
typedef enum ls_status_kind {
    LS_STATUS_COMPUTES,  /* gradients or the update */
    LS_STATUS_WAITS,     /* for another worker, in whatever phase */
    LS_STATUS_EVALUATES, /* or writes a sample */
    LS_STATUS_SAVES,
    LS_STATUS_STARTS, /* all other phases, such as loading weights; also ending */
    LS_STATUS_SILENT  /* no heartbeat for 3 s, or never one */
} ls_status_kind;
/* Returns what the worker of this rank does, by its last heartbeat. */
ls_status_kind ls_status_page_kind(const ls_status_page *page, int worker);

#endif
