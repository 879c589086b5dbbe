/* reduce.c: computes the sum of one shard, a range of the elements, by the member that owns it; for all-reduce and
 * reduce-scatter on host memory. reduce.h explains parts (subtrees of the sum that a member holds), covers (the largest
 * subtrees that a machine's members hold together), agents and windows (pieces of a shard). */
#include "comm/collectives/reduce.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/tree_sum.h"

/* A window has this many elements divided by the number of parts of all members, but at least SHORTEST, which bounds
 * the scratch of a worker. */
enum { WINDOW_ELEMS = 8 << 20, WINDOW_SHORTEST = 64 << 10, CHUNK = 64 << 10 /* elements a thread takes at a time */ };

/* ---- starting ---------------------------------------------------------------------------------------------------- */

/* Returns the communicator's last plan if it fits the runs, else a new one, which replaces it. The caller owns one
 * reference. */
static ls_status plan_for(ls_comm *comm, const ls_runs *runs, ls_reduce_plan **out) {
    if (!ls_reduce_plan_fits(comm->plan, comm->size, runs)) {
        ls_reduce_plan *plan;
        LS_TRY(ls_reduce_plan_make(comm, runs, &plan));
        ls_reduce_plan_release(comm->plan);
        comm->plan = plan;
    }
    comm->plan->references++;
    *out = comm->plan;
    return LS_OK;
}

ls_status ls_reduce_prepare(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts, size_t elems,
                            ls_traffic_kind kind, ls_status (*step)(ls_request *), ls_request **out) {
    *out = NULL;
    if (dtype != LS_F32 && dtype != LS_BF16 && dtype != LS_I64)
        return ls_fail(LS_ERR_INPUT, "cannot sum elements of type number %d: only f32, bf16 and i64 are supported",
                       (int)dtype);
    ls_reduce_plan *plan;
    LS_TRY(plan_for(comm, runs, &plan));
    ls_request *r;
    ls_status status = ls_request_make(comm, kind, step, &r);
    if (status != LS_OK) {
        ls_reduce_plan_release(plan);
        return status;
    }
    r->plan = plan;
    r->dtype = dtype;
    r->bytes = elems;
    int n = plan->part_first[comm->rank + 1] - plan->part_first[comm->rank];
    for (int i = 0; i < n; i++) r->parts[i] = parts[i];
    r->fingerprint = ls_fingerprint(5 + (uint64_t)kind, elems, (uint64_t)dtype, (uint64_t)plan->groups);
    *out = r;
    return LS_OK;
}

uint64_t ls_reduce_traffic(const ls_request *r, size_t shard_elems) {
    const ls_reduce_plan *plan = r->plan;
    uint64_t each = 0;
    for (int i = plan->part_first[r->comm->rank]; i < plan->part_first[r->comm->rank + 1]; i++)
        each += ls_dtype_bytes(ls_reduce_node_dtype(r, plan->parts[i]));
    return each * (r->bytes - shard_elems);
}

ls_status ls_reduce_expose(ls_request *r) {
    ls_comm *comm = r->comm;
    if (!comm->control) return LS_OK;
    ls_slot *mine = ls_comm_slot(comm, r, comm->local);
    const ls_reduce_plan *plan = r->plan;
    int first = plan->part_first[comm->rank], n = plan->part_first[comm->rank + 1] - first;
    for (int i = 0; i < n; i++) {
        size_t bytes = r->bytes * ls_dtype_bytes(ls_reduce_node_dtype(r, plan->parts[first + i]));
        void *shared;
        LS_TRY(ls_request_share(r, r->parts[i], bytes, true, &shared));
        r->parts[i] = shared;
        mine->parts[i] = ls_comm_offset(comm, shared);
    }
    return LS_OK;
}

/* Returns the bytes of one element of all parts that a rank holds. */
static double held_bytes(const ls_request *r, int rank) {
    double each = 0;
    for (int i = r->plan->part_first[rank]; i < r->plan->part_first[rank + 1]; i++)
        each += (double)ls_dtype_bytes(ls_reduce_node_dtype(r, r->plan->parts[i]));
    return each;
}

ls_wire_load ls_reduce_load(const ls_request *r, bool whole) {
    const ls_comm *comm = r->comm;
    ls_wire_load load = {0};
    double all = 0, elems = (double)r->bytes;
    for (int m = 0; m < comm->size; m++) all += held_bytes(r, m);
    for (int m = 0; m < comm->size; m++) {
        double held = held_bytes(r, m), shard = (double)(r->bounds[m + 1] - r->bounds[m]);
        double in = (whole ? elems : shard) * (all - held);
        double out = held * (whole ? elems * (double)(comm->size - 1) : elems - shard);
        if (m == comm->rank) load.in_bytes = in;
        if (m == comm->rank) load.out_bytes = out;
        if (in > load.most_bytes) load.most_bytes = in;
        if (out > load.most_bytes) load.most_bytes = out;
    }
    return load;
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

/* Returns the most elements of a window. Equal on all members, because it depends on sizes only. One machine needs no
 * windows. */
static size_t window_elems(const ls_request *r) {
    if (r->comm->machines == 1) return SIZE_MAX;
    size_t elems = WINDOW_ELEMS / (size_t)r->plan->all_parts;
    return elems < WINDOW_SHORTEST ? WINDOW_SHORTEST : elems;
}

size_t ls_reduce_window(const ls_request *r, int rank, size_t *begin) {
    size_t all = r->bounds[rank + 1] - r->bounds[rank], most = window_elems(r);
    size_t skip = r->window && all > 0 ? r->window * most : 0;
    if (skip > all || (r->window && all == 0)) skip = all;
    *begin = r->bounds[rank] + skip;
    return all - skip < most ? all - skip : most;
}

size_t ls_reduce_windows(const ls_request *r) {
    size_t longest = 1, most = window_elems(r);
    for (int i = 0; i < r->comm->size; i++) {
        size_t all = r->bounds[i + 1] - r->bounds[i];
        if (all > longest) longest = all;
    }
    return (longest - 1) / most + 1;
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

/* Returns the address of element `begin`, counted in the whole vector, of a part of this member or of another local
 * member. Every part has a partial sum of the whole vector. */
static const char *part_at(const ls_request *r, const ls_reduce_source *source, size_t begin) {
    const ls_comm *comm = r->comm;
    const char *part =
        source->local == comm->local
            ? r->parts[source->index]
            : ls_segment_at(&comm->world->segment, ls_comm_slot(comm, r, source->local)->parts[source->index]);
    return part + begin * ls_dtype_bytes(ls_reduce_node_dtype(r, source->node));
}

typedef struct sum_job {
    const ls_tree_program *program;
    const ls_tree_source *sources;
    int n_sources;
    void *const *outs;
    int n_outs;
    bool integers, stream; /* int64, else fp32 outputs; stores bypass the caches */
    size_t elems, chunk;   /* of the sum, and of a task */
} sum_job;

enum { FEW = 64 };

/* Adds up elements task·chunk … of a sum_job; a task of the thread pool. */
static void sum_chunk(void *context, size_t task, int thread) {
    (void)thread;
    const sum_job *job = context;
    size_t at = task * job->chunk, n = job->elems - at < job->chunk ? job->elems - at : job->chunk;
    ls_tree_source sources[FEW];
    void *outs[FEW];
    for (int i = 0; i < job->n_sources; i++)
        sources[i] = (ls_tree_source){(const char *)job->sources[i].data + at * ls_dtype_bytes(job->sources[i].dtype),
                                      job->sources[i].dtype};
    for (int i = 0; i < job->n_outs; i++) outs[i] = (char *)job->outs[i] + at * (job->integers ? 8 : 4);
    ls_tree_sum_run(job->program, sources, job->integers, outs, job->n_outs, job->stream, n);
}

/* Runs a program of additions over `elems` elements, divided among the worker's threads if there are many. */
static void sum_in_chunks(ls_request *r, const ls_tree_program *program, const ls_tree_source *sources, int n_sources,
                          void *const *outs, int n_outs, bool stream, size_t elems) {
    ls_world *world = r->comm->world;
    sum_job job = {program, sources, n_sources, outs, n_outs, r->dtype == LS_I64, stream, elems, CHUNK};
    if (elems == 0) return;
    if (world->threads == 1 || elems < 2 * CHUNK || n_sources > FEW || n_outs > FEW)
        ls_tree_sum_run(program, sources, job.integers, outs, n_outs, stream, elems);
    else
        ls_pool_run(world->pool, (elems + CHUNK - 1) / CHUNK, sum_chunk, &job);
}

/* ---- between machines -------------------------------------------------------------------------------------------- */

/* Returns the bytes of one stretch of scratch, which holds a window of one subtree. Scratch has stretches for the
 * subtrees that arrive from other machines, then for those that are added up for them. */
static size_t stretch_bytes(const ls_request *r) {
    size_t longest = 0;
    for (int i = 0; i < r->comm->size; i++) {
        size_t begin, n = ls_reduce_window(r, i, &begin);
        if (n > longest) longest = n;
    }
    return (longest * ls_reduce_width(r) + 63) / 64 * 64;
}

/* Returns how many maximal subtrees the members of a machine hold together, which it sends for each shard. */
static int covers_of(const ls_request *r, int machine) {
    return r->plan->cover_first[machine + 1] - r->plan->cover_first[machine];
}

/* Returns the stretch of scratch for subtree `index` of another machine. */
static char *arrival(const ls_request *r, int machine, int index) {
    int before = r->plan->cover_first[machine] + index;
    if (machine > r->comm->machine) before -= covers_of(r, r->comm->machine);
    return (char *)r->scratch + (size_t)before * stretch_bytes(r);
}

/* Allocates the request's scratch once, for all its windows. */
static ls_status allocate_scratch(ls_request *r) {
    if (r->scratch) return LS_OK;
    ls_comm *comm = r->comm;
    int arrivals = r->plan->cover_first[comm->machines] - covers_of(r, comm->machine), wards = 0;
    for (int rank = 0; rank < comm->size; rank++)
        if (comm->machine_of[rank] != comm->machine && ls_comm_agent(comm, comm->machine, rank) == comm->rank) wards++;
    size_t bytes = stretch_bytes(r) * (size_t)(arrivals + wards * covers_of(r, comm->machine));
    r->scratch = malloc(bytes ? bytes : 1);
    return r->scratch
               ? LS_OK
               : ls_fail(LS_ERR_RESOURCE, "out of memory: %zu MiB needed to reduce between machines", bytes >> 20);
}

/* Starts to receive the subtrees of all other machines for this worker's window of its shard. */
static ls_status receive_subtrees(ls_request *r) {
    ls_comm *comm = r->comm;
    size_t begin, n = ls_reduce_window(r, comm->rank, &begin);
    for (int m = 0; m < comm->machines && n > 0; m++) {
        if (m == comm->machine) continue;
        for (int i = 0; i < covers_of(r, m); i++) {
            size_t bytes = n * ls_dtype_bytes(ls_reduce_node_dtype(r, r->plan->covers[r->plan->cover_first[m] + i]));
            LS_TRY(ls_request_net_recv(r, LS_NET_COLLECTIVE, ls_comm_agent(comm, m, comm->rank),
                                       ls_request_net_tag(r, 0), arrival(r, m, i), bytes));
        }
    }
    return LS_OK;
}

/* Adds up subtree `index` of this machine for the shard of rank `ward`, on another machine, in `space`, and starts to
 * send it. A subtree that one member holds whole is sent from its buffer, without a copy. */
static ls_status send_subtree(ls_request *r, int ward, int index, char *space) {
    const ls_reduce_plan *plan = r->plan;
    const ls_tree_program *program = &plan->partials[index];
    ls_tree_node node = plan->covers[plan->cover_first[r->comm->machine] + index];
    size_t begin, n = ls_reduce_window(r, ward, &begin);
    const void *data = space;
    if (program->length == 1) {
        data = part_at(r, &plan->local_sources[program->steps[0]], begin);
    } else {
        ls_tree_source *sources = malloc(sizeof *sources * (size_t)plan->n_local);
        if (!sources) return ls_fail(LS_ERR_RESOURCE, "out of memory for a reduction of %d parts", plan->n_local);
        for (int i = 0; i < plan->n_local; i++)
            sources[i] = (ls_tree_source){part_at(r, &plan->local_sources[i], begin),
                                          ls_reduce_node_dtype(r, plan->local_sources[i].node)};
        void *outs[1] = {space};
        sum_in_chunks(r, program, sources, plan->n_local, outs, 1, false, n);
        free(sources);
    }
    return ls_request_net_send(r, LS_NET_COLLECTIVE, ward, ls_request_net_tag(r, 0), data,
                               n * ls_dtype_bytes(ls_reduce_node_dtype(r, node)));
}

ls_status ls_reduce_exchange(ls_request *r) {
    ls_comm *comm = r->comm;
    if (comm->machines == 1) return LS_OK;
    LS_TRY(allocate_scratch(r));
    LS_TRY(receive_subtrees(r));
    int covers = covers_of(r, comm->machine);
    size_t stretch = stretch_bytes(r);
    char *space = (char *)r->scratch + stretch * (size_t)(r->plan->cover_first[comm->machines] - covers);
    for (int rank = 0; rank < comm->size; rank++) {
        if (comm->machine_of[rank] == comm->machine || ls_comm_agent(comm, comm->machine, rank) != comm->rank) continue;
        size_t begin;
        if (ls_reduce_window(r, rank, &begin) == 0) continue;
        for (int i = 0; i < covers; i++, space += stretch) LS_TRY(send_subtree(r, rank, i, space));
    }
    return LS_OK;
}

ls_status ls_reduce_sum(ls_request *r, void *const *outs, int n_outs, bool stream) {
    const ls_reduce_plan *plan = r->plan;
    size_t begin, n = ls_reduce_window(r, r->comm->rank, &begin);
    if (n == 0) return LS_OK;
    ls_tree_source few[FEW], *sources = few;
    if (plan->n_sources > FEW) {
        sources = malloc(sizeof *sources * (size_t)plan->n_sources);
        if (!sources) return ls_fail(LS_ERR_RESOURCE, "out of memory for a reduction of %d parts", plan->n_sources);
    }
    for (int i = 0; i < plan->n_sources; i++) {
        const ls_reduce_source *s = &plan->sources[i];
        sources[i].data = s->local >= 0 ? part_at(r, s, begin) : arrival(r, s->machine, s->index);
        sources[i].dtype = ls_reduce_node_dtype(r, s->node);
    }
    ls_span span = ls_span_begin("sum", ls_request_trace_name(r));
    sum_in_chunks(r, &plan->whole, sources, plan->n_sources, outs, n_outs, stream, n);
    ls_span_end(span, (int64_t)n);
    if (sources != few) free(sources);
    return LS_OK;
}
