/* host.c: the two movers over host memory, which perform collectives on tensors (move.h): one for tensors that lie
 * there, one that copies them there and back. */
#include "comm/movers/host.h"

#include <stdlib.h>

/* ---- host -------------------------------------------------------------------------------------------------------- */

/* Returns whether the tensors lie in host memory, so that no copies are needed. ls_mover.reaches. */
static bool lies_in_host_memory(const ls_move *m) { return m->device->is_host; }

/* Starts the move as a collective of lockstep.h, on pointers that the host can access. */
static ls_status start_on_host(const ls_move *m, ls_request **out) {
    switch (m->kind) {
    case LS_TRAFFIC_ALL_GATHER: return ls_comm_all_gather_start(m->comm, m->in, m->out, m->sizes, out);
    case LS_TRAFFIC_ALL_REDUCE:
        return ls_comm_all_reduce_start(m->comm, m->runs, m->dtype, m->parts, m->out, m->elems, out);
    case LS_TRAFFIC_REDUCE_SCATTER:
        return ls_comm_reduce_scatter_start(m->comm, m->runs, m->dtype, m->parts, m->out, m->sizes, m->elems, out);
    case LS_TRAFFIC_SEND: return ls_comm_send_start(m->comm, m->peer, m->tag, m->in, m->bytes, out);
    default: return ls_comm_recv_start(m->comm, m->peer, m->tag, m->out, m->bytes, out);
    }
}

const ls_mover ls_mover_host = {.name = "host", .reaches = lies_in_host_memory, .start = start_on_host};

/* ---- staged ------------------------------------------------------------------------------------------------------ */

/* Returns true: copying through host memory works for every move. ls_mover.reaches. */
static bool reaches_always(const ls_move *m) {
    (void)m;
    return true;
}

/* Allocates a host buffer that belongs to `staging`. */
static ls_status alloc_staging(ls_comm *comm, ls_staging *staging, size_t bytes, void **host) {
    LS_TRY(ls_world_alloc(comm->world, bytes, host));
    staging->buffer[staging->buffers++] = *host;
    return LS_OK;
}

/* Copies a tensor to a new host buffer, and waits for the copy. */
static ls_status stage_tensor(ls_comm *comm, ls_staging *staging, const void *tensor, size_t bytes, const void **host) {
    void *copy = NULL;
    LS_TRY(alloc_staging(comm, staging, bytes, &copy));
    *host = copy;
    return ls_device_copy_out(staging->device, copy, tensor, bytes);
}

/* Allocates the host's copy of the result, `bytes` long, in place of `on_host->out`. */
static ls_status stage_result(const ls_move *m, ls_staging *staging, size_t bytes, ls_move *on_host) {
    LS_TRY(alloc_staging(m->comm, staging, bytes, &on_host->out));
    staging->to = m->out;
    staging->from = on_host->out;
    staging->bytes = bytes;
    return LS_OK;
}

/* Allocates the host's copy of the whole result of an all-gather, and copies the own piece to its place there. */
static ls_status stage_pieces(const ls_move *m, ls_staging *staging, ls_move *on_host) {
    size_t all = 0, own = 0;
    for (int r = 0; r < m->comm->size; r++) {
        if (r == m->comm->rank) own = all;
        all += m->sizes[r];
    }
    LS_TRY(stage_result(m, staging, all, on_host));
    on_host->in = (char *)on_host->out + own;
    return ls_device_copy_out(m->device, (char *)on_host->out + own, m->in, m->sizes[m->comm->rank]);
}

/* Copies this worker's parts to the host: a single group in the type of the sum, a subtree of several groups in fp32.
 */
static ls_status stage_parts(const ls_move *m, ls_staging *staging, const void *host[LS_TREE_COVER_MAX]) {
    ls_tree_node nodes[LS_TREE_COVER_MAX];
    const ls_runs *runs = m->runs;
    int size = m->comm->size, rank = m->comm->rank, groups = runs ? runs->groups : size;
    int first = runs && runs->bounds ? runs->bounds[rank] : (int)((int64_t)groups * rank / size);
    int end = runs && runs->bounds ? runs->bounds[rank + 1] : (int)((int64_t)groups * (rank + 1) / size);
    int count = ls_tree_cover(groups, first, end, nodes);
    for (int i = 0; i < count; i++) {
        size_t each = ls_dtype_bytes(nodes[i].count > 1 && m->dtype != LS_I64 ? LS_F32 : m->dtype);
        LS_TRY(stage_tensor(m->comm, staging, m->parts[i], m->elems * each, &host[i]));
    }
    return LS_OK;
}

/* Copies the parts of a sum to the host, listed in `host`, and allocates the host's copy of the result. */
static ls_status stage_sum(const ls_move *m, ls_staging *staging, const void *host[LS_TREE_COVER_MAX],
                           ls_move *on_host) {
    const size_t *shards = m->sizes;
    size_t elems = m->kind == LS_TRAFFIC_ALL_REDUCE ? m->elems : shards[m->comm->rank + 1] - shards[m->comm->rank];
    LS_TRY(stage_parts(m, staging, host));
    on_host->parts = host;
    return stage_result(m, staging, elems * ls_dtype_bytes(m->dtype == LS_I64 ? LS_I64 : LS_F32), on_host);
}

/* Makes the request the owner of its staging buffers. If the request could not be started, frees them. */
static ls_status attach_staging(ls_comm *comm, const ls_staging *staging, ls_status status, ls_request **request) {
    ls_staging *kept = *request ? malloc(sizeof *kept) : NULL;
    if (kept) {
        *kept = *staging;
        (*request)->tensors = kept;
        return status;
    }
    if (*request) {
        (void)ls_request_wait(*request);
        *request = NULL;
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a request");
    }
    for (int i = 0; i < staging->buffers; i++) ls_world_free(comm->world, staging->buffer[i]);
    return status;
}

/* Copies the inputs to the host and starts the collective there; ls_request_wait() copies the result back.
 * ls_mover.start. */
static ls_status start_staged(const ls_move *m, ls_request **out) {
    ls_staging staging = {.device = m->device};
    ls_move on_host = *m;
    const void *parts[LS_TREE_COVER_MAX];
    ls_status status = m->kind == LS_TRAFFIC_ALL_GATHER ? stage_pieces(m, &staging, &on_host)
                       : m->kind == LS_TRAFFIC_SEND     ? stage_tensor(m->comm, &staging, m->in, m->bytes, &on_host.in)
                       : m->kind == LS_TRAFFIC_RECEIVE  ? stage_result(m, &staging, m->bytes, &on_host)
                                                        : stage_sum(m, &staging, parts, &on_host);
    *out = NULL;
    if (status == LS_OK) status = start_on_host(&on_host, out);
    return attach_staging(m->comm, &staging, status, out);
}

const ls_mover ls_mover_staged = {.name = "staged", .reaches = reaches_always, .start = start_staged};
