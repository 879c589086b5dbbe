/* collectives.c: collectives over links, connections by which devices on different machines send each other tensors
 * (NCCL communicators for GPUs). Their steps are in links.h. Transfers and sums are enqueued on the device;
 * no function waits until they are done. */
#include <stdlib.h>

#include "comm/collectives/device_sum.h"
#include "comm/links/links.h"

enum { WINDOW_ELEMS = 4 << 20, WINDOW_SHORTEST = 64 << 10 }; /* of all parts that come together; of one */

/* The pieces of the next transfer. */
typedef struct load {
    ls_link_piece *pieces;
    int count;
} load;

/* Adds a transfer to or from a member to the list, unless it is empty. */
static void add_link_piece(load *l, const void *memory, size_t bytes, int member, bool sends) {
    if (bytes) l->pieces[l->count++] = (ls_link_piece){(void *)(uintptr_t)memory, bytes, member, sends};
}

/* Enqueues the listed transfers as one operation, and empties the list. */
static ls_status enqueue_pieces(const ls_request *r, load *l) {
    int count = l->count;
    l->count = 0;
    LS_TRY(ls_links_check(r->comm));
    return count ? ls_links_put(r, r->comm->links->all, l->pieces, count) : LS_OK;
}

/* Enqueues the transfers of each member's part of its output to all others; an element of r->bounds has `width`
 * bytes. */
static ls_status spread_outputs(const ls_request *r, load *l, size_t width) {
    const ls_comm *comm = r->comm;
    const size_t *at = r->bounds;
    char *out = r->out;
    for (int i = 1; i < comm->size; i++) {
        int to = (comm->rank + i) % comm->size, from = (comm->rank + comm->size - i) % comm->size;
        add_link_piece(l, out + at[comm->rank] * width, (at[comm->rank + 1] - at[comm->rank]) * width, to, true);
        add_link_piece(l, out + at[from] * width, (at[from + 1] - at[from]) * width, from, false);
    }
    return enqueue_pieces(r, l);
}

/* Enqueues an all-gather. */
static ls_status gather_over_links(const ls_request *r, load *l) {
    const size_t *at = r->bounds;
    int rank = r->comm->rank;
    char *own = (char *)r->out + at[rank];
    size_t bytes = at[rank + 1] - at[rank];
    if (r->in != own && bytes) LS_TRY(ls_device_copy(r->tensors->device, own, r->in, bytes));
    return spread_outputs(r, l, 1);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Returns the most elements of a window of a shard. Equal on all members, because it depends on sizes only. */
static size_t window_elems(const ls_request *r) {
    size_t elems = WINDOW_ELEMS / (size_t)r->plan->all_parts / 64 * 64;
    return elems < WINDOW_SHORTEST ? WINDOW_SHORTEST : elems;
}

/* Returns the number of elements of the longest shard, by which all members count windows. */
static size_t longest_shard(const ls_request *r) {
    size_t longest = 0;
    for (int i = 0; i < r->comm->size; i++)
        if (r->bounds[i + 1] - r->bounds[i] > longest) longest = r->bounds[i + 1] - r->bounds[i];
    return longest;
}

/* Returns the number of elements in the window of shard `rank` that begins `skip` elements into it, 0 past its end, and
 * in *begin its place in the whole. */
static size_t window_of(const ls_request *r, int rank, size_t skip, size_t *begin) {
    size_t all = r->bounds[rank + 1] - r->bounds[rank], most = window_elems(r);
    if (skip > all) skip = all;
    *begin = r->bounds[rank] + skip;
    return all - skip < most ? all - skip : most;
}

/* Returns the bytes of an element of this subtree's part. */
static size_t element_bytes(const ls_request *r, ls_tree_node node) {
    return ls_dtype_bytes(ls_reduce_node_dtype(r, node));
}

/* Enqueues the exchange of one window of all shards, and the sum of this worker's window into `out`. */
static ls_status sum_window(const ls_request *r, load *l, size_t skip, const void **sources, char *arrivals,
                            char *out) {
    const ls_comm *comm = r->comm;
    const ls_reduce_plan *plan = r->plan;
    size_t begin, own = window_of(r, comm->rank, skip, &begin);
    int first = plan->part_first[comm->rank], parts = plan->part_first[comm->rank + 1] - first;
    for (int i = 1; i < comm->size; i++) {
        int to = (comm->rank + i) % comm->size;
        size_t at, n = window_of(r, to, skip, &at);
        for (int p = 0; p < parts; p++) {
            size_t width = element_bytes(r, plan->parts[first + p]);
            add_link_piece(l, (const char *)r->parts[p] + at * width, n * width, to, true);
        }
    }
    for (int i = 0; i < plan->n_members; i++) {
        const ls_reduce_source *s = &plan->members[i];
        size_t width = element_bytes(r, s->node);
        sources[i] = s->local == comm->rank ? (const char *)r->parts[s->index] + begin * width : arrivals;
        if (s->local == comm->rank) continue;
        add_link_piece(l, arrivals, own * width, s->local, false);
        arrivals += (own * width + 255) / 256 * 256;
    }
    LS_TRY(enqueue_pieces(r, l));
    return ls_device_sum(r, &plan->flat, plan->members, plan->n_members, sources, out + skip * ls_reduce_width(r), own);
}

/* Enqueues the sum of this worker's shard into `out`, window by window. */
static ls_status sum_shard_over_links(const ls_request *r, load *l, char *out) {
    const ls_comm *comm = r->comm;
    const ls_reduce_plan *plan = r->plan;
    size_t begin, most = window_of(r, comm->rank, 0, &begin), longest = longest_shard(r);
    int others = plan->all_parts - (plan->part_first[comm->rank + 1] - plan->part_first[comm->rank]);
    void *arrivals = NULL;
    if (most)
        LS_TRY(ls_comm_scratch(comm, LS_SCRATCH_ARRIVALS, (size_t)others * (most * sizeof(float) + 256), &arrivals));
    const void **sources = malloc(sizeof *sources * (size_t)plan->n_members);
    if (!sources) return ls_fail(LS_ERR_RESOURCE, "out of memory for a sum of %d parts", plan->n_members);
    ls_status status = LS_OK;
    for (size_t skip = 0; skip < longest && status == LS_OK; skip += window_elems(r))
        status = sum_window(r, l, skip, sources, arrivals, out);
    free(sources);
    return status;
}

/* Enqueues an all-reduce: the sum of this worker's shard, then the transfers of all sums. An output may be a part,
 * because members send their parts of a shard before they receive its sum. */
static ls_status reduce_over_links(const ls_request *r, load *l) {
    size_t width = ls_reduce_width(r);
    LS_TRY(sum_shard_over_links(r, l, (char *)r->out + r->bounds[r->comm->rank] * width));
    return spread_outputs(r, l, width);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Enqueues this worker's part of the collective, completely. */
static ls_status enqueue_collective(const ls_request *r) {
    size_t most = 2 * (size_t)r->comm->size;
    if (r->plan) most += (size_t)r->plan->all_parts * (size_t)(r->comm->size + 1);
    load l = {.pieces = malloc(sizeof *l.pieces * most)};
    if (!l.pieces) return ls_fail(LS_ERR_RESOURCE, "out of memory for a collective");
    ls_status status = r->kind == LS_TRAFFIC_ALL_GATHER   ? gather_over_links(r, &l)
                       : r->kind == LS_TRAFFIC_ALL_REDUCE ? reduce_over_links(r, &l)
                                                          : sum_shard_over_links(r, &l, r->out);
    free(l.pieces);
    return status;
}

/* Enqueues the collective in the communicator's queue; the request is then complete, and later work waits for its
 * event. */
static ls_status step_over_links(ls_request *r) {
    ls_staging *t = r->tensors;
    int before = ls_device_use(t->device, r->comm->queue);
    ls_status status = enqueue_collective(r);
    if (status == LS_OK) status = ls_device_record(t->device, &t->event);
    (void)ls_device_use(t->device, before);
    LS_TRY(status);
    return ls_request_complete(r);
}

/* ---- the mover --------------------------------------------------------------------------------------------------- */

/* Makes later work in `queue` wait for all work enqueued so far in the current queue. */
static ls_status follow_current_queue(ls_device *device, int queue) {
    ls_event event;
    LS_TRY(ls_device_record(device, &event));
    int before = ls_device_use(device, queue);
    ls_status status = ls_device_follow(device, event);
    (void)ls_device_use(device, before);
    return status;
}

/* Returns whether the partner of a message, or all members, are connected by links. Not for sums of integers: devices
 * add up floating-point numbers only. */
static bool reaches_over_links(const ls_move *m) {
    const ls_links *links = m->comm->links;
    if (m->kind == LS_TRAFFIC_SEND) return ls_links_to(m->device, m->comm, m->peer) != NULL;
    if (m->kind == LS_TRAFFIC_RECEIVE) return ls_links_from(m->device, m->comm, m->peer) != NULL;
    return links && links->device == m->device && links->all && m->dtype != LS_I64;
}

/* Starts a move over links, after all work enqueued so far. ls_mover.start. */
static ls_status start_over_links(const ls_move *m, ls_request **out) {
    bool receives = m->kind == LS_TRAFFIC_RECEIVE;
    LS_TRY(ls_move_prepare(m,
                           receives                     ? ls_links_step_receive
                           : m->kind == LS_TRAFFIC_SEND ? ls_links_step_send
                                                        : step_over_links,
                           out));
    ls_request *r = *out;
    ls_staging *t = calloc(1, sizeof *t);
    ls_status status = t ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a request");
    r->tensors = t;
    if (t) t->device = m->device;
    /* Earlier requests that can continue are enqueued before this one. */
    if (status == LS_OK) status = ls_world_progress(r->comm->world);
    if (status == LS_OK) status = follow_current_queue(m->device, receives ? LS_QUEUE_RECEIVE : m->comm->queue);
    if (status != LS_OK) return ls_request_drop(r, status, out);
    return ls_request_launch(r, out);
}

const ls_mover ls_mover_links = {.name = "links", .reaches = reaches_over_links, .start = start_over_links};
