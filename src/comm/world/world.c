/* world.c: what a worker knows of the world, its memory, and its part in an attempt. */
#include "comm/world/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/events.h"
#include "base/memory.h"
#include "device/cpu/kernels.h"

enum { COPY_CHUNK_BYTES = 1 << 20, COPY_TRACED_BYTES = 64 << 10 };

int ls_world_rank(const ls_world *world) { return world->rank; }
int ls_world_size(const ls_world *world) { return world->size; }
int ls_world_threads(const ls_world *world) { return world->threads; }
const char *ls_world_transport(const ls_world *world) { return world->transport->name; }
ls_comm *ls_world_comm(ls_world *world) { return world->comm; }

void ls_host_name_get(ls_host_name name) {
    if (gethostname(name, LS_HOST_MAX) != 0) snprintf(name, LS_HOST_MAX, "?");
    name[LS_HOST_MAX - 1] = 0;
}

const char *ls_world_host(const ls_world *world, int rank) {
    return world->machines.host_of ? world->machines.host_of[rank] : NULL;
}

ls_status ls_world_alloc(ls_world *world, size_t bytes, void **out) {
    if (world->segment.base) return ls_heap_alloc(&world->heap, bytes, false, out);
    *out = NULL;
    LS_TRY(ls_memory_check(bytes));
    size_t rounded = (bytes / 64 + 1) * 64;
    *out = aligned_alloc(64, rounded);
    if (!*out) return ls_fail(LS_ERR_RESOURCE, "out of memory: %zu MiB requested", bytes >> 20);
    memset(*out, 0, rounded);
    return LS_OK;
}

void ls_world_free(ls_world *world, void *memory) {
    if (!world->segment.base) {
        free(memory);
        return;
    }
    ls_heap_free(&world->heap, memory);
    ls_heap_trim(&world->heap);
}

/* ---- attempts ---------------------------------------------------------------------------------------------------- */

const ls_attempt *ls_world_attempt(const ls_world *world) { return world->attempt; }

void ls_world_keep(ls_world *world, const void *memory) {
    atomic_store_explicit(&world->segment.header->workers[world->machines.local].kept,
                          ls_segment_offset(&world->segment, memory), memory_order_release);
}

void ls_world_ready(ls_world *world) {
    if (!world->attempt) return;
    atomic_fetch_add(&world->segment.header->ready, 1);
    ls_segment_close(&world->attempt->before); /* this process's mapping only */
}

/* Returns this worker's record in the segment; only where there is one. */
static ls_worker_record *own_record(const ls_world *world) {
    return &world->segment.header->workers[world->machines.local];
}

void ls_world_rescues(ls_world *world) {
    if (world->attempt) atomic_store(&own_record(world)->rescues, LS_RESCUE_NEEDED);
}

bool ls_world_is_abandoned(const ls_world *world) { return world->attempt && ls_segment_is_abandoned(&world->segment); }

void ls_world_rescuing(ls_world *world) {
    if (world->attempt) atomic_fetch_add(&own_record(world)->rescued, 1);
}

void ls_world_rescued(ls_world *world) {
    if (world->attempt) atomic_store(&own_record(world)->rescues, LS_RESCUE_DONE);
}

bool ls_world_should_leave(const ls_world *world) {
    return world->attempt && atomic_load(&world->segment.header->leave) != 0;
}

void ls_world_go_on(ls_world *world) {
    world->goes_on = world->attempt != NULL; /* published at the end, because the rest may still need the others */
}

/* ---- copying ----------------------------------------------------------------------------------------------------- */

typedef struct copy_job {
    char *to;
    const char *from;
    size_t bytes;
    bool stream;
} copy_job;

/* Copies chunk number `task` of a copy_job; a task of the thread pool. */
static void copy_chunk(void *context, size_t task, int thread) {
    (void)thread;
    const copy_job *job = context;
    size_t at = task * COPY_CHUNK_BYTES;
    size_t bytes = job->bytes - at < COPY_CHUNK_BYTES ? job->bytes - at : COPY_CHUNK_BYTES;
    if (job->stream) {
        const ls_add_kernels *kernels = &ls_kernels_get()->add;
        kernels->copy_stream(job->to + at, job->from + at, bytes);
        kernels->fence_stream();
    } else {
        memcpy(job->to + at, job->from + at, bytes);
    }
}

void ls_world_copy(ls_world *world, void *to, const void *from, size_t bytes, bool stream) {
    if (bytes == 0 || to == from) return;
    copy_job job = {to, from, bytes, stream};
    size_t chunks = (bytes + COPY_CHUNK_BYTES - 1) / COPY_CHUNK_BYTES;
    ls_span span = bytes < COPY_TRACED_BYTES ? (ls_span){0} : ls_span_begin("comm", "copy");
    if (world->threads > 1 && chunks > 2)
        ls_pool_run(world->pool, chunks, copy_chunk, &job);
    else
        for (size_t i = 0; i < chunks; i++) copy_chunk(&job, i, 0);
    ls_span_end(span, (int64_t)bytes);
}
