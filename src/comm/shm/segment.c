/* segment.c: creates, maps and closes the segment, the memory that the workers of a machine share; segment.h has a
 * picture. */
#include "comm/shm/segment.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 65536 /* the largest page of the machines we run on */, HEAP_LEAST = 1 << 20 };

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/* Returns the memory of this machine; 4 GiB if the system does not tell. */
static size_t machine_memory_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : (size_t)4 << 30;
}

/* Chooses the size of a heap: the machine's memory, or the worker's part of half of a limit on address space or file
 * size, whose other half is left for other uses; at least HEAP_LEAST. */
static size_t choose_heap_bytes(int workers) {
    size_t heap = machine_memory_bytes();
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        size_t share = (size_t)limit.rlim_cur / 2 / (size_t)workers;
        if (heap > share) heap = share;
    }
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        size_t share = (size_t)limit.rlim_cur / 2 / (size_t)workers;
        if (heap > share) heap = share;
    }
    return heap < HEAP_LEAST ? HEAP_LEAST : heap;
}

/* Returns the size of heap file number `f`; the last file may hold fewer heaps. */
static size_t file_bytes(const ls_segment *s, int f) {
    int behind = s->workers - f * s->heaps;
    return s->heap_bytes * (size_t)(behind < s->heaps ? behind : s->heaps);
}

/* Maps a file shared and writable at this address, replacing what was mapped there. */
static bool map_file(char *at, size_t bytes, int fd) {
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) != MAP_FAILED;
}

/* Maps all files, one behind the other, into addresses reserved at once. False: nothing stays mapped, and errno has the
 * reason. */
static bool map_files(ls_segment *s) {
    s->base = mmap(NULL, s->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->base == MAP_FAILED) {
        s->base = NULL;
        return false;
    }
    bool there = map_file(s->base, s->heap_at, s->fd);
    for (int f = 0; there && f < s->files; f++)
        there = map_file(s->base + s->heap_at + s->heap_bytes * (size_t)(f * s->heaps), file_bytes(s, f), s->file[f]);
    if (there) return true;
    int error = errno;
    munmap(s->base, s->bytes);
    s->base = NULL;
    errno = error;
    return false;
}

/* Maps the files, asks for huge pages, and sets s->header. LS_ERR_RESOURCE names the size. */
static ls_status map_segment(ls_segment *s) {
    if (!map_files(s)) {
        return ls_fail_errno(LS_ERR_RESOURCE,
                             "cannot map %zu MiB of shared memory for %d workers (lower --shm-heap or raise ulimit -v)",
                             s->bytes >> 20, s->workers);
    }
    /* Huge pages reduce TLB misses; a refusal costs nothing. */
    (void)madvise(s->base, s->bytes, MADV_HUGEPAGE);
    s->header = (ls_segment_header *)(void *)s->base;
    return LS_OK;
}

/* Computes the offsets of control block and heaps, and the total size; rounds each to PAGE. */
static void lay_out(ls_segment *s, size_t heap_bytes) {
    size_t header = sizeof(ls_segment_header) + sizeof(ls_worker_record) * (size_t)s->workers;
    s->control_at = round_up(header, PAGE);
    s->heap_at = round_up(s->control_at + s->control_bytes, PAGE);
    s->heap_bytes = round_up(heap_bytes, PAGE);
    s->bytes = s->heap_at + s->heap_bytes * (size_t)s->workers;
}

static int make_file(void) { return memfd_create("lockstep", MFD_CLOEXEC); }

/* Creates the header's file and those of the heaps, still empty, and decides how many heaps a file holds. False: errno
 * has the reason, and the caller closes the files. */
static bool make_files(ls_segment *s) {
    s->fd = make_file();
    s->heaps = (s->workers + LS_SEGMENT_FILES - 1) / LS_SEGMENT_FILES;
    s->files = (s->workers + s->heaps - 1) / s->heaps;
    bool there = s->fd >= 0;
    for (int f = 0; f < s->files; f++) s->file[f] = -1;
    for (int f = 0; there && f < s->files; f++) there = (s->file[f] = make_file()) >= 0;
    return there;
}

/* Gives the files their sizes, which takes no memory yet. */
static bool size_files(const ls_segment *s) {
    bool sized = ftruncate(s->fd, (off_t)s->heap_at) == 0;
    for (int f = 0; sized && f < s->files; f++) sized = ftruncate(s->file[f], (off_t)file_bytes(s, f)) == 0;
    return sized;
}

ls_status ls_segment_create(int workers, size_t heap_bytes, size_t control_bytes, ls_segment *out) {
    assert(workers >= 1 && workers <= LS_WORKERS_MAX);
    *out = (ls_segment){.fd = -1, .workers = workers, .control_bytes = control_bytes};
    if (!make_files(out)) {
        ls_status status =
            ls_fail_errno(LS_ERR_RESOURCE, "cannot create shared memory (check the open-file limit, ulimit -n)");
        ls_segment_close(out);
        return status;
    }
    bool chosen = heap_bytes == 0;
    if (heap_bytes > ((size_t)1 << 56) / (size_t)workers) {
        ls_segment_close(out);
        return ls_fail(LS_ERR_INPUT, "%zu GiB of shared memory for each of %d workers exceeds the address space",
                       heap_bytes >> 30, workers);
    }
    size_t heap = chosen ? choose_heap_bytes(workers) : heap_bytes;
    ls_status status;
    for (;;) {
        lay_out(out, heap);
        status = size_files(out)
                     ? map_segment(out)
                     : ls_fail_errno(LS_ERR_RESOURCE, "cannot resize shared memory to %zu MiB", out->bytes >> 20);
        /* In a small address space (39 bits on some ARM64 systems) a chosen heap shrinks until it fits. */
        if (status == LS_OK || !chosen || heap / 2 < HEAP_LEAST) break;
        heap /= 2;
    }
    if (status != LS_OK) ls_segment_close(out);
    return status;
}

/* Opens another process's descriptor `fd` through /proc; −1 with errno if that is not allowed. */
static int join_file(pid_t pid, int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

ls_status ls_segment_join(pid_t pid, const ls_segment *same, ls_segment *out) {
    *out = *same;
    out->base = NULL;
    out->fd = join_file(pid, same->fd);
    bool there = out->fd >= 0;
    for (int f = 0; f < out->files; f++) {
        out->file[f] = there ? join_file(pid, same->file[f]) : -1;
        there = there && out->file[f] >= 0;
    }
    ls_status status = there ? map_segment(out)
                             : ls_fail_errno(LS_ERR_RESOURCE, "cannot open the shared memory of process %d", (int)pid);
    if (status != LS_OK) ls_segment_close(out);
    return status;
}

void ls_segment_close(ls_segment *segment) {
    if (segment->base) munmap(segment->base, segment->bytes);
    if (segment->fd >= 0) close(segment->fd);
    for (int f = 0; f < segment->files; f++)
        if (segment->file[f] >= 0) close(segment->file[f]);
    *segment = (ls_segment){.fd = -1};
}

int ls_segment_fallocate(const ls_segment *s, int mode, size_t offset, size_t bytes) {
    assert(offset >= s->heap_at && offset + bytes <= s->bytes);
    size_t in_heaps = offset - s->heap_at, of_file = s->heap_bytes * (size_t)s->heaps;
    return fallocate(s->file[in_heaps / of_file], mode, (off_t)(in_heaps % of_file), (off_t)bytes);
}

void ls_segment_ring(ls_worker_record *worker) {
    atomic_fetch_add_explicit(&worker->bell, 1, memory_order_release);
    syscall(SYS_futex, &worker->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Records a failure for all processes to read, unless there is one already. Returns whether it was the first. */
static bool record_first(ls_failure *failure, int rank, ls_status status, const char *message) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&failure->state, &none, 1)) return false;
    failure->status = status;
    failure->rank = rank;
    snprintf(failure->message, sizeof failure->message, "%s", message);
    atomic_store_explicit(&failure->state, 2, memory_order_release);
    return true;
}

void ls_segment_stop(ls_segment *segment, int rank, ls_status status, const char *message) {
    (void)record_first(&segment->header->stop, rank, status, message);
}

/* Wakes all workers. */
static void ring_all(ls_segment *segment) {
    for (int i = 0; i < segment->workers; i++) ls_segment_ring(&segment->header->workers[i]);
}

void ls_segment_fail(ls_segment *segment, int rank, ls_status status, const char *message) {
    if (rank >= 0 && ls_segment_is_abandoned(segment)) return;
    if (!record_first(&segment->header->failure, rank, status, message)) return;
    ring_all(segment);
}

void ls_segment_abandon(ls_segment *segment) {
    atomic_store_explicit(&segment->header->abandoned, 1, memory_order_release);
    ring_all(segment);
}
