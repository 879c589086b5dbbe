/* prepare.h: the arguments of collectives, checked and written into requests, for host memory and device memory alike.
 * The collectives' own start functions and the movers of device memory (move.h) call it. A request is one collective or
 * message in flight (world/comm.h); `step` advances it, and differs between host memory and each mover. The request
 * borrows the buffers until it ends; lists (bytes, parts, shards, runs) are copied. */
#ifndef LS_COMM_COLLECTIVES_PREPARE_H
#define LS_COMM_COLLECTIVES_PREPARE_H

#include "comm/world/wait.h"

/* Makes a request with all its arguments, traffic and fingerprint (by which members notice different calls), without
 * launching it: the caller passes it to ls_request_launch() or ls_request_drop(). After an error *out is NULL;
 * LS_ERR_INPUT: an argument is wrong. Arguments as in lockstep.h. */
ls_status ls_all_gather_prepare(ls_comm *comm, const void *in, void *out_buffer, const size_t *bytes,
                                ls_status (*step)(ls_request *), ls_request **out);
/* Makes, like ls_all_gather_prepare(), the request of a send or a receive (`kind`), without launching it; the caller
 * sets r->in or r->out. LS_ERR_INPUT: rank or tag is out of range. */
ls_status ls_message_prepare(ls_comm *comm, ls_traffic_kind kind, int peer, int tag, size_t bytes,
                             ls_status (*step)(ls_request *), ls_request **out);
/* Makes, like ls_all_gather_prepare(), the request of an all-reduce, without launching it. Its shards, the parts of the
 * sum that members compute, end at whole cache lines. */
ls_status ls_all_reduce_prepare(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                void *out_buffer, size_t elems, ls_status (*step)(ls_request *), ls_request **out);
/* Makes, like ls_all_gather_prepare(), the request of a reduce-scatter, without launching it. `shards` NULL: those of
 * ls_shard_bounds(). */
ls_status ls_reduce_scatter_prepare(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                    void *out_buffer, const size_t *shards, size_t elems,
                                    ls_status (*step)(ls_request *), ls_request **out);

#endif
