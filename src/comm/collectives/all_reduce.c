/* all_reduce.c: computes the ordered sum, whole on every member.
 *
 * Small, on one machine: members copy their parts into the slot itself, wait for each other once, and each member adds
 * up everything: one hop.
 * Otherwise: member d adds up shard d, reading all parts in place, and writes the sum to the output of every member of
 * its machine. Between machines this is done window by window: the other machines' subtrees arrive first (reduce.c),
 * and the finished shard goes to one member of each other machine, which writes it to all outputs there.
 *
 * Stages of a window: +1 parts are read and sent, so outputs may be overwritten (an output may be a part); +2 outputs
 * are written. Bytes on one machine: W·n read and W·n written in total. */
#include "comm/collectives/reduce.h"

#include <string.h>

#include "device/cpu/tree_sum.h"

enum { BEGIN, SMALL, LOCAL, EXCHANGE, PARTS_READ, SUM, SPREAD, WRITTEN };

/* Outputs from this size on bypass the caches, which could not hold them. */
static const size_t stream_bytes = (size_t)4 << 20;
/* Limits of the small form: bytes and parts that one member reads. */
enum { SMALL_READ_BYTES = 4 << 10, SMALL_PARTS = 64 };

/* ---- small ------------------------------------------------------------------------------------------------------- */

/* Returns whether the sum takes the small form: several members on one machine, at most 64 parts with 4 KiB in all, so
 * that one member can read them, and each member's parts fit into its memory of the slot. */
static bool is_small(const ls_request *r) {
    const ls_comm *comm = r->comm;
    size_t part = r->bytes * ls_reduce_width(r);
    return comm->machines == 1 && comm->control && part <= LS_SMALL_BYTES && r->plan->all_parts <= SMALL_PARTS &&
           part * (size_t)r->plan->most_parts <= LS_SMALL_BYTES &&
           part * (size_t)r->plan->all_parts <= SMALL_READ_BYTES;
}

/* Returns the bytes of a part for this subtree: in a sum of bf16 only a single group is bf16, a subtree is fp32. */
static size_t part_bytes(const ls_request *r, ls_tree_node node) {
    return r->bytes * ls_dtype_bytes(r->dtype == LS_BF16 && node.count > 1 ? LS_F32 : r->dtype);
}

/* Copies this member's parts into its memory of the slot. */
static void publish_small(ls_request *r) {
    ls_comm *comm = r->comm;
    char *to = ls_comm_small(comm, r, comm->local);
    const ls_reduce_plan *plan = r->plan;
    int first = plan->part_first[comm->rank], n = plan->part_first[comm->rank + 1] - first;
    size_t stride = r->bytes * ls_reduce_width(r);
    for (int i = 0; i < n && r->bytes > 0; i++)
        memcpy(to + (size_t)i * stride, r->parts[i], part_bytes(r, plan->parts[first + i]));
}

/* Adds up all members' parts from the slots into this member's output. */
static void sum_small(ls_request *r) {
    const ls_reduce_plan *plan = r->plan;
    ls_tree_source sources[SMALL_PARTS];
    size_t stride = r->bytes * ls_reduce_width(r);
    for (int i = 0; i < plan->n_sources; i++) {
        const ls_reduce_source *s = &plan->sources[i];
        sources[i].data = ls_comm_small(r->comm, r, s->local) + (size_t)s->index * stride;
        sources[i].dtype = r->dtype == LS_BF16 && s->node.count > 1 ? LS_F32 : r->dtype;
    }
    void *outs[1] = {r->out};
    ls_tree_sum_run(&plan->whole, sources, r->dtype == LS_I64, outs, 1, false, r->bytes);
}

/* ---- large ------------------------------------------------------------------------------------------------------- */

/* Returns the output of a local member, which this member may write to. */
static char *output_of(const ls_request *r, int local) {
    const ls_comm *comm = r->comm;
    return local == comm->local ? r->out : ls_segment_at(&comm->world->segment, ls_comm_slot(comm, r, local)->out);
}

/* Returns whether an output is also a part. Then its lines are in the cache already, and plain stores are cheaper. */
static bool is_in_place(const ls_request *r) {
    const ls_comm *comm = r->comm;
    for (int l = 0; comm->control && l < comm->local_size; l++) {
        const ls_slot *slot = ls_comm_slot(comm, r, l);
        int rank = ls_comm_local_rank(comm, l);
        for (int i = 0; i < r->plan->part_first[rank + 1] - r->plan->part_first[rank]; i++)
            if (slot->parts[i] == slot->out) return true;
    }
    return false;
}

/* Sums this member's shard (its window) and writes it to the outputs of all local members. */
static ls_status write_shard(ls_request *r) {
    const ls_comm *comm = r->comm;
    void *outs[LS_WORKERS_MAX];
    size_t begin;
    (void)ls_reduce_window(r, comm->rank, &begin);
    /* Each member starts with its own output, so that members do not write to the same memory at once. */
    for (int i = 0; i < comm->local_size; i++)
        outs[i] = output_of(r, (comm->local + i) % comm->local_size) + begin * ls_reduce_width(r);
    bool stream = r->bytes * ls_reduce_width(r) >= stream_bytes && !is_in_place(r);
    return ls_reduce_sum(r, outs, comm->local_size, stream);
}

/* Starts the messages that carry finished shards between machines: receives those for which this member is the agent,
 * and sends its own to one agent on each other machine. */
static ls_status exchange_shards(ls_request *r) {
    ls_comm *comm = r->comm;
    size_t begin, n, width = ls_reduce_width(r);
    int tag = ls_request_net_tag(r, 1);
    for (int rank = 0; rank < comm->size; rank++) {
        if (comm->machine_of[rank] == comm->machine || ls_comm_agent(comm, comm->machine, rank) != comm->rank) continue;
        n = ls_reduce_window(r, rank, &begin);
        if (n) LS_TRY(ls_request_net_recv(r, LS_NET_COLLECTIVE, rank, tag, (char *)r->out + begin * width, n * width));
    }
    n = ls_reduce_window(r, comm->rank, &begin);
    for (int m = 0; m < comm->machines && n > 0; m++) {
        if (m == comm->machine) continue;
        LS_TRY(ls_request_net_send(r, LS_NET_COLLECTIVE, ls_comm_agent(comm, m, comm->rank), tag,
                                   (char *)r->out + begin * width, n * width));
    }
    return LS_OK;
}

/* Copies the shards that this member received from other machines to the outputs of all other local members. */
static void spread_arrivals(ls_request *r) {
    ls_comm *comm = r->comm;
    size_t width = ls_reduce_width(r);
    for (int rank = 0; rank < comm->size; rank++) {
        if (comm->machine_of[rank] == comm->machine || ls_comm_agent(comm, comm->machine, rank) != comm->rank) continue;
        size_t begin, n = ls_reduce_window(r, rank, &begin);
        for (int l = 0; l < comm->local_size; l++)
            if (l != comm->local)
                ls_world_copy(comm->world, output_of(r, l) + begin * width, (char *)r->out + begin * width, n * width,
                              false);
    }
}

/* ---- over a slow link -------------------------------------------------------------------------------------------- */

/* Returns the bytes on slow links if each member reads all parts of all others. */
static ls_wire_load small_load(const ls_request *r) { return ls_reduce_load(r, true); }
/* Returns the bytes on slow links if each member reads its shard of all parts. */
static ls_wire_load parts_load(const ls_request *r) { return ls_reduce_load(r, false); }

/* Returns the bytes on slow links of sending the finished shards: each member sends its own to all others. In fact they
 * are written directly into the outputs. */
static ls_wire_load sums_load(const ls_request *r) {
    const ls_comm *comm = r->comm;
    ls_wire_load load = {0};
    double width = (double)ls_reduce_width(r), others = (double)(comm->size - 1);
    for (int m = 0; m < comm->size; m++) {
        double shard = (double)(r->bounds[m + 1] - r->bounds[m]) * width, rest = (double)r->bytes * width - shard;
        if (m == comm->rank) load = (ls_wire_load){rest, shard * others, load.most_bytes};
        if (rest > load.most_bytes) load.most_bytes = rest;
        if (shard * others > load.most_bytes) load.most_bytes = shard * others;
    }
    return load;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Publishes the parts, in the slot if they are small, else by their offsets, together with the output. */
static ls_status begin_all_reduce(ls_request *r) {
    ls_comm *comm = r->comm;
    if (is_small(r)) {
        publish_small(r);
        r->phase = SMALL;
    } else {
        LS_TRY(ls_reduce_expose(r));
        LS_TRY(ls_request_share_out(r, r->bytes * ls_reduce_width(r), false));
        if (comm->control) ls_comm_slot(comm, r, comm->local)->out = ls_comm_offset(comm, r->out);
        r->phase = LOCAL;
    }
    ls_request_publish(r, 1);
    return LS_OK;
}

/* Runs the phase that r->phase names and sets the next; LS_REQUEST_WAITS: to be called again. Between machines,
 * EXCHANGE to WRITTEN are repeated for each window. */
static ls_status step_all_reduce(ls_request *r) {
    bool one_machine = r->comm->machines == 1;
    uint64_t stage = 2 + 2 * (uint64_t)r->window;
    switch (r->phase) {
    case BEGIN: LS_TRY(begin_all_reduce(r)); break;
    case SMALL:
        LS_TRY(ls_request_meet(r, small_load));
        sum_small(r);
        return ls_request_complete(r);
    case LOCAL:
        LS_TRY(ls_request_meet(r, parts_load));
        r->phase = one_machine ? SUM : EXCHANGE;
        break;
    case EXCHANGE:
        LS_TRY(ls_reduce_exchange(r));
        r->phase = PARTS_READ;
        break;
    case PARTS_READ:
        LS_TRY(ls_request_net_await(r));
        ls_request_publish(r, stage);
        r->phase = SUM;
        break;
    case SUM:
        if (!one_machine) LS_TRY(ls_request_await_all(r, stage));
        LS_TRY(write_shard(r));
        if (!one_machine) LS_TRY(exchange_shards(r));
        r->phase = SPREAD;
        break;
    case SPREAD:
        LS_TRY(ls_request_net_await(r));
        spread_arrivals(r);
        ls_request_publish(r, stage + 1);
        r->phase = WRITTEN;
        break;
    case WRITTEN:
        LS_TRY(ls_request_await_all(r, stage + 1));
        if (!ls_wire_arrived(r, stage + 1, -1, sums_load)) return LS_REQUEST_WAITS;
        if (++r->window < ls_reduce_windows(r)) {
            r->phase = EXCHANGE;
            break;
        }
        return ls_request_complete(r);
    }
    return LS_OK;
}

/* Writes size + 1 bounds that divide `elems` elements into shards of whole cache lines. They may be small, because
 * callers never see these shards. */
static void divide_into_lines(size_t elems, int size, size_t *bounds) {
    enum { LINE = 16 };
    size_t lines = (elems + LINE - 1) / LINE;
    for (int i = 0; i <= size; i++) {
        size_t end = lines * (size_t)i / (size_t)size * LINE;
        bounds[i] = end < elems ? end : elems;
    }
}

/* Returns elems·rank/size, rounded down, without overflow. */
static size_t even_bound(size_t elems, int rank, int size) {
    size_t n = (size_t)size, r = (size_t)rank;
    return elems / n * r + elems % n * r / n;
}

/* Returns the bytes counted as this worker's traffic: those of an even reduce-scatter followed by an all-gather,
 * whatever the shards are. */
static uint64_t all_reduce_traffic(const ls_request *r) {
    int rank = r->comm->rank, size = r->comm->size;
    size_t own = even_bound(r->bytes, rank + 1, size) - even_bound(r->bytes, rank, size);
    return ls_reduce_traffic(r, own) + (uint64_t)(size - 1) * own * ls_reduce_width(r);
}

ls_status ls_all_reduce_prepare(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                void *out_buffer, size_t elems, ls_status (*how)(ls_request *), ls_request **out) {
    LS_TRY(ls_reduce_prepare(comm, runs, dtype, parts, elems, LS_TRAFFIC_ALL_REDUCE, how, out));
    ls_request *r = *out;
    divide_into_lines(elems, comm->size, r->bounds);
    r->out = out_buffer;
    r->traffic_bytes = all_reduce_traffic(r);
    return LS_OK;
}

/* Starts an ordered all-reduce (ls_comm_all_reduce()); ls_request_wait() ends it, and the buffers belong to it until
 * then. */
ls_status ls_comm_all_reduce_start(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                   void *out_buffer, size_t elems, ls_request **out) {
    LS_TRY(ls_all_reduce_prepare(comm, runs, dtype, parts, out_buffer, elems, step_all_reduce, out));
    return ls_request_launch(*out, out);
}

ls_status ls_comm_all_reduce(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts, void *out,
                             size_t elems) {
    ls_request *r;
    LS_TRY(ls_comm_all_reduce_start(comm, runs, dtype, parts, out, elems, &r));
    return ls_request_wait(r);
}
