/* tensors.c: the calls for collectives on device memory, and the order in which movers (ways to perform them,
 * collectives/move.h) are asked. */
#include "comm/movers/tensors.h"

#include "comm/links/links.h"
#include "comm/movers/host.h"
#include "comm/peers/peers.h"

/* The first that reaches a move performs it; the last reaches all. */
static const ls_mover *const movers[] = {&ls_mover_host, &ls_mover_peers, &ls_mover_links, &ls_mover_staged};

/* Starts the move by the first mover that reaches it. */
static ls_status start_move(const ls_move *move, ls_request **out) {
    const ls_mover *const *mover = movers;
    while (!(*mover)->reaches(move)) mover++;
    return (*mover)->start(move, out);
}

ls_status ls_tensor_all_gather_start(ls_device *device, ls_comm *comm, const void *in, void *out_buffer,
                                     const size_t *bytes, ls_request **out) {
    return start_move(
        &(ls_move){
            .kind = LS_TRAFFIC_ALL_GATHER, .device = device, .comm = comm, .in = in, .out = out_buffer, .sizes = bytes},
        out);
}

ls_status ls_tensor_send_start(ls_device *device, ls_comm *comm, int to, int tag, const void *buffer, size_t bytes,
                               ls_request **out) {
    return start_move(&(ls_move){.kind = LS_TRAFFIC_SEND,
                                 .device = device,
                                 .comm = comm,
                                 .peer = to,
                                 .tag = tag,
                                 .in = buffer,
                                 .bytes = bytes},
                      out);
}

ls_status ls_tensor_all_reduce_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                     const void *const *parts, void *out_buffer, size_t elems, ls_request **out) {
    return start_move(&(ls_move){.kind = LS_TRAFFIC_ALL_REDUCE,
                                 .device = device,
                                 .comm = comm,
                                 .runs = runs,
                                 .dtype = dtype,
                                 .parts = parts,
                                 .out = out_buffer,
                                 .elems = elems},
                      out);
}

ls_status ls_tensor_reduce_scatter_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                         const void *const *parts, void *out_buffer, const size_t *shards, size_t elems,
                                         ls_request **out) {
    return start_move(&(ls_move){.kind = LS_TRAFFIC_REDUCE_SCATTER,
                                 .device = device,
                                 .comm = comm,
                                 .runs = runs,
                                 .dtype = dtype,
                                 .parts = parts,
                                 .out = out_buffer,
                                 .sizes = shards,
                                 .elems = elems},
                      out);
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
    LS_TRY(start_move(&(ls_move){.kind = LS_TRAFFIC_RECEIVE,
                                 .device = device,
                                 .comm = comm,
                                 .peer = from,
                                 .tag = tag,
                                 .out = buffer,
                                 .bytes = bytes},
                      &request));
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
