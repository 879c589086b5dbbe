/* links.c: collectives and messages of groups of workers, all groups at the same time.
 *
 * Groups are neighbours; sizes double from 2 to all workers. A message is half of a ping-pong between pairs. */
#include "base/clock.h"
#include "comm/world.h"
#include "lab/probe/parts.h"

enum { SAMPLES = 5, REPEATS_MAX = 4096 };
static const double sample_seconds = 2e-3;

typedef struct vector {
    ls_comm *comm;
    int rank, size;
    size_t elems;
    float *in, *out;
    size_t shard_bytes[LS_WORKERS_MAX], shards[LS_WORKERS_MAX + 1];
} vector;

static ls_status ping_pong(const vector *v) {
    size_t bytes = v->elems * sizeof(float);
    int peer = v->rank ^ 1;
    if (peer >= v->size) return LS_OK;
    if (v->rank % 2 == 0) LS_TRY(ls_comm_send(v->comm, peer, 0, v->in, bytes));
    LS_TRY(ls_comm_recv(v->comm, peer, 0, v->out, bytes));
    return v->rank % 2 == 0 ? LS_OK : ls_comm_send(v->comm, peer, 0, v->in, bytes);
}

static ls_status call(const vector *v, ls_native_op op) {
    const void *part = v->in;
    switch (op) {
    case LS_NATIVE_ALL_REDUCE: return ls_comm_all_reduce(v->comm, NULL, LS_F32, &part, v->out, v->elems);
    case LS_NATIVE_REDUCE_SCATTER:
        return ls_comm_reduce_scatter(v->comm, NULL, LS_F32, &part, v->out, v->shards, v->elems);
    case LS_NATIVE_ALL_GATHER: return ls_comm_all_gather(v->comm, v->in, v->out, v->shard_bytes);
    default: return ping_pong(v);
    }
}

static void resize(vector *v, size_t bytes) {
    v->elems = bytes / sizeof(float);
    for (int r = 0; r <= v->size; r++) v->shards[r] = v->elems * (size_t)r / (size_t)v->size;
    for (int r = 0; r < v->size; r++) v->shard_bytes[r] = (v->shards[r + 1] - v->shards[r]) * sizeof(float);
}

static ls_status time_calls(const ls_probe_worker *w, const vector *v, ls_native_op op, int repeats, double *seconds) {
    LS_TRY(ls_comm_barrier(w->comm));
    double begin = ls_clock_seconds();
    for (int i = 0; i < repeats; i++) LS_TRY(call(v, op));
    *seconds = (ls_clock_seconds() - begin) / repeats;
    return LS_OK;
}

/* Of the first worker's clock: all make as many calls. */
static ls_status measure(const ls_probe_worker *w, const vector *v, ls_native_op op, double *seconds) {
    double samples[SAMPLES], once;
    int32_t plan[2];
    LS_TRY(time_calls(w, v, op, 2, &once));
    double each = sample_seconds / (once > 1e-9 ? once : 1e-9);
    plan[0] = ls_clock_seconds() < w->end ? SAMPLES : 1;
    plan[1] = each < 2 ? 2 : each > REPEATS_MAX ? REPEATS_MAX : (int32_t)each;
    LS_TRY(ls_comm_broadcast(w->comm, 0, plan, sizeof plan));
    for (int i = 0; i < plan[0]; i++) LS_TRY(time_calls(w, v, op, plan[1], &samples[i]));
    *seconds = ls_probe_quartile(samples, plan[0]) / (op == LS_NATIVE_SEND ? 2 : 1);
    if (*seconds < 1e-9) *seconds = 1e-9;
    return ls_comm_broadcast(w->comm, 0, seconds, sizeof *seconds);
}

static ls_status measure_group(const ls_probe_worker *w, vector *v) {
    ls_native_machine *machine = w->machine;
    for (int op = 0; op < LS_NATIVE_OPS; op++) {
        if (op == LS_NATIVE_SEND && v->size > 2) continue;
        if (machine->links == LS_NATIVE_LINKS_MAX) return LS_OK;
        ls_native_link *link = &machine->link[machine->links];
        *link = (ls_native_link){.workers = w->size, .group = v->size, .op = (ls_native_op)op};
        for (int s = 0; s < LS_NATIVE_LINK_SIZES; s++) {
            resize(v, ls_native_link_bytes[s]);
            LS_TRY(measure(w, v, (ls_native_op)op, &link->seconds[s]));
        }
        machine->links++;
    }
    return LS_OK;
}

ls_status ls_probe_links(const ls_probe_worker *w) {
    size_t elems = ls_native_link_bytes[LS_NATIVE_LINK_SIZES - 1] / sizeof(float);
    vector v = {0};
    ls_status status;
    LS_TRY_OUT(ls_probe_alloc(w, elems, &v.in));
    LS_TRY_OUT(ls_probe_alloc(w, elems, &v.out));
    for (int group = 2; group <= w->size; group *= 2) {
        if (w->size % group != 0) continue;
        LS_TRY_OUT(ls_comm_split(w->comm, w->rank / group, w->rank, &v.comm));
        v.rank = ls_comm_rank(v.comm);
        v.size = group;
        status = measure_group(w, &v);
        if (status != LS_OK) ls_world_fail(w->world, status); /* or the others would be waited for */
        ls_comm_destroy(v.comm);
        if (status != LS_OK) goto out;
    }
out:
    ls_probe_free(w, v.in);
    ls_probe_free(w, v.out);
    return status;
}
