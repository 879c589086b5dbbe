/* reduce.h: what all-reduce and reduce-scatter on host memory share: the sum of one shard by the member that owns it.
 *
 * A sum adds up one contribution of each group (lockstep.h: ls_runs) in the order of one fixed binary tree. A member's
 * parts are the sums of the largest subtrees that it holds; a shard is a range of the elements. r->bounds has the
 * bounds of all shards. All functions are called by the worker's main thread, from the steps of a collective.
 *
 * Member d owns shard d. It reads the parts of its own machine in shared memory. On every other machine, d's agent
 * (the member that sends for that machine) first adds up that machine's largest subtrees for shard d and sends only
 * those; d adds all of them in the order of the tree. So each element crosses the network once for each subtree of a
 * machine, which is once if the runs of a machine are aligned.
 *
 *     8 groups on 5 workers; machine A: ranks 0 1 2 (runs 0-1, 2, 3), machine B: ranks 3 4 (runs 4-5, 6-7).
 *     Shard 0, owned by rank 0: rank 3 (0's agent on B) adds its own 4-5 and rank 4's 6-7 to the subtree 4-7 and sends
 *     it; rank 0 reads 0-1, 2, 3 in shared memory and adds ((0-1) + (2 + 3)) + (4-7).
 *
 * Between machines, large shards are summed window by window, which bounds the scratch memory. */
#ifndef LS_COMM_COLLECTIVES_REDUCE_H
#define LS_COMM_COLLECTIVES_REDUCE_H

#include "comm/collectives/prepare.h"
#include "comm/world/reduce_plan.h"

/* Makes a request for a sum, with its plan, types, parts and fingerprint. The caller then sets the shards, in
 * `r->bounds`. LS_ERR_INPUT: a wrong type, or runs that do not fit the members. */
ls_status ls_reduce_prepare(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts, size_t elems,
                            ls_traffic_kind kind, ls_status (*step)(ls_request *), ls_request **out);

/* Returns the type of a subtree: in a sum of bf16 only single groups are bf16, all sums are fp32. */
static inline ls_dtype ls_reduce_dtype(ls_dtype dtype, ls_tree_node node) {
    return dtype == LS_BF16 && node.count > 1 ? LS_F32 : dtype;
}
/* Returns the type of a subtree in the request's sum: fp32 for several groups of bf16, else the sum's own. */
static inline ls_dtype ls_reduce_node_dtype(const ls_request *r, ls_tree_node node) {
    return ls_reduce_dtype(r->dtype, node);
}

/* Returns the bytes of this worker's parts outside its own shard of `shard_elems` elements: what it sends, as counted
 * in traffic. */
uint64_t ls_reduce_traffic(const ls_request *r, size_t shard_elems);

/* Returns the bytes of one element of the result. */
static inline size_t ls_reduce_width(const ls_request *r) { return r->dtype == LS_I64 ? 8 : 4; }

/* Makes the parts readable for the local members and writes their offsets into the slot. */
ls_status ls_reduce_expose(ls_request *r);

/* Returns the load that reading the parts puts on slow links: each member reads its shard of them, or, if `whole`, all
 * of them. */
ls_wire_load ls_reduce_load(const ls_request *r, bool whole);

/* Returns the number of elements of shard `rank` in the current window (r->window), 0 past the shard's end, and in
 * *begin the index of the first in the whole vector. */
size_t ls_reduce_window(const ls_request *r, int rank, size_t *begin);
/* Returns the number of windows: equal on all members, at least 1, and 1 on one machine. */
size_t ls_reduce_windows(const ls_request *r);

/* Starts to receive the other machines' subtrees of this worker's window; adds up the subtrees for which this worker is
 * the agent, and starts to send them. Never waits: ls_request_net_await() returns LS_OK once all these messages are
 * received and sent; until then r->scratch and the parts are in use. All local members must be at stage 1. Does nothing
 * on one machine. LS_ERR_RESOURCE without memory. */
ls_status ls_reduce_exchange(ls_request *r);

/* Adds up this worker's window and writes it to each of `outs`, which point at the window's first element. `stream`:
 * with stores that bypass the caches. Uses all threads for large windows. */
ls_status ls_reduce_sum(ls_request *r, void *const *outs, int n_outs, bool stream);

#endif
