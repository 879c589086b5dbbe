/* collectives.c: collectives on device memory that all local members can access; the steps are in peers.h.
 *
 * all-gather: each member reads the pieces of the others into its own output. reduce-scatter: each member adds up its
 * shard, reading all parts in place. all-reduce: a reduce-scatter, after which each member writes its shard of the sum
 * to all outputs. An output may be a part, because only member d reads shard d of the parts before it writes shard d of
 * the outputs. */
#include <stdlib.h>
#include <string.h>

#include "comm/collectives/reduce.h"
#include "comm/peers/peers.h"

enum { EXPOSE, RUN, TELL, LEAVE };

/* What a member publishes, in the memory that small collectives on host memory use for their data. */
typedef struct entry {
    uint64_t ready, done; /* values that its counters will reach */
    uint64_t out, parts[LS_TREE_COVER_MAX];
} entry;

_Static_assert(sizeof(entry) <= LS_SMALL_BYTES, "an entry must fit");

/* Returns a local member's entry for this collective. */
static entry *entry_of(const ls_request *r, int local) { return (entry *)(void *)ls_comm_small(r->comm, r, local); }

/* Returns the bytes of a rank's piece of an all-gather. */
static size_t piece_bytes(const ls_request *r, int rank) { return r->bounds[rank + 1] - r->bounds[rank]; }

/* ---- start ------------------------------------------------------------------------------------------------------- */

/* Writes the places of this member's parts of a sum into its entry. */
static ls_status publish_parts(ls_request *r, entry *mine) {
    ls_peers *peers = r->comm->world->peers;
    const ls_reduce_plan *plan = r->plan;
    int first = plan->part_first[r->comm->rank], n = plan->part_first[r->comm->rank + 1] - first;
    for (int i = 0; i < n; i++) {
        size_t bytes = r->bytes * ls_dtype_bytes(ls_reduce_node_dtype(r, plan->parts[first + i]));
        LS_TRY(ls_peers_place(peers, r->parts[i], bytes, &mine->parts[i]));
    }
    return LS_OK;
}

/* Writes the places of this member's tensors, and the value of its `ready`, into its entry. */
static ls_status publish_places(ls_request *r) {
    const ls_comm *comm = r->comm;
    ls_peers *peers = comm->world->peers;
    entry *mine = entry_of(r, comm->local);
    mine->ready = r->tensors->ready;
    if (r->kind == LS_TRAFFIC_ALL_GATHER)
        return ls_peers_place(peers, r->in, piece_bytes(r, comm->rank), &mine->parts[0]);
    if (r->kind == LS_TRAFFIC_ALL_REDUCE)
        LS_TRY(ls_peers_place(peers, r->out, r->bytes * ls_reduce_width(r), &mine->out));
    return publish_parts(r, mine);
}

/* ---- run --------------------------------------------------------------------------------------------------------- */

/* Enqueues the copies of the other members' pieces into this member's output. */
static ls_status gather_from_peers(const ls_request *r) {
    const ls_comm *comm = r->comm;
    ls_device *device = r->tensors->device;
    char *own = (char *)r->out + r->bounds[comm->rank];
    if (r->in != own && piece_bytes(r, comm->rank))
        LS_TRY(ls_device_copy(device, own, r->in, piece_bytes(r, comm->rank)));
    /* Each member starts with its next neighbour, so that not all read the same memory at once. */
    for (int i = 1; i < comm->local_size; i++) {
        int l = (comm->local + i) % comm->local_size, rank = ls_comm_local_rank(comm, l);
        void *piece;
        LS_TRY(ls_peers_at(comm, l, entry_of(r, l)->parts[0], &piece));
        if (piece) LS_TRY(ls_device_copy(device, (char *)r->out + r->bounds[rank], piece, piece_bytes(r, rank)));
    }
    return LS_OK;
}

/* Enqueues the sum of this worker's shard into `out`, reading all members' parts in place. */
static ls_status sum_shard_of_peers(const ls_request *r, void *out) {
    const ls_comm *comm = r->comm;
    const ls_reduce_plan *plan = r->plan;
    size_t begin = r->bounds[comm->rank], elems = r->bounds[comm->rank + 1] - begin;
    if (elems == 0) return LS_OK;
    const void **sources = malloc(sizeof *sources * (size_t)plan->n_sources);
    if (!sources) return ls_fail(LS_ERR_RESOURCE, "out of memory for a sum of %d parts", plan->n_sources);
    ls_status status = LS_OK;
    for (int i = 0; i < plan->n_sources; i++) {
        const ls_reduce_source *s = &plan->sources[i];
        void *part = NULL;
        if (s->local != comm->local)
            LS_TRY_OUT(ls_peers_at(comm, s->local, entry_of(r, s->local)->parts[s->index], &part));
        const char *whole = s->local == comm->local ? r->parts[s->index] : part;
        sources[i] = whole + begin * ls_dtype_bytes(ls_reduce_node_dtype(r, s->node));
    }
    LS_TRY_OUT(ls_device_sum(r, &plan->whole, plan->sources, plan->n_sources, sources, out, elems));
out:
    free(sources);
    return status;
}

/* Enqueues the sum of this worker's shard and its copies into the outputs of all other members. */
static ls_status reduce_to_peers(const ls_request *r) {
    const ls_comm *comm = r->comm;
    size_t width = ls_reduce_width(r), begin = r->bounds[comm->rank] * width;
    size_t bytes = r->bounds[comm->rank + 1] * width - begin;
    LS_TRY(sum_shard_of_peers(r, (char *)r->out + begin));
    for (int i = 1; bytes && i < comm->local_size; i++) {
        int l = (comm->local + i) % comm->local_size;
        void *out;
        LS_TRY(ls_peers_at(comm, l, entry_of(r, l)->out, &out));
        LS_TRY(ls_device_copy(r->tensors->device, (char *)out + begin, (char *)r->out + begin, bytes));
    }
    return LS_OK;
}

/* Enqueues this worker's part of the collective. */
static ls_status move(const ls_request *r) {
    if (r->kind == LS_TRAFFIC_ALL_GATHER) return gather_from_peers(r);
    return r->kind == LS_TRAFFIC_ALL_REDUCE ? reduce_to_peers(r) : sum_shard_of_peers(r, r->out);
}

/* Enqueues in the current queue: wait for the own start and for all members' `ready`, the work, the signal `done`. */
static ls_status enqueue(ls_request *r) {
    const ls_comm *comm = r->comm;
    ls_staging *t = r->tensors;
    LS_TRY(ls_device_follow(t->device, t->begun));
    for (int l = 0; l < comm->local_size; l++)
        if (l != comm->local)
            LS_TRY(ls_device_await(t->device, ls_peers_counter(comm, l, LS_PEERS_READY), entry_of(r, l)->ready));
    LS_TRY(move(r));
    LS_TRY(ls_peers_signal(comm, LS_PEERS_DONE, &entry_of(r, comm->local)->done));
    return ls_device_record(t->device, &t->event);
}

/* Enqueues this worker's part of the collective in the communicator's queue, as one span of a trace. */
static ls_status enqueue_on_queue(ls_request *r) {
    ls_span span = ls_span_begin("comm", "enqueue");
    int before = ls_device_use(r->tensors->device, r->comm->queue);
    ls_status status = enqueue(r);
    (void)ls_device_use(r->tensors->device, before);
    ls_span_end(span, (int64_t)r->number);
    return status;
}

/* ---- end --------------------------------------------------------------------------------------------------------- */

/* Lists the `done` of all other members, for which later work of this worker waits (ls_request_wait). */
static void note_readers(ls_request *r) {
    const ls_comm *comm = r->comm;
    ls_staging *t = r->tensors;
    for (int l = 0; l < comm->local_size; l++)
        if (l != comm->local)
            t->counted[t->counts++] = (ls_counted){ls_peers_counter(comm, l, LS_PEERS_DONE), entry_of(r, l)->done};
}

/* Runs the phase that r->phase names and sets the next; LS_REQUEST_WAITS: to be called again. The phases are in
 * peers.h. */
static ls_status step_peers(ls_request *r) {
    switch (r->phase) {
    case EXPOSE:
        LS_TRY(ls_peers_reached(r, r->tensors->begun));
        LS_TRY(publish_places(r));
        ls_request_publish(r, 1);
        r->phase = RUN;
        break;
    case RUN:
        LS_TRY(ls_request_meet(r, NULL));
        LS_TRY(enqueue_on_queue(r));
        r->phase = TELL;
        break;
    case TELL:
        LS_TRY(ls_peers_reached(r, r->tensors->event));
        ls_request_publish(r, 2);
        r->phase = LEAVE;
        break;
    case LEAVE:
        LS_TRY(ls_request_await_all(r, 2));
        note_readers(r);
        return ls_request_complete(r);
    }
    return LS_OK;
}

/* ---- the mover --------------------------------------------------------------------------------------------------- */

/* Enqueues the signal `ready` on the compute queue. The communicator's queue gets no work before all members have
 * published: an await there would hold up earlier collectives, which are enqueued only when the other hosts have
 * published theirs. */
static ls_status signal_ready(ls_device *device, const ls_comm *comm, ls_staging *t) {
    LS_TRY(ls_peers_signal(comm, LS_PEERS_READY, &t->ready));
    return ls_device_record(device, &t->begun);
}

/* Returns whether all devices, or those of both ends of a message, can access each other's memory, which was agreed
 * when the communicator was made. Not for sums of integers: devices add up floating-point numbers only. */
static bool reaches_peers(const ls_move *m) {
    const ls_comm *comm = m->comm;
    if (!comm->peers || m->device != comm->world->device) return false;
    if (!ls_move_is_message(m)) return comm->machines == 1 && comm->size > 1 && m->dtype != LS_I64;
    return m->peer >= 0 && m->peer < comm->size && m->peer != comm->rank && comm->machine_of[m->peer] == comm->machine;
}

/* Starts a move between peers: enqueues `ready` and launches the request. ls_mover.start. */
static ls_status start_over_peers(const ls_move *m, ls_request **out) {
    ls_comm *comm = m->comm;
    LS_TRY(ls_move_prepare(m,
                           m->kind == LS_TRAFFIC_SEND      ? ls_peers_step_send
                           : m->kind == LS_TRAFFIC_RECEIVE ? ls_peers_step_receive
                                                           : step_peers,
                           out));
    ls_request *r = *out;
    ls_staging *t = calloc(1, sizeof *t + sizeof(ls_counted) * (size_t)comm->local_size);
    ls_status status = t ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a request");
    r->tensors = t;
    if (t) t->device = m->device;
    /* Earlier requests that can continue are enqueued before this one. */
    if (status == LS_OK) status = ls_world_progress(comm->world);
    if (status == LS_OK) status = signal_ready(m->device, comm, t);
    if (status != LS_OK) return ls_request_drop(r, status, out);
    return ls_request_launch(r, out);
}

const ls_mover ls_mover_peers = {.name = "peers", .reaches = reaches_peers, .start = start_over_peers};
