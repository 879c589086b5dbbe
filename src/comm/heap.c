/* heap.c: first fit over a list of blocks. Invariants: blocks tile [begin, end) in order; no two neighbours are both
 * free. */
#include "comm/heap.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct ls_heap_block {
    size_t at, bytes;
    bool used;
    ls_heap_block *next;
};

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

static ls_status reserve(ls_heap *heap, size_t until) {
    if (until <= heap->reserved_until) return LS_OK;
    size_t bytes = until - heap->reserved_until;
    LS_TRY(ls_memory_check(bytes));
    while (fallocate(heap->segment->fd, 0, (off_t)heap->reserved_until, (off_t)bytes) != 0) {
        if (errno == EINTR) continue;
        return ls_fail_errno(LS_ERR_RESOURCE, "out of memory: %zu MiB of shared memory refused", bytes >> 20);
    }
    heap->reserved_until = until;
    return LS_OK;
}

/* Cuts `bytes` off the end of a block's front part: block keeps [at, at+bytes), a new one gets the rest. */
static bool split(ls_heap_block *block, size_t bytes) {
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
        return ls_fail(LS_ERR_RESOURCE, "out of shared memory: %zu MiB asked for, each worker has %zu MiB (--shm-heap)",
                       bytes >> 20, heap_bytes >> 20);
    size_t align = bytes >= PAGE_ALIGN ? PAGE_ALIGN : SMALL_ALIGN;
    size_t want = ((bytes ? bytes : 1) + SMALL_ALIGN - 1) / SMALL_ALIGN * SMALL_ALIGN;
    for (ls_heap_block *block = heap->blocks; block; block = block->next) {
        size_t skip = (size_t)(-block->at % align);
        if (block->used || block->bytes < skip + want) continue;
        size_t until = block->at + skip + want;
        size_t until_page = (until + PAGE_ALIGN - 1) / PAGE_ALIGN * PAGE_ALIGN;
        size_t fresh_from = heap->reserved_until;
        LS_TRY(reserve(heap, until_page < heap->end ? until_page : heap->end));
        if (skip) {
            if (!split(block, skip)) return ls_fail(LS_ERR_RESOURCE, "out of memory for the shared heap");
            block = block->next;
        }
        if (!split(block, want)) return ls_fail(LS_ERR_RESOURCE, "out of memory for the shared heap");
        block->used = true;
        heap->used_bytes += want;
        *out = ls_segment_at(heap->segment, block->at);
        /* New pages are zero already. */
        if (!raw && block->at < fresh_from)
            memset(*out, 0, block->at + want <= fresh_from ? want : fresh_from - block->at);
        return LS_OK;
    }
    return ls_fail(LS_ERR_RESOURCE, "out of shared memory: %zu MiB asked for, %zu of %zu MiB in use (--shm-heap)",
                   bytes >> 20, heap->used_bytes >> 20, heap_bytes >> 20);
}

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
    assert(!"freed memory that this heap did not hand out");
}
