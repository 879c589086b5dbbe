/* heap.c: a first-fit allocator over a list of blocks. Invariants: blocks tile [begin, end) in order; no two neighbours
 * are both free. */
#include "comm/shm/heap.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/memory.h"

struct ls_heap_block {
    size_t at, bytes;
    bool used;
    ls_heap_block *next;
};

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23 /* since Linux 5.14; older ones refuse it */
#endif

/* Less than this is not returned to the system, because it would soon be allocated again. */
static const size_t trim_least_bytes = (size_t)4 << 20;

enum { SMALL_ALIGN = 128 /* what control structures ask for */, PAGE_ALIGN = 4096 };

ls_status ls_heap_init(ls_heap *heap, ls_segment *segment, int worker) {
    size_t begin = segment->heap_at + segment->heap_bytes * (size_t)worker;
    *heap = (ls_heap){.segment = segment, .begin = begin, .end = begin + segment->heap_bytes, .reserved_until = begin};
    heap->blocks = malloc(sizeof *heap->blocks);
    if (!heap->blocks) return ls_fail(LS_ERR_RESOURCE, "out of memory for the shared heap");
    *heap->blocks = (ls_heap_block){.at = begin, .bytes = segment->heap_bytes};
    return LS_OK;
}

void ls_heap_fini(ls_heap *heap) {
    while (heap->blocks) {
        ls_heap_block *next = heap->blocks->next;
        free(heap->blocks);
        heap->blocks = next;
    }
}

/* Returns the bytes of private memory that count against `ulimit -d`; 0: not known. */
static size_t private_bytes(void) {
    FILE *file = fopen("/proc/self/status", "re");
    if (!file) return 0;
    char line[128];
    size_t kib = 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmData: %zu kB", &kib) == 1) break;
    fclose(file);
    return kib << 10;
}

/* Returns LS_ERR_RESOURCE if `bytes` more would exceed `ulimit -d`. The system does not count shared memory against
 * that limit, but a worker's heap is its data, so private and shared memory together are compared with it here. */
static ls_status check_data_limit(const ls_heap *heap, size_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return LS_OK;
    size_t used = private_bytes() + (heap->reserved_until - heap->begin);
    if (used <= limit.rlim_cur && bytes <= limit.rlim_cur - used) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE,
                   "out of memory: %zu MiB requested, %zu MiB in use, and the process limit is %zu MiB (ulimit -d)",
                   bytes >> 20, used >> 20, (size_t)limit.rlim_cur >> 20);
}

/* Faults in the heap's pages up to offset `until`. This takes half the time of reserving them now and mapping them
 * later, and is the only way to get huge pages if the system grants them on request (madvise). If it is refused,
 * fallocate gives the reason. */
static ls_status reserve_pages(ls_heap *heap, size_t until) {
    if (until <= heap->reserved_until) return LS_OK;
    size_t bytes = until - heap->reserved_until;
    LS_TRY(ls_memory_check(bytes));
    LS_TRY(check_data_limit(heap, bytes));
    bool there = madvise(ls_segment_at(heap->segment, heap->reserved_until), bytes, MADV_POPULATE_WRITE) == 0;
    while (!there && ls_segment_fallocate(heap->segment, 0, heap->reserved_until, bytes) != 0) {
        if (errno == EINTR) continue;
        return ls_fail_errno(LS_ERR_RESOURCE, "out of memory: the system refused %zu MiB of shared memory",
                             bytes >> 20);
    }
    heap->reserved_until = until;
    return LS_OK;
}

/* Splits a block: it keeps [at, at+bytes), and a new free block gets the rest, if any. False: out of memory. */
static bool split_block(ls_heap_block *block, size_t bytes) {
    if (block->bytes == bytes) return true;
    ls_heap_block *rest = malloc(sizeof *rest);
    if (!rest) return false;
    *rest = (ls_heap_block){.at = block->at + bytes, .bytes = block->bytes - bytes, .next = block->next};
    block->bytes = bytes;
    block->next = rest;
    return true;
}

ls_status ls_heap_alloc(ls_heap *heap, size_t bytes, bool raw, void **out) {
    *out = NULL;
    size_t heap_bytes = heap->end - heap->begin;
    if (bytes > heap_bytes)
        return ls_fail(LS_ERR_RESOURCE,
                       "out of memory: %zu MiB of shared memory requested, but each worker has %zu MiB; use a smaller "
                       "model or micro-batch, more workers, or raise --shm-heap",
                       bytes >> 20, heap_bytes >> 20);
    size_t align = bytes >= PAGE_ALIGN ? PAGE_ALIGN : SMALL_ALIGN;
    size_t want = ((bytes ? bytes : 1) + SMALL_ALIGN - 1) / SMALL_ALIGN * SMALL_ALIGN;
    for (ls_heap_block *block = heap->blocks; block; block = block->next) {
        size_t skip = (size_t)(-block->at % align);
        if (block->used || block->bytes < skip + want) continue;
        size_t until = block->at + skip + want;
        size_t until_page = (until + PAGE_ALIGN - 1) / PAGE_ALIGN * PAGE_ALIGN;
        size_t fresh_from = heap->reserved_until;
        LS_TRY(reserve_pages(heap, until_page < heap->end ? until_page : heap->end));
        if (skip) {
            if (!split_block(block, skip)) return ls_fail(LS_ERR_RESOURCE, "out of memory for the shared heap");
            block = block->next;
        }
        if (!split_block(block, want)) return ls_fail(LS_ERR_RESOURCE, "out of memory for the shared heap");
        block->used = true;
        heap->used_bytes += want;
        *out = ls_segment_at(heap->segment, block->at);
        /* New pages are zero already. */
        if (!raw && block->at < fresh_from)
            memset(*out, 0, block->at + want <= fresh_from ? want : fresh_from - block->at);
        return LS_OK;
    }
    return ls_fail(LS_ERR_RESOURCE, "out of shared memory: %zu MiB requested, %zu of %zu MiB in use (raise --shm-heap)",
                   bytes >> 20, heap->used_bytes >> 20, heap_bytes >> 20);
}

/* Joins a free block with the next one if that is free too. */
static void merge_next(ls_heap_block *block) {
    ls_heap_block *next = block->next;
    if (!next || next->used || block->used) return;
    block->bytes += next->bytes;
    block->next = next->next;
    free(next);
}

void ls_heap_free(ls_heap *heap, void *memory) {
    if (!memory) return;
    size_t at = ls_segment_offset(heap->segment, memory);
    ls_heap_block *before = NULL;
    for (ls_heap_block *block = heap->blocks; block; before = block, block = block->next) {
        if (block->at != at || !block->used) continue;
        block->used = false;
        heap->used_bytes -= block->bytes;
        merge_next(block);
        if (before) merge_next(before);
        return;
    }
    assert(!"freed memory that this heap did not allocate");
}

void ls_heap_trim(ls_heap *heap) {
    ls_heap_block *last = heap->blocks;
    while (last->next) last = last->next;
    size_t from = (last->at + PAGE_ALIGN - 1) / PAGE_ALIGN * PAGE_ALIGN;
    if (last->used || from + trim_least_bytes > heap->reserved_until) return;
    if (ls_segment_fallocate(heap->segment, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from,
                             heap->reserved_until - from) == 0)
        heap->reserved_until = from;
}
