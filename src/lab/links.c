/* links.c: calls of the collectives. */
#include "lab/links.h"

void ls_link_resize(ls_link_vector *v, size_t bytes) {
    v->elems = bytes / sizeof(float);
    for (int r = 0; r <= v->size; r++) v->shards[r] = v->elems * (size_t)r / (size_t)v->size;
    for (int r = 0; r < v->size; r++) v->shard_bytes[r] = (v->shards[r + 1] - v->shards[r]) * sizeof(float);
}

static ls_status ping_pong(const ls_link_vector *v) {
    size_t bytes = v->elems * sizeof(float);
    if (v->rank > 1) return LS_OK;
    if (v->rank == 0) LS_TRY(ls_comm_send(v->comm, 1, 0, v->in, bytes));
    LS_TRY(ls_comm_recv(v->comm, 1 - v->rank, 0, v->out, bytes));
    return v->rank == 0 ? LS_OK : ls_comm_send(v->comm, 0, 0, v->in, bytes);
}

ls_status ls_link_call(void *vector) {
    const ls_link_vector *v = vector;
    const void *part = v->in;
    switch (v->op) {
    case LS_NATIVE_ALL_REDUCE: return ls_comm_all_reduce(v->comm, NULL, LS_F32, &part, v->out, v->elems);
    case LS_NATIVE_REDUCE_SCATTER:
        return ls_comm_reduce_scatter(v->comm, NULL, LS_F32, &part, v->out, v->shards, v->elems);
    case LS_NATIVE_ALL_GATHER: return ls_comm_all_gather(v->comm, v->in, v->out, v->shard_bytes);
    default: return ping_pong(v);
    }
}

ls_status ls_link_time(const ls_timer *timer, ls_link_vector *v, ls_timing *out) {
    LS_TRY(ls_timer_run(timer, ls_link_call, v, out));
    for (int i = 0; i < out->samples && v->op == LS_NATIVE_SEND; i++) out->seconds[i] *= v->rank > 1 ? 0 : 0.5;
    return LS_OK;
}
