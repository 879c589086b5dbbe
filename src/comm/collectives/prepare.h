/* prepare.h: the arguments of collectives, checked and written into requests, for host memory and device memory alike.
 */
#ifndef LS_COMM_COLLECTIVES_PREPARE_H
#define LS_COMM_COLLECTIVES_PREPARE_H

#include "comm/world/wait.h"

/* Make a request with all its arguments, fingerprint and traffic, which runs `step`, without launching it: the caller
 * passes it to ls_request_launch() or ls_request_drop(). LS_ERR_INPUT: an argument is wrong; *out is then NULL. */
ls_status ls_all_gather_prepare(ls_comm *comm, const void *in, void *out_buffer, const size_t *bytes,
                                ls_status (*step)(ls_request *), ls_request **out);
ls_status ls_message_prepare(ls_comm *comm, ls_traffic_kind kind, int peer, int tag, size_t bytes,
                             ls_status (*step)(ls_request *), ls_request **out);
ls_status ls_all_reduce_prepare(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                void *out_buffer, size_t elems, ls_status (*step)(ls_request *), ls_request **out);
ls_status ls_reduce_scatter_prepare(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                    void *out_buffer, const size_t *shards, size_t elems,
                                    ls_status (*step)(ls_request *), ls_request **out);

#endif
