/* reduce.h: what all-reduce and reduce-scatter share: the sum of one shard on the worker that owns it.
 *
 * Member d owns shard d. It reads the parts of its own machine where they lie. Every other machine first adds up its
 * maximal subtrees for shard d, on the member that is d's agent there, and sends only those; d puts all of them
 * together in the order of the tree. So each element crosses the network once for each subtree of a machine, which is
 * once where the runs of a machine are aligned.
 *
 *     8 groups on 5 workers, machine A: 0 1 2 (runs 0-1, 2, 3), machine B: 3 4 (runs 4-5, 6-7); shard 0, owned by rank
 * 0: rank 3 (agent of 0 on B) adds its own 4-5 and rank 4's 6-7 to the subtree 4-7 and sends it; rank 0 reads 0-1, 2, 3
 * in shared memory and adds ((0-1) + (2 + 3)) + (4-7).
 *
 * Between machines large shards go in windows of at most LS_REDUCE_WINDOW elements, which bounds the scratch memory. */
#ifndef LS_COMM_COLLECTIVES_REDUCE_H
#define LS_COMM_COLLECTIVES_REDUCE_H

#include "comm/comm.h"

/* Fills a request for a sum: plan, types, parts, fingerprint. `r->bounds` (the shards) is the caller's to fill after
 * it. */
ls_status ls_reduce_prepare(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts, size_t elems,
                            ls_traffic_kind kind, ls_status (*step)(ls_request *), ls_request **out);

/* The whole request, but not launched; `how` are its steps: on memory of the host, or on that of devices (peers). */
ls_status ls_all_reduce_prepare(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                void *out_buffer, size_t elems, ls_status (*how)(ls_request *), ls_request **out);
ls_status ls_reduce_scatter_prepare(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                    void *out_buffer, const size_t *shards, size_t elems,
                                    ls_status (*how)(ls_request *), ls_request **out);

/* In a sum of bf16 only single groups are 16 bits wide. */
static inline ls_dtype ls_reduce_dtype(ls_dtype dtype, ls_tree_node node) {
    return dtype == LS_BF16 && node.count > 1 ? LS_F32 : dtype;
}
static inline ls_dtype ls_reduce_node_dtype(const ls_request *r, ls_tree_node node) {
    return ls_reduce_dtype(r->dtype, node);
}

/* Bytes of this worker's parts outside its own shard of `shard_elems`. */
uint64_t ls_reduce_traffic(const ls_request *r, size_t shard_elems);

/* Bytes of one element of the result. */
static inline size_t ls_reduce_width(const ls_request *r) { return r->dtype == LS_I64 ? 8 : 4; }

/* Makes the parts readable for the machine and writes them into the slot. */
ls_status ls_reduce_expose(ls_request *r);

/* What reading the parts of all shards asks of links; `whole`: of everything, by every member. */
ls_wire_load ls_reduce_load(const ls_request *r, bool whole);

/* Elements of shard `rank` in the current window: count, and where they begin in the whole. */
size_t ls_reduce_window(const ls_request *r, int rank, size_t *begin);
size_t ls_reduce_windows(const ls_request *r);

/* Asks for the other machines' subtrees of this worker's window, adds up and sends what this worker owes as an agent.
 * All local members are at stage 1. Nothing to do on one machine. */
ls_status ls_reduce_exchange(ls_request *r);

/* Adds up this worker's window and writes it to each of `outs`, which point at the place of its first element. */
ls_status ls_reduce_sum(ls_request *r, void *const *outs, int n_outs, bool stream);

#endif
