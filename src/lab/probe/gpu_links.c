/* gpu_links.c: measures collectives of workers on GPUs: over links between GPUs, or inside a GPU that they share. A
 * copy of calls.c with device memory. */
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "comm/movers/tensors.h"
#include "comm/world/world.h"
#include "lab/calls.h"
#include "lab/probe/gpu.h"
#include "lab/trial.h"

/* Figures that all workers see. */
typedef struct job {
    const char *device;
    ls_native_gpu *out;
} job;

typedef struct worker {
    ls_world *world;
    ls_device *device;
    ls_link_vector v;
    ls_native_gpu *out; /* the worker's own */
    bool is_slow;       /* a CPU emulates the GPU */
} worker;

static const size_t sizes[LS_NATIVE_LINK_SIZES] = {64 << 10, 1 << 20, 16 << 20, 128 << 20},
                    slow_sizes[LS_NATIVE_LINK_SIZES] = {1 << 10, 2 << 10, 4 << 10, 8 << 10};

/* Returns whether a CPU emulates the GPU, by the sizes that were chosen for it. */
static bool is_slow(const ls_native_gpu *gpu) { return gpu->rates.sizes.pass[1] < (1 << 16); }

/* Sends the vector from rank 0 to rank 1 and back; other ranks return at once. */
static ls_status ping_pong(const worker *w) {
    const ls_link_vector *v = &w->v;
    size_t bytes = v->elems * sizeof(float);
    if (v->rank > 1) return LS_OK;
    if (v->rank == 0) LS_TRY(ls_tensor_send(w->device, v->comm, 1, 0, v->in, bytes));
    LS_TRY(ls_tensor_recv(w->device, v->comm, 1 - v->rank, 0, v->out, bytes));
    return v->rank == 0 ? LS_OK : ls_tensor_send(w->device, v->comm, 0, 0, v->in, bytes);
}

/* Runs the vector's operation once. Collective. */
static ls_status run_collective(const worker *w) {
    const ls_link_vector *v = &w->v;
    const void *part = v->in;
    switch (v->op) {
    case LS_NATIVE_ALL_REDUCE: return ls_tensor_all_reduce(w->device, v->comm, NULL, LS_F32, &part, v->out, v->elems);
    case LS_NATIVE_REDUCE_SCATTER:
        return ls_tensor_reduce_scatter(w->device, v->comm, NULL, LS_F32, &part, v->out, v->shards, v->elems);
    case LS_NATIVE_ALL_GATHER: return ls_tensor_all_gather(w->device, v->comm, v->in, v->out, v->shard_bytes);
    default: return ping_pong(w);
    }
}

/* Measures one message size by the clock of rank 0, one way of a ping-pong; keeps the minimum of several rounds, the
 * same on all ranks. */
static ls_status measure_size(worker *w, double *seconds) {
    const int rounds = w->is_slow ? 1 : 3, calls = w->is_slow ? 1 : 4;
    ls_comm *all = ls_world_comm(w->world);
    double share = w->v.op == LS_NATIVE_SEND ? .5 : 1;
    for (int round = 0; round <= rounds; round++) {
        LS_TRY(ls_device_finish(w->device));
        LS_TRY(ls_comm_barrier(all));
        double begin = ls_clock_seconds();
        for (int i = 0; i < calls; i++) LS_TRY(run_collective(w));
        LS_TRY(ls_device_finish(w->device));
        double took = (ls_clock_seconds() - begin) / calls * share;
        if (round <= 1 || took < *seconds) *seconds = took; /* the first opens the others' memory */
    }
    if (*seconds < 1e-9) *seconds = 1e-9;
    return ls_comm_broadcast(all, 0, seconds, sizeof *seconds);
}

/* Measures all operations and sizes of the vector's group, and appends them to the worker's links. */
static ls_status measure_group(worker *w) {
    ls_native_gpu *out = w->out;
    for (int op = 0; op < LS_NATIVE_OPS && out->links < LS_NATIVE_GPU_LINKS_MAX; op++) {
        if (op == LS_NATIVE_SEND && w->v.size > 2) continue;
        ls_native_link *link = &out->link[out->links];
        *link = (ls_native_link){.workers = ls_world_size(w->world), .group = w->v.size, .op = (ls_native_op)op};
        w->v.op = link->op;
        for (int s = 0; s < LS_NATIVE_LINK_SIZES; s++) {
            ls_link_resize(&w->v, out->link_bytes[s]);
            LS_TRY(measure_size(w, &link->seconds[s]));
        }
        out->links++;
    }
    return LS_OK;
}

/* Measures all groups of a size, of adjacent ranks, concurrently. */
static ls_status measure_groups(worker *w) {
    size_t bytes = w->out->link_bytes[LS_NATIVE_LINK_SIZES - 1];
    void *memory[2] = {NULL, NULL};
    ls_status status = LS_OK;
    for (int i = 0; i < 2; i++) LS_TRY_OUT(ls_device_alloc(w->device, bytes, &memory[i]));
    w->v.in = memory[0];
    w->v.out = memory[1];
    for (int group = 2; group <= ls_world_size(w->world); group *= 2) {
        int rank = ls_world_rank(w->world);
        LS_TRY_OUT(ls_comm_split(ls_world_comm(w->world), rank / group, rank, &w->v.comm));
        w->v.rank = ls_comm_rank(w->v.comm);
        w->v.size = group;
        status = measure_group(w);
        if (status != LS_OK) ls_world_fail(w->world, status); /* or the others would be waited for */
        ls_comm_destroy(w->v.comm);
        if (status != LS_OK) break;
    }
out:
    for (int i = 0; i < 2; i++) ls_device_free(w->device, memory[i]);
    return status;
}

/* Measures in one worker; rank 0 writes the result to shared memory. */
static ls_status worker_main(ls_world *world, void *arg) {
    const job *j = arg;
    static ls_native_gpu own;
    worker w = {.world = world, .out = &own};
    ls_fpenv_set();
    own = *j->out;
    w.is_slow = is_slow(&own);
    LS_TRY(ls_world_open_device(world, j->device, NULL, &w.device));
    ls_status status = measure_groups(&w);
    if (status == LS_OK && ls_world_rank(world) == 0) *j->out = own;
    if (status != LS_OK) ls_world_fail(world, status);
    ls_device_destroy(w.device);
    return status;
}

/* Runs 2, 4, … workers up to the number of GPUs, at least two, which then share one. */
ls_status ls_probe_gpu_links(const char *device, ls_native_gpu *out) {
    ls_native_gpu *shared = ls_trial_alloc(1, sizeof *shared);
    if (!shared) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the figures of a GPU");
    *shared = *out;
    memcpy(shared->link_bytes, is_slow(out) ? slow_sizes : sizes, sizeof shared->link_bytes);
    job j = {.device = device, .out = shared};
    ls_status status = LS_OK;
    for (int n = 2; n <= (out->count > 2 ? out->count : 2); n *= 2) {
        ls_workers_options options = {.workers = n, .timeout_s = 60};
        status = ls_workers_run(&options, worker_main, &j);
        if (status != LS_OK) break;
    }
    if (shared->links > 0) *out = *shared;
    ls_trial_free(shared);
    return ls_status_is_stop(status) ? status : LS_OK;
}
