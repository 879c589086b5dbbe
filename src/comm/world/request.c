/* request.c: the common part of all collectives: slots (entries in shared memory by which local members exchange
 * offsets and the stage they have reached, comm.h), copies of private buffers in the segment, messages between
 * machines. */
#include "comm/world/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/world/reduce_plan.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

typedef struct kind_names {
    const char *text, *trace;
    bool collective;
} kind_names;

static const kind_names kinds[LS_TRAFFIC_KINDS + 1] = {
    [LS_TRAFFIC_REDUCE_SCATTER] = {"reduce-scatter", "reduce_scatter", true},
    [LS_TRAFFIC_ALL_REDUCE] = {"all-reduce", "all_reduce", true},
    [LS_TRAFFIC_ALL_GATHER] = {"all-gather", "all_gather", true},
    [LS_TRAFFIC_ALL_TO_ALL] = {"all-to-all", "all_to_all", true},
    [LS_TRAFFIC_BROADCAST] = {"broadcast", "broadcast", true},
    [LS_TRAFFIC_SEND] = {"send", "send", false},
    [LS_TRAFFIC_RECEIVE] = {"receive", "receive", false},
    [LS_TRAFFIC_BARRIER] = {"barrier", "barrier", true},
    [LS_TRAFFIC_KINDS] = {"the end of a communicator", "end", false},
};

const char *ls_traffic_kind_name(ls_traffic_kind kind) { return kinds[kind].text; }
const char *ls_request_trace_name(const ls_request *r) { return kinds[r->kind].trace; }

ls_status ls_request_make(ls_comm *comm, ls_traffic_kind kind, ls_status (*step)(ls_request *), ls_request **out) {
    ls_world *world = comm->world;
    *out = NULL;
    if (world->failure.failed && world->failure.cause) return ls_fail(world->failure.cause, "%s", world->failure.text);
    if (world->failure.failed)
        return ls_fail(LS_ERR_PEER, "%s called after a failure: the communicator can no longer be used",
                       ls_traffic_kind_name(kind));
    ls_request *r = world->requests.spare;
    if (!r) {
        r = calloc(1, sizeof *r);
        if (!r) return ls_fail(LS_ERR_RESOURCE, "out of memory for a request");
        world->requests.spare = r;
    }
    if (r->bounds_capacity < comm->size + 1) {
        size_t *bounds = realloc(r->bounds, sizeof *bounds * ((size_t)comm->size + 1));
        if (!bounds) return ls_fail(LS_ERR_RESOURCE, "out of memory for a request");
        r->bounds = bounds;
        r->bounds_capacity = comm->size + 1;
    }
    world->requests.spare = r->next;
    memset(r, 0, offsetof(ls_request, bounds));
    r->comm = comm;
    r->kind = kind;
    r->step = step;
    r->number = kinds[kind].collective ? ++comm->issued : 0;
    r->blocked_on = -1;
    *out = r;
    return LS_OK;
}

void ls_request_release(ls_request *r) {
    ls_world *world = r->comm->world;
    for (int i = 0; i < r->staged; i++) ls_heap_free(&world->heap, r->staging[i]);
    r->staged = 0;
    for (int i = 0; r->tensors && i < r->tensors->buffers; i++) ls_world_free(world, r->tensors->buffer[i]);
    free(r->tensors);
    r->tensors = NULL;
    free(r->scratch);
    r->scratch = NULL;
    ls_reduce_plan_release(r->plan);
    r->plan = NULL;
    r->next = world->requests.spare;
    world->requests.spare = r;
}

ls_status ls_request_complete(ls_request *r) {
    ls_comm *comm = r->comm;
    if (r->number && comm->control && r->kind != LS_TRAFFIC_BROADCAST) r->ready_ns = ls_wire_published_ns(r, 1, -1);
    if (r->user_out) ls_world_copy(comm->world, r->user_out, r->out, r->user_out_bytes, false);
    r->done = true;
    ls_span_end_overlapping(r->span, (int64_t)r->traffic_bytes);
    ls_world_moved(comm->world);
    if (!r->number) return LS_OK;
    comm->done[r->number % LS_SLOTS] = true;
    uint64_t before = comm->done_upto;
    while (comm->done_upto < comm->issued && comm->done[(comm->done_upto + 1) % LS_SLOTS]) {
        comm->done_upto++;
        comm->done[comm->done_upto % LS_SLOTS] = false;
    }
    if (!comm->control || comm->done_upto == before) return LS_OK;
    atomic_store_explicit(&comm->completed[comm->local].count, comm->done_upto, memory_order_release);
    /* Members wait for this count only if they are LS_SLOTS ahead, so not every change needs to wake them. */
    if (comm->done_upto / (LS_SLOTS / 2) != before / (LS_SLOTS / 2)) ls_comm_ring(comm);
    return LS_OK;
}

void ls_requests_free(ls_request *list) {
    while (list) {
        ls_request *next = list->next;
        ls_reduce_plan_release(list->plan);
        free(list->scratch);
        free(list->bounds);
        free(list->net);
        free(list->tensors);
        free(list);
        list = next;
    }
}

/* ---- bells ------------------------------------------------------------------------------------------------------- */

/* Wakes a worker with a system call, but only if it has announced that it sleeps. */
static void ring_if_asleep(ls_worker_record *peer) {
    if (atomic_load_explicit(&peer->sleeping, memory_order_relaxed)) ls_segment_ring(peer);
}

/* The fence orders the caller's publication before the read of `sleeping`; sleep_once() has the other half. */
void ls_comm_ring(ls_comm *comm) {
    atomic_thread_fence(memory_order_seq_cst);
    for (int l = 0; l < comm->local_size; l++) ring_if_asleep(comm->records[l]);
}

void ls_comm_ring_member(ls_comm *comm, int local) {
    atomic_thread_fence(memory_order_seq_cst);
    ring_if_asleep(comm->records[local]);
}

/* ---- slots and stages -------------------------------------------------------------------------------------------- */

/* Returns whether all local members have completed collective `number − LS_SLOTS`, whose slot this one reuses. If
 * another member has not, names the slowest in r->blocked_on; if this member itself has not, leaves that unchanged. */
static bool is_slot_free(ls_request *r) {
    ls_comm *comm = r->comm;
    if (r->number <= LS_SLOTS) return true;
    uint64_t need = r->number - LS_SLOTS;
    if (comm->done_upto < need) return false;
    if (!comm->control || comm->peers_done_upto >= need) return true;
    uint64_t least = UINT64_MAX;
    for (int l = 0; l < comm->local_size; l++) {
        uint64_t count = atomic_load_explicit(&comm->completed[l].count, memory_order_acquire);
        if (count >= least) continue;
        least = count;
        r->blocked_on = ls_comm_local_rank(comm, l);
    }
    comm->peers_done_upto = least;
    return least >= need;
}

ls_status ls_request_step(ls_request *r) {
    if (r->number && r->phase == 0 && !is_slot_free(r)) return LS_OK;
    ls_status status = LS_OK;
    while (status == LS_OK && !r->done) status = r->step(r);
    return status == LS_REQUEST_WAITS ? LS_OK : status;
}

void ls_request_publish(ls_request *r, uint64_t stage) {
    ls_comm *comm = r->comm;
    ls_world_moved(comm->world);
    if (!comm->control) return;
    ls_slot *mine = ls_comm_slot(comm, r, comm->local);
    mine->fingerprint = r->fingerprint;
    atomic_store_explicit(&mine->ready_ns[stage > 1], ls_clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&mine->stage, r->number << LS_STAGE_BITS | stage, memory_order_release);
    ls_comm_ring(comm);
}

ls_status ls_request_await(ls_request *r, int local, uint64_t stage) {
    ls_comm *comm = r->comm;
    if (!comm->control) return LS_OK;
    uint64_t there = atomic_load_explicit(&ls_comm_slot(comm, r, local)->stage, memory_order_acquire);
    if (there >= (r->number << LS_STAGE_BITS | stage)) return LS_OK;
    r->blocked_on = ls_comm_local_rank(comm, local);
    return LS_REQUEST_WAITS;
}

ls_status ls_request_await_all(ls_request *r, uint64_t stage) {
    for (int l = 0; l < r->comm->local_size; l++)
        if (l != r->comm->local) LS_TRY(ls_request_await(r, l, stage));
    return LS_OK;
}

ls_status ls_request_check_peer(ls_request *r, int local) {
    ls_comm *comm = r->comm;
    if (ls_comm_slot(comm, r, local)->fingerprint == r->fingerprint) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "workers %d and %d disagree on collective %llu: worker %d called %s, the other a different "
                   "collective or different sizes",
                   comm->world_rank[comm->rank], comm->world_rank[ls_comm_local_rank(comm, local)],
                   (unsigned long long)r->number, comm->world_rank[comm->rank], ls_traffic_kind_name(r->kind));
}

ls_status ls_request_check_peers(ls_request *r) {
    for (int l = 0; r->comm->control && l < r->comm->local_size; l++) LS_TRY(ls_request_check_peer(r, l));
    return LS_OK;
}

ls_status ls_request_meet(ls_request *r, ls_wire_load (*load)(const ls_request *)) {
    LS_TRY(ls_request_await_all(r, 1));
    LS_TRY(ls_request_check_peers(r));
    return ls_wire_arrived(r, 1, -1, load) ? LS_OK : LS_REQUEST_WAITS;
}

/* ---- staging ----------------------------------------------------------------------------------------------------- */

ls_status ls_request_share(ls_request *r, const void *memory, size_t bytes, bool filled, void **shared) {
    ls_world *world = r->comm->world;
    if (!r->comm->control || bytes == 0 || ls_segment_holds(&world->segment, memory)) {
        /* Returns the caller's own buffer; only outputs are written through this pointer. */
        memcpy(shared, &memory, sizeof memory);
        return LS_OK;
    }
    assert(r->staged <= LS_TREE_COVER_MAX);
    LS_TRY(ls_heap_alloc(&world->heap, bytes, true, shared));
    r->staging[r->staged++] = *shared;
    if (filled) ls_world_copy(world, *shared, memory, bytes, false);
    return LS_OK;
}

ls_status ls_request_share_out(ls_request *r, size_t bytes, bool filled) {
    void *user = r->out;
    LS_TRY(ls_request_share(r, user, bytes, filled, &r->out));
    if (r->out == user) return LS_OK;
    r->user_out = user;
    r->user_out_bytes = bytes;
    return LS_OK;
}

/* ---- messages between machines ----------------------------------------------------------------------------------- */

/* Returns in *out space for one more message of the request; it counts only after count_net_entry(). */
static ls_status add_net_entry(ls_request *r, ls_net_request **out) {
    *out = NULL;
    ls_net_request *net = ls_list_grow(r->net, r->net_used, &r->net_capacity, sizeof *net);
    if (!net) return ls_fail(LS_ERR_RESOURCE, "out of memory for a message");
    r->net = net;
    *out = &net[r->net_used];
    return LS_OK;
}

/* Counts the message in the last entry as in flight, once the transport has accepted it. */
static void count_net_entry(ls_request *r, int peer) {
    r->net[r->net_used++].peer = peer;
    r->comm->world->requests.net_pending++;
    ls_world_moved(r->comm->world);
}

ls_status ls_request_net_send(ls_request *r, ls_net_lane lane, int to, int tag, const void *data, size_t bytes) {
    ls_net_request *entry = NULL;
    LS_TRY(add_net_entry(r, &entry));
    LS_TRY(r->comm->world->transport->send(r->comm, lane, to, tag, data, bytes, entry));
    count_net_entry(r, to);
    return LS_OK;
}

ls_status ls_request_net_recv(ls_request *r, ls_net_lane lane, int from, int tag, void *data, size_t bytes) {
    ls_net_request *entry = NULL;
    LS_TRY(add_net_entry(r, &entry));
    LS_TRY(r->comm->world->transport->recv(r->comm, lane, from, tag, data, bytes, entry));
    count_net_entry(r, from);
    return LS_OK;
}

ls_status ls_request_net_await(ls_request *r) {
    ls_world *world = r->comm->world;
    while (r->net_used > 0) {
        ls_net_request *last = &r->net[r->net_used - 1];
        bool arrived = false;
        LS_TRY(world->transport->test(last, &arrived));
        if (!arrived) {
            r->blocked_on = last->peer;
            return LS_REQUEST_WAITS;
        }
        r->net_used--;
        world->requests.net_pending--;
        ls_world_moved(world);
    }
    return LS_OK;
}
