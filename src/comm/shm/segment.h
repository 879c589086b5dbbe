/* segment.h: the memory that the workers of one machine share, called the segment. Transports create it, the supervisor
 * (world/attempt.h) keeps it across restarts, and collectives, heartbeats and failures go through it.
 *
 * It consists of memfds, which have no name and disappear with their last process. Every worker maps all of them, one
 * behind the other:
 *
 *     | header: failure, worker records | control of the world's communicator | heap 0 | heap 1 | … | heap L−1 |
 *
 * Each heap is a file of its own up to LS_SEGMENT_FILES workers, with more a file holds several: the kernel allocates
 * and frees pages of one file under one lock, and all workers do so with gigabytes at a start and a restart.
 *
 * Pages exist only where they were touched, so each heap can be as large as the machine's memory. A worker allocates in
 * its own heap and reads and writes all heaps. Workers exchange offsets instead of addresses, because the mapping may
 * lie elsewhere in another process. Offset 0 belongs to the header, so it serves as "none". */
#ifndef LS_COMM_SHM_SEGMENT_H
#define LS_COMM_SHM_SEGMENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* The first failure of a worker, for all others and for the parent; or the first end because of a signal, for the
 * parent only. */
typedef struct ls_failure {
    _Atomic int state; /* 0 none, 1 being written, 2 complete */
    ls_status status;
    int rank; /* the worker that reported it; −1: the parent */
    char message[LS_MESSAGE_MAX];
} ls_failure;

/* How a worker's function ended (0: it runs): with its result; because of a signal to stop; to be forked again. */
enum { LS_ENDED = 1, LS_ENDED_BY_SIGNAL, LS_ENDED_TO_GO_ON };
/* Whether a worker must copy its device memory here after a loss (0: no need), or has done so. */
enum { LS_RESCUE_NEEDED = 1, LS_RESCUE_DONE };

/* Values of `waits_for` other than a rank; SOMEHOW: for a worker that is not known. */
enum { LS_WAITS_FOR_NONE = 0, LS_WAITS_SOMEHOW = -1 };

/* What a worker does, written by its heartbeat thread and its waits (world/beat.h). Times are monotonic. */
typedef struct ls_beat {
    _Alignas(64) _Atomic uint64_t beat_ns; /* time of the last heartbeat; 0: none yet */
    _Atomic uint64_t moved_ns;             /* time of the last heartbeat that saw progress */
    _Atomic uint64_t number;               /* of the collective it waits in */
    _Atomic int waits_for;                 /* rank in the world + 1, or LS_WAITS_… */
    _Atomic int kind;                      /* of the wait: ls_traffic_kind */
    _Atomic int phase;                     /* ls_phase */
    _Atomic int usual_ms;                  /* how long the phase usually takes; 0: not known */
} ls_beat;

/* A robust mutex that a worker holds while it lives (life.h). */
typedef struct ls_life {
    pthread_mutex_t held;
} ls_life;

/* An idle worker sets `sleeping` and waits on the futex `bell`; a worker that publishes something rings it. */
typedef struct ls_worker_record {
    _Alignas(128) _Atomic uint32_t bell;
    _Atomic uint32_t sleeping;
    _Alignas(64) _Atomic int pid; /* its process; 0: none, or it has ended */
    _Atomic int ended;            /* LS_ENDED…: its function has returned, so it joins no further collective */
    int rank;                     /* in the world */
    uint64_t peers;               /* offset of its table of device allocations (peers/memory.c); 0: none */
    _Atomic uint64_t kept;        /* offset of what it leaves to the next attempt (world/attempt.h); 0: nothing */
    _Atomic int rescues;          /* LS_RESCUE…: it must copy its tensors here before it ends; it has */
    _Atomic uint64_t rescued;     /* progress of that copy */
    ls_beat beat;
    ls_life life; /* only under a supervisor */
} ls_worker_record;

typedef struct ls_segment_header {
    ls_failure failure, stop;       /* the first failure; the first end because of a signal */
    _Atomic uint64_t asked_ns;      /* when a worker received the first signal to stop */
    _Atomic int asked;              /* number of that signal; 0: none */
    _Atomic uint64_t wire_until_ns; /* when the last transfer of a slow link ends: wire.h */
    _Atomic int told_staging;       /* a worker has logged that tensors go through host memory */
    _Atomic int ready;              /* number of workers that have restored their state (world/attempt.h) */
    _Atomic int leave;              /* the supervisor asks all workers to leave after the current step */
    _Atomic int abandoned;          /* a worker is lost: the others leave at once, which is no failure of theirs */
    ls_worker_record workers[];     /* by the worker's number on this machine */
} ls_segment_header;

enum { LS_SEGMENT_FILES = 64 };

typedef struct ls_segment {
    int fd;                           /* header and control */
    int files;                        /* number of files that hold heaps */
    int heaps;                        /* heaps in each file; the last one may hold fewer */
    int file[LS_SEGMENT_FILES];       /* descriptors; −1: none */
    char *base;                       /* its address in this process; NULL: not mapped */
    size_t bytes;                     /* of the whole mapping */
    int workers;                      /* number of workers of the machine */
    size_t control_at, control_bytes; /* offset and size of the control block of the world's communicator */
    size_t heap_at, heap_bytes;       /* offset of heap 0; size of each heap */
    ls_segment_header *header;
} ls_segment;

/* Creates and maps a segment for `workers`, with `control_bytes` for the world's communicator. heap_bytes (for each
 * worker) 0: as large as the machine's memory; less if half of `ulimit -v` or `ulimit -f`, divided among the workers,
 * or the address space is smaller. After an error *out is closed. */
ls_status ls_segment_create(int workers, size_t heap_bytes, size_t control_bytes, ls_segment *out);
/* Maps the segment of process `pid` of this machine; `same` is that process's ls_segment. After an error
 * *out is closed. */
ls_status ls_segment_join(pid_t pid, const ls_segment *same, ls_segment *out);
/* Calls fallocate() for bytes that lie in one heap, and returns its result. */
int ls_segment_fallocate(const ls_segment *segment, int mode, size_t offset, size_t bytes);
/* Unmaps the segment and closes its files. Its memory is freed when all processes have closed it. Does nothing if it is
 * closed. */
void ls_segment_close(ls_segment *segment);

/* Returns the address in this process of an offset, which is the same in all processes. */
static inline void *ls_segment_at(const ls_segment *segment, size_t offset) { return segment->base + offset; }
/* Returns whether an address of this process lies in the segment; false for a segment that is not mapped. */
static inline bool ls_segment_holds(const ls_segment *segment, const void *memory) {
    return segment->base && (const char *)memory >= segment->base &&
           (const char *)memory < segment->base + segment->bytes;
}
/* Returns the offset of an address that lies in the segment. */
static inline size_t ls_segment_offset(const ls_segment *segment, const void *memory) {
    return (size_t)((const char *)memory - segment->base);
}

/* Records a failure if it is the first, and wakes all workers, which then end with LS_ERR_PEER. `rank` −1: the parent
 * reports it. A worker's failure is ignored once the segment is abandoned. */
void ls_segment_fail(ls_segment *segment, int rank, ls_status status, const char *message);
/* Records that a worker ends because of a signal, if it is the first; wakes no worker. */
void ls_segment_stop(ls_segment *segment, int rank, ls_status status, const char *message);
/* Marks the segment as abandoned (a worker is lost), and wakes all workers. */
void ls_segment_abandon(ls_segment *segment);
/* Returns whether a worker is lost, so that all others leave at once; cheap. */
static inline bool ls_segment_is_abandoned(const ls_segment *segment) {
    return atomic_load_explicit(&segment->header->abandoned, memory_order_acquire) != 0;
}
/* Returns whether a failure was recorded, perhaps not yet completely (state 1); cheap. */
static inline bool ls_segment_failed(const ls_segment *segment) {
    return atomic_load_explicit(&segment->header->failure.state, memory_order_acquire) != 0;
}
/* Wakes one worker: adds 1 to its bell and wakes the futex, with a system call in any case. */
void ls_segment_ring(ls_worker_record *worker);

#endif
