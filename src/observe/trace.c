/* trace.c: collecting the spans of all workers. */
#include "observe/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/events.h"
#include "base/files.h"

/* A pipeline step records some hundred events, some thousand with many layers per stage: room for dozens of steps. */
enum { EVENTS_PER_THREAD = 1 << 17 };

enum { TAG_TRACE = 1 };

ls_status ls_trace_begin(const char *path) { return path ? ls_events_enable(EVENTS_PER_THREAD) : LS_OK; }

/* Joins the texts of all workers on rank 0 only, because a trace can be large; *all is NULL on the others. A
 * collective. The caller frees *all, also after a failure. */
static ls_status gather_parts(ls_comm *comm, const char *mine, size_t bytes, char **all, size_t *all_bytes) {
    ls_status status;
    int size = ls_comm_size(comm);
    size_t *sizes = malloc(sizeof *sizes * (size_t)size), *words = malloc(sizeof *words * (size_t)size);
    *all = NULL;
    *all_bytes = 0;
    if (!sizes || !words) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for the trace");
        goto out;
    }
    for (int r = 0; r < size; r++) words[r] = sizeof *sizes;
    LS_TRY_OUT(ls_comm_all_gather(comm, &bytes, sizes, words));
    if (ls_comm_rank(comm) > 0) {
        status = ls_comm_send(comm, 0, TAG_TRACE, mine, bytes);
        goto out;
    }
    for (int r = 0; r < size; r++) *all_bytes += sizes[r];
    *all = malloc(*all_bytes + 1);
    if (!*all) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a trace of %zu MiB", *all_bytes >> 20);
        goto out;
    }
    memcpy(*all, mine, bytes);
    for (int r = 1; r < size; bytes += sizes[r++]) LS_TRY_OUT(ls_comm_recv(comm, r, TAG_TRACE, *all + bytes, sizes[r]));
out:
    free(sizes);
    free(words);
    return status;
}

/* Formats this worker's events as JSON, with the punctuation around its part ("[", ",", "]"), so that the parts only
 * need to be joined in the order of ranks. The caller frees *text. */
static ls_status format_own_part(ls_world *world, char **text, size_t *bytes) {
    char *events = NULL;
    size_t length;
    LS_TRY(ls_events_json(ls_world_rank(world), &events, &length));
    char *part = malloc(length + 4);
    if (!part) {
        free(events);
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the trace");
    }
    part[0] = ls_world_rank(world) == 0 ? '[' : ',';
    memcpy(part + 1, events, length);
    free(events);
    length++;
    if (ls_world_rank(world) == ls_world_size(world) - 1) part[length++] = ']';
    part[length++] = '\n';
    *text = part;
    *bytes = length;
    return LS_OK;
}

ls_status ls_trace_end(ls_world *world, const char *path) {
    if (!path) return LS_OK;
    ls_status status;
    char *mine = NULL, *all = NULL;
    size_t bytes = 0, all_bytes = 0;
    ls_events_disable();
    LS_TRY_OUT(format_own_part(world, &mine, &bytes));
    LS_TRY_OUT(gather_parts(ls_world_comm(world), mine, bytes, &all, &all_bytes));
    if (ls_world_rank(world) == 0) LS_TRY_OUT(ls_file_write_atomic(path, all, all_bytes));
    /* Barrier: workers leave only when the file exists, and all of them return its failure. */
    LS_TRY_OUT(ls_comm_barrier(ls_world_comm(world)));
out:
    free(mine);
    free(all);
    return status;
}
