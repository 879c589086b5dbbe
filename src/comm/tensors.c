/* tensors.c: opens a worker's device, and chooses how a collective on device memory moves bytes: host, peers, links or
 * staged (tensors.h). */
#include "comm/tensors.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/links/links.h"
#include "comm/peers/peers.h"
#include "device/choose.h"

/* ---- devices of workers ------------------------------------------------------------------------------------------ */

static ls_world *world_of(ls_device_guest *guest) {
    return (ls_world *)(void *)((char *)guest - offsetof(ls_world, guest));
}

/* Called while the host waits for the device. Failed and lost workers are recorded in the segment. Stopped workers are
 * looked for once the wait has lasted --timeout, not counting pauses of this worker itself. */
static ls_status watch_other_workers(ls_device_guest *guest) {
    enum { SLICE_NS = 100000000, LINKS_NS = 10000000 };
    ls_world *world = world_of(guest);
    LS_TRY(ls_world_check(world));
    uint64_t now = ls_clock_ns(), since = now - world->watched_ns;
    if (world->links && since < LINKS_NS) return LS_OK;
    if (since > (uint64_t)10 * SLICE_NS) world->stood_ns = 0;
    if (since >= SLICE_NS) since = 0;
    world->watched_ns = now;
    world->stood_ns += since;
    if (world->transport->poke) world->transport->poke();
    LS_TRY(ls_links_watch(world, since));
    if ((double)world->stood_ns * 1e-9 < world->timeout_s) return LS_OK;
    world->stood_ns = 0;
    ls_status status = ls_world_check_stopped(world, world->timeout_s);
    if (status != LS_OK) ls_world_fail(world, status);
    return status;
}

static ls_status note_allocation(ls_device_guest *guest, void *memory, size_t bytes) {
    ls_peers *peers = world_of(guest)->peers;
    return peers ? ls_peers_note(peers, memory, bytes) : LS_OK;
}

static void forget_allocation(ls_device_guest *guest, void *memory) {
    ls_peers *peers = world_of(guest)->peers;
    if (peers) ls_peers_forget(peers, memory);
}

static void leave_device(ls_device_guest *guest) {
    ls_world *world = world_of(guest);
    ls_links_leave(world);
    for (int kind = 0; kind < LS_SCRATCH_KINDS; kind++)
        for (int q = 0; q < LS_QUEUES; q++) {
            ls_scratch_piece *s = &world->scratch[kind][q];
            if (!s->lent) ls_device_free(world->device, s->memory);
            *s = (ls_scratch_piece){0};
        }
    if (world->peers) ls_peers_leave(world->peers);
    world->device->guest = NULL;
    world->device = NULL;
}

static ls_status alloc_shared(void *world, size_t bytes, void **memory) { return ls_world_alloc(world, bytes, memory); }
static void release_shared(void *world, void *memory) { ls_world_free(world, memory); }

ls_status ls_world_open_device(ls_world *world, const char *name, const struct ls_kernels *kernels, ls_device **out) {
    ls_memory_source shared = {.alloc = alloc_shared, .release = release_shared, .ctx = world};
    bool is_shared = world->size > 1 || world->attempt; /* under a supervisor the tensors must outlive the worker */
    LS_TRY(ls_device_open_named(name, world->place, out));
    if (!*out) return ls_device_open_cpu_pool(world->pool, kernels, is_shared ? &shared : NULL, out);
    if ((*out)->is_host || world->size < 2 || world->device) return LS_OK;
    world->guest = (ls_device_guest){watch_other_workers, note_allocation, forget_allocation, leave_device};
    world->device = *out;
    world->device->guest = &world->guest;
    return ls_peers_open(world, *out);
}

/* ---- scratch ----------------------------------------------------------------------------------------------------- */

ls_status ls_comm_scratch(const ls_comm *comm, ls_scratch_kind kind, size_t bytes, void **out) {
    ls_device *device = comm->world->device;
    ls_scratch_piece *s = &comm->world->scratch[kind][comm->queue];
    if (s->bytes < bytes) {
        if (!s->lent) {
            ls_device_free(device, s->memory);
            device->shared_bytes -= s->bytes;
        }
        *s = (ls_scratch_piece){0};
        LS_TRY(ls_device_alloc(device, bytes, &s->memory));
        s->bytes = bytes;
        device->shared_bytes += bytes;
    }
    *out = s->memory;
    return LS_OK;
}

void ls_tensor_lend(ls_device *device, ls_comm *comm, void *memory, size_t bytes) {
    if (device != comm->world->device) return;
    ls_scratch_piece *s = &comm->world->scratch[LS_SCRATCH_SUMS][comm->queue];
    if (!s->memory) *s = (ls_scratch_piece){memory, bytes, true};
}

void ls_tensor_take_back(ls_device *device, ls_comm *comm, const void *memory) {
    if (device != comm->world->device) return;
    ls_scratch_piece *s = &comm->world->scratch[LS_SCRATCH_SUMS][comm->queue];
    if (s->memory == memory) *s = (ls_scratch_piece){0};
}

/* ---- staging ----------------------------------------------------------------------------------------------------- */

static ls_status alloc_staging(ls_comm *comm, ls_staging *staging, size_t bytes, void **host) {
    LS_TRY(ls_world_alloc(comm->world, bytes, host));
    staging->buffer[staging->buffers++] = *host;
    return LS_OK;
}

static ls_status stage_tensor(ls_comm *comm, ls_staging *staging, const void *tensor, size_t bytes, void **host) {
    LS_TRY(alloc_staging(comm, staging, bytes, host));
    return ls_device_copy_out(staging->device, *host, tensor, bytes);
}

ls_status ls_staging_end(const ls_staging *t) {
    if (t->to) return ls_device_copy_in(t->device, t->to, t->from, t->bytes);
    if (t->event.number) LS_TRY(ls_device_follow(t->device, t->event));
    for (int i = 0; i < t->counts; i++) LS_TRY(ls_device_await(t->device, t->counted[i].counter, t->counted[i].value));
    return LS_OK;
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

/* ---- moving ------------------------------------------------------------------------------------------------------ */

ls_status ls_tensor_all_gather_start(ls_device *device, ls_comm *comm, const void *in, void *out_buffer,
                                     const size_t *bytes, ls_request **out) {
    if (device->is_host) return ls_comm_all_gather_start(comm, in, out_buffer, bytes, out);
    if (ls_peers_reach_all(device, comm)) return ls_peers_all_gather_start(device, comm, in, out_buffer, bytes, out);
    if (ls_links_reach_all(device, comm)) return ls_links_all_gather_start(device, comm, in, out_buffer, bytes, out);
    size_t all = 0, own = 0;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) own = all;
        all += bytes[r];
    }
    ls_staging staging = {.device = device, .to = out_buffer, .bytes = all};
    void *host = NULL;
    *out = NULL;
    ls_status status = alloc_staging(comm, &staging, all, &host);
    staging.from = host;
    if (status == LS_OK) status = ls_device_copy_out(device, (char *)host + own, in, bytes[comm->rank]);
    if (status == LS_OK) status = ls_comm_all_gather_start(comm, (char *)host + own, host, bytes, out);
    return attach_staging(comm, &staging, status, out);
}

ls_status ls_tensor_send_start(ls_device *device, ls_comm *comm, int to, int tag, const void *buffer, size_t bytes,
                               ls_request **out) {
    if (device->is_host) return ls_comm_send_start(comm, to, tag, buffer, bytes, out);
    if (ls_peers_reach(device, comm, to)) return ls_peers_send_start(device, comm, to, tag, buffer, bytes, out);
    if (ls_links_to(device, comm, to)) return ls_links_send_start(device, comm, to, tag, buffer, bytes, out);
    ls_staging staging = {.device = device};
    void *host = NULL;
    *out = NULL;
    ls_status status = stage_tensor(comm, &staging, buffer, bytes, &host);
    if (status == LS_OK) status = ls_comm_send_start(comm, to, tag, host, bytes, out);
    return attach_staging(comm, &staging, status, out);
}

static ls_status start_receive(ls_device *device, ls_comm *comm, int from, int tag, void *buffer, size_t bytes,
                               ls_request **out) {
    if (device->is_host) return ls_comm_recv_start(comm, from, tag, buffer, bytes, out);
    if (ls_peers_reach(device, comm, from)) return ls_peers_recv_start(device, comm, from, tag, buffer, bytes, out);
    if (ls_links_from(device, comm, from)) return ls_links_recv_start(device, comm, from, tag, buffer, bytes, out);
    ls_staging staging = {.device = device, .to = buffer, .bytes = bytes};
    void *host = NULL;
    *out = NULL;
    ls_status status = alloc_staging(comm, &staging, bytes, &host);
    staging.from = host;
    if (status == LS_OK) status = ls_comm_recv_start(comm, from, tag, host, bytes, out);
    return attach_staging(comm, &staging, status, out);
}

/* ---- ordered sums ------------------------------------------------------------------------------------------------ */

/* Copies this worker's parts to the host: a single group in the type of the sum, a subtree of several groups in fp32.
 */
static ls_status stage_parts(ls_comm *comm, ls_staging *staging, const ls_runs *runs, ls_dtype dtype,
                             const void *const *parts, size_t elems, const void *host[LS_TREE_COVER_MAX]) {
    ls_tree_node nodes[LS_TREE_COVER_MAX];
    int groups = runs ? runs->groups : comm->size, rank = comm->rank;
    int first = runs && runs->bounds ? runs->bounds[rank] : (int)((int64_t)groups * rank / comm->size);
    int end = runs && runs->bounds ? runs->bounds[rank + 1] : (int)((int64_t)groups * (rank + 1) / comm->size);
    int count = ls_tree_cover(groups, first, end, nodes);
    for (int i = 0; i < count; i++) {
        size_t each = ls_dtype_bytes(nodes[i].count > 1 && dtype != LS_I64 ? LS_F32 : dtype);
        void *part = NULL;
        LS_TRY(stage_tensor(comm, staging, parts[i], elems * each, &part));
        host[i] = part;
    }
    return LS_OK;
}

static size_t sum_bytes(ls_dtype dtype) { return ls_dtype_bytes(dtype == LS_I64 ? LS_I64 : LS_F32); }

ls_status ls_tensor_all_reduce_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                     const void *const *parts, void *out_buffer, size_t elems, ls_request **out) {
    if (device->is_host) return ls_comm_all_reduce_start(comm, runs, dtype, parts, out_buffer, elems, out);
    if (ls_peers_reach_all(device, comm) && dtype != LS_I64) /* devices add up floating-point numbers only */
        return ls_peers_all_reduce_start(device, comm, runs, dtype, parts, out_buffer, elems, out);
    if (ls_links_reach_all(device, comm) && dtype != LS_I64)
        return ls_links_all_reduce_start(device, comm, runs, dtype, parts, out_buffer, elems, out);
    ls_staging staging = {.device = device, .to = out_buffer, .bytes = elems * sum_bytes(dtype)};
    const void *host[LS_TREE_COVER_MAX];
    void *sum = NULL;
    *out = NULL;
    ls_status status = stage_parts(comm, &staging, runs, dtype, parts, elems, host);
    if (status == LS_OK) status = alloc_staging(comm, &staging, staging.bytes, &sum);
    staging.from = sum;
    if (status == LS_OK) status = ls_comm_all_reduce_start(comm, runs, dtype, host, sum, elems, out);
    return attach_staging(comm, &staging, status, out);
}

ls_status ls_tensor_reduce_scatter_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                         const void *const *parts, void *out_buffer, const size_t *shards, size_t elems,
                                         ls_request **out) {
    if (device->is_host) return ls_comm_reduce_scatter_start(comm, runs, dtype, parts, out_buffer, shards, elems, out);
    if (ls_peers_reach_all(device, comm) && dtype != LS_I64)
        return ls_peers_reduce_scatter_start(device, comm, runs, dtype, parts, out_buffer, shards, elems, out);
    if (ls_links_reach_all(device, comm) && dtype != LS_I64)
        return ls_links_reduce_scatter_start(device, comm, runs, dtype, parts, out_buffer, shards, elems, out);
    size_t own = shards[comm->rank + 1] - shards[comm->rank];
    ls_staging staging = {.device = device, .to = out_buffer, .bytes = own * sum_bytes(dtype)};
    const void *host[LS_TREE_COVER_MAX];
    void *sum = NULL;
    *out = NULL;
    ls_status status = stage_parts(comm, &staging, runs, dtype, parts, elems, host);
    if (status == LS_OK) status = alloc_staging(comm, &staging, staging.bytes, &sum);
    staging.from = sum;
    if (status == LS_OK) status = ls_comm_reduce_scatter_start(comm, runs, dtype, host, sum, shards, elems, out);
    return attach_staging(comm, &staging, status, out);
}

/* ---- blocking calls ---------------------------------------------------------------------------------------------- */

ls_status ls_tensor_all_gather(ls_device *device, ls_comm *comm, const void *in, void *out, const size_t *bytes) {
    ls_request *request;
    LS_TRY(ls_tensor_all_gather_start(device, comm, in, out, bytes, &request));
    return ls_request_wait(request);
}

ls_status ls_tensor_send(ls_device *device, ls_comm *comm, int to, int tag, const void *buffer, size_t bytes) {
    ls_request *request;
    LS_TRY(ls_tensor_send_start(device, comm, to, tag, buffer, bytes, &request));
    return ls_request_wait(request);
}

ls_status ls_tensor_recv(ls_device *device, ls_comm *comm, int from, int tag, void *buffer, size_t bytes) {
    ls_request *request;
    LS_TRY(start_receive(device, comm, from, tag, buffer, bytes, &request));
    return ls_request_wait(request);
}

ls_status ls_tensor_all_reduce(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                               const void *const *parts, void *out, size_t elems) {
    ls_request *request;
    LS_TRY(ls_tensor_all_reduce_start(device, comm, runs, dtype, parts, out, elems, &request));
    return ls_request_wait(request);
}

ls_status ls_tensor_reduce_scatter(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                   const void *const *parts, void *out, const size_t *shards, size_t elems) {
    ls_request *request;
    LS_TRY(ls_tensor_reduce_scatter_start(device, comm, runs, dtype, parts, out, shards, elems, &request));
    return ls_request_wait(request);
}
