/* reduce_scatter.c: computes the ordered sum; each member gets its shard.
 *
 * Every member reads all parts of its own shard and adds them in the order of the tree: (W−1)/W of the data moves, as
 * in a ring, but in one hop instead of W−1. Stage 1: the parts can be read. Stage 2: this member has read and sent all
 * windows. */
#include "comm/collectives/reduce.h"

enum { EXPOSE, LOCAL, EXCHANGE, SUM, LEAVE };

/* Returns the bytes on slow links: each member reads its shard of all parts. */
static ls_wire_load scatter_load(const ls_request *r) { return ls_reduce_load(r, false); }

/* Runs the phase that r->phase names and sets the next; LS_REQUEST_WAITS: to be called again. EXCHANGE and SUM are
 * repeated for each window. */
static ls_status step_reduce_scatter(ls_request *r) {
    switch (r->phase) {
    case EXPOSE:
        LS_TRY(ls_reduce_expose(r));
        ls_request_publish(r, 1);
        r->phase = LOCAL;
        break;
    case LOCAL:
        LS_TRY(ls_request_meet(r, scatter_load));
        r->phase = EXCHANGE;
        break;
    case EXCHANGE:
        LS_TRY(ls_reduce_exchange(r));
        r->phase = SUM;
        break;
    case SUM: {
        LS_TRY(ls_request_net_await(r));
        size_t begin;
        (void)ls_reduce_window(r, r->comm->rank, &begin);
        void *outs[1] = {(char *)r->out + (begin - r->bounds[r->comm->rank]) * ls_reduce_width(r)};
        LS_TRY(ls_reduce_sum(r, outs, 1, false));
        if (++r->window < ls_reduce_windows(r)) {
            r->phase = EXCHANGE;
            break;
        }
        ls_request_publish(r, 2);
        r->phase = LEAVE;
        break;
    }
    case LEAVE: LS_TRY(ls_request_await_all(r, 2)); return ls_request_complete(r);
    }
    return LS_OK;
}

/* Returns LS_ERR_INPUT unless the bounds ascend from 0 to `elems`; NULL is valid. */
static ls_status check_shards(const size_t *shards, int size, size_t elems) {
    if (!shards) return LS_OK;
    bool good = shards[0] == 0 && shards[size] == elems;
    for (int i = 0; i < size; i++) good = good && shards[i] <= shards[i + 1];
    return good ? LS_OK : ls_fail(LS_ERR_INPUT, "shard boundaries must ascend from 0 to %zu elements", elems);
}

ls_status ls_reduce_scatter_prepare(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                    void *out_buffer, const size_t *shards, size_t elems,
                                    ls_status (*how)(ls_request *), ls_request **out) {
    *out = NULL;
    LS_TRY(check_shards(shards, comm->size, elems));
    LS_TRY(ls_reduce_prepare(comm, runs, dtype, parts, elems, LS_TRAFFIC_REDUCE_SCATTER, how, out));
    ls_request *r = *out;
    if (shards)
        for (int i = 0; i <= comm->size; i++) r->bounds[i] = shards[i];
    else
        ls_shard_bounds(elems, comm->size, r->bounds);
    uint64_t mixed = 0;
    for (int i = 0; i < comm->size; i++) mixed = ls_fingerprint(mixed, r->bounds[i], 0, 0);
    r->fingerprint ^= mixed;
    r->out = out_buffer;
    r->traffic_bytes = ls_reduce_traffic(r, r->bounds[comm->rank + 1] - r->bounds[comm->rank]);
    return LS_OK;
}

/* Starts an ordered reduce-scatter (ls_comm_reduce_scatter()); ls_request_wait() ends it, and the buffers belong to it
 * until then. */
ls_status ls_comm_reduce_scatter_start(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                       void *out_buffer, const size_t *shards, size_t elems, ls_request **out) {
    LS_TRY(ls_reduce_scatter_prepare(comm, runs, dtype, parts, out_buffer, shards, elems, step_reduce_scatter, out));
    return ls_request_launch(*out, out);
}

ls_status ls_comm_reduce_scatter(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                 void *out, const size_t *shards, size_t elems) {
    ls_request *r;
    LS_TRY(ls_comm_reduce_scatter_start(comm, runs, dtype, parts, out, shards, elems, &r));
    return ls_request_wait(r);
}

void ls_shard_bounds(size_t elems, int size, size_t *bounds) {
    size_t blocks = (elems + 1023) / 1024, each = blocks / (size_t)size, more = blocks % (size_t)size;
    bounds[0] = 0;
    for (int i = 0; i < size; i++) {
        size_t end = bounds[i] + (each + ((size_t)i < more)) * 1024;
        bounds[i + 1] = end < elems ? end : elems;
    }
}
