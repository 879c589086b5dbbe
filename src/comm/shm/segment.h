/* segment.h: the memory that the workers of one machine share.
 *
 * Memfds, which have no name and die with their last process, mapped whole and behind each other by every worker:
 *
 *     | header: failure, worker records | control of the world's communicator | heap 0 | heap 1 | … | heap L−1 |
 *
 * Each heap is a file of its own as far as files go round: the kernel takes pages for one file, and gives them back,
 * one at a time, and workers do so with gigabytes when they start and when they are started anew.
 *
 * Pages exist only where they were touched, so the heaps are as large as the machine's memory. Each worker allocates in
 * its own heap and reads and writes all of them. Places are passed around as offsets, since the address of the mapping
 * may differ from process to process. Offset 0 is the header's: it serves as "none". */
#ifndef LS_COMM_SHM_SEGMENT_H
#define LS_COMM_SHM_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "comm/beat.h"
#include "comm/shm/life.h"

/* What the first failing worker leaves behind for all others and for the parent; and what the first worker that ended
 * because of a signal leaves for the parent alone. */
typedef struct ls_failure {
    _Atomic int state; /* 0 none, 1 being written, 2 complete */
    ls_status status;
    int rank; /* the worker that reported it; −1: the parent */
    char message[LS_MESSAGE_MAX];
} ls_failure;

enum { LS_ENDED = 1, LS_ENDED_BY_SIGNAL, LS_ENDED_TO_GO_ON };
enum { LS_RESCUE_NEEDED = 1, LS_RESCUE_DONE };

/* A worker that found nothing to do sets `sleeping` and waits on `bell`; whoever publishes something rings it. */
typedef struct ls_worker_record {
    _Alignas(128) _Atomic uint32_t bell;
    _Atomic uint32_t sleeping;
    _Alignas(64) _Atomic int pid;
    _Atomic int ended;        /* its function has returned (LS_ENDED…): it joins no further collective */
    int rank;                 /* in the world */
    uint64_t peers;           /* offset of what others need to find its device's memory (peers/memory.c); 0: nothing */
    _Atomic uint64_t kept;    /* offset of what it leaves to the next attempt (comm/attempt.h); 0: nothing */
    _Atomic int rescues;      /* LS_RESCUE…: it has something to bring here before it ends; it is here */
    _Atomic uint64_t rescued; /* grows while it does */
    ls_beat beat;
    ls_life life; /* of a worker that is supervised */
} ls_worker_record;

typedef struct ls_segment_header {
    ls_failure failure, stop;
    _Atomic uint64_t asked_ns;      /* when the first signal to stop came to a worker */
    _Atomic int asked;              /* which it was; 0: none */
    _Atomic uint64_t wire_until_ns; /* when the last transfer of a slow link ends: wire.h */
    _Atomic int told_staging;       /* somebody has said that tensors go through the host */
    _Atomic int ready;              /* workers that have the whole state of the run here (comm/attempt.h) */
    _Atomic int leave;              /* the supervisor asks all to leave after the step under way */
    _Atomic int abandoned;          /* a worker is lost: the others leave at once, and none of them has failed */
    ls_worker_record workers[];
} ls_segment_header;

enum { LS_SEGMENT_FILES = 64 };

typedef struct ls_segment {
    int fd;                     /* header and control */
    int files;                  /* of heaps: `heaps` each, */
    int heaps;                  /* the last one perhaps fewer */
    int file[LS_SEGMENT_FILES]; /* descriptors; of those below 0 there is none */
    char *base;
    size_t bytes;
    int workers;
    size_t control_at, control_bytes;
    size_t heap_at, heap_bytes; /* of each worker */
    ls_segment_header *header;
} ls_segment;

/* Makes and maps a segment for `workers`; heap_bytes 0 chooses: the machine's memory, less where address space is
 * short. */
ls_status ls_segment_create(int workers, size_t heap_bytes, size_t control_bytes, ls_segment *out);
/* Maps the segment of process `pid` of this machine, whose numbers and descriptors `same` has. */
ls_status ls_segment_join(pid_t pid, const ls_segment *same, ls_segment *out);
/* fallocate() of bytes that lie in one heap; as that returns. */
int ls_segment_fallocate(const ls_segment *segment, int mode, size_t offset, size_t bytes);
void ls_segment_close(ls_segment *segment);

static inline void *ls_segment_at(const ls_segment *segment, size_t offset) { return segment->base + offset; }
static inline bool ls_segment_holds(const ls_segment *segment, const void *memory) {
    return segment->base && (const char *)memory >= segment->base &&
           (const char *)memory < segment->base + segment->bytes;
}
static inline size_t ls_segment_offset(const ls_segment *segment, const void *memory) {
    return (size_t)((const char *)memory - segment->base);
}

/* Records a failure if it is the first, and wakes everybody; what a worker tells of a segment that is abandoned is no
 * failure. */
void ls_segment_fail(ls_segment *segment, int rank, ls_status status, const char *message);
/* Notes that a worker ends because of a signal, if it is the first; nobody is woken. */
void ls_segment_stop(ls_segment *segment, int rank, ls_status status, const char *message);
/* Abandons it, and wakes everybody. */
void ls_segment_abandon(ls_segment *segment);
static inline bool ls_segment_is_abandoned(const ls_segment *segment) {
    return atomic_load_explicit(&segment->header->abandoned, memory_order_acquire) != 0;
}
/* Whether somebody failed; cheap. */
static inline bool ls_segment_failed(const ls_segment *segment) {
    return atomic_load_explicit(&segment->header->failure.state, memory_order_acquire) != 0;
}
void ls_segment_ring(ls_worker_record *worker);

#endif
