/* peers.h: collectives of workers whose devices read and write each other's memory.
 *
 * What a device's queue does is ordered by counters in device memory, which only their owner's queues write; what
 * workers tell each other (where their tensors lie, and up to where their counters will count) goes through slots and
 * mail as in every other collective. A worker:
 *
 *     start   on the queue that computes: count `ready`; tell the others where the tensors are (stage 1)
 *     run     all have told. On the queue of the communicator: follow the start → await their `ready` → read, add up,
 *             write → count `done`; tell (stage 2)
 *     end     all have told: what computes next follows this queue, and awaits everybody's `done`
 *
 * Invariants
 *   1. An await is enqueued after the signal that ends it: whoever awaits was told of it. So queues cannot wait for
 *      each other in a circle, whatever the order in which workers come to their collectives, and no host is needed
 *      for what was enqueued.
 *   2. Nobody's tensor is touched before its `ready`, and its owner does not touch it again before all readers' and
 *      writers' `done`.
 *   3. Members that share a GPU tell of a signal only when it has happened. A GPU goes from process to process in
 * slices of time, and a queue that awaits a counter uses up its process's: with eight workers on a GPU a collective
 * took some 60 ms. So nothing that is enqueued there waits for another process.
 *   4. A worker that is gone does not signal. Hosts that wait for their device therefore look after the others
 *      meanwhile (ls_device_guest: tensors.c).
 *
 * Sums have the order of the tree (reduce_plan.h), so they have the bits of all other ways to compute them. */
#ifndef LS_COMM_PEERS_PEERS_H
#define LS_COMM_PEERS_PEERS_H

#include "comm/comm.h"

typedef struct ls_peers ls_peers;

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */

/* Lets the other workers of this machine find the device's memory, from now until it is destroyed; says so where it
 * cannot, and tensors then go through the host. Communicators that are made after it may use it. */
ls_status ls_peers_open(ls_world *world, ls_device *device);
/* What the device allocated, and is about to free; and that it goes. */
ls_status ls_peers_note(ls_peers *peers, void *memory, size_t bytes);
void ls_peers_forget(ls_peers *peers, const void *memory);
void ls_peers_leave(ls_peers *peers);
/* Finds the counters of the local members; false, said once, where one of them cannot be reached. */
bool ls_peers_meet(ls_comm *comm);

/* Whether tensors of this device move between the members, or to and from the one, by their devices. */
static inline bool ls_peers_reach_all(const ls_device *device, const ls_comm *comm) {
    return comm->peers && device == comm->world->device && comm->machines == 1 && comm->size > 1;
}
static inline bool ls_peers_reach(const ls_device *device, const ls_comm *comm, int rank) {
    return comm->peers && device == comm->world->device && rank >= 0 && rank < comm->size && rank != comm->rank &&
           comm->machine_of[rank] == comm->machine;
}

/* How others find `memory`, which the device allocated; 0 for none. */
ls_status ls_peers_place(ls_peers *peers, const void *memory, size_t bytes, uint64_t *place);
/* The address of a local member's place. NULL for none. */
ls_status ls_peers_at(const ls_comm *comm, int local, uint64_t place, void **out);

typedef enum ls_peers_count { LS_PEERS_READY, LS_PEERS_DONE } ls_peers_count;

/* Signals the next value of this worker's counter of the communicator's queue. */
ls_status ls_peers_signal(const ls_comm *comm, ls_peers_count kind, uint64_t *value);
/* A local member's counter. */
const uint64_t *ls_peers_counter(const ls_comm *comm, int local, ls_peers_count kind);
/* LS_REQUEST_WAITS where members share a GPU and it has not come to the event: the others are not told yet. */
ls_status ls_peers_reached(const ls_request *request, ls_event event);

/* ---- collectives.c, messages.c ----------------------------------------------------------------------------------- */

/* As those of tensors.h. */
ls_status ls_peers_all_gather_start(ls_device *device, ls_comm *comm, const void *in, void *out_buffer,
                                    const size_t *bytes, ls_request **out);
ls_status ls_peers_all_reduce_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                    const void *const *parts, void *out_buffer, size_t elems, ls_request **out);
ls_status ls_peers_reduce_scatter_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                        const void *const *parts, void *out_buffer, const size_t *shards, size_t elems,
                                        ls_request **out);
ls_status ls_peers_send_start(ls_device *device, ls_comm *comm, int to, int tag, const void *buffer, size_t bytes,
                              ls_request **out);
ls_status ls_peers_recv_start(ls_device *device, ls_comm *comm, int from, int tag, void *buffer, size_t bytes,
                              ls_request **out);

/* Gives the request what its steps need, marks what the device was asked for until now, and launches it. `request` is
 * released where it fails. */
ls_status ls_peers_launch(ls_device *device, ls_request *request, ls_request **out);

/* ---- sum.c ------------------------------------------------------------------------------------------------------- */

/* Enqueues the sum of a program of the request's plan over `elems` elements of its sources, which lie at `sources`.
 * `out` may be one of the fp32 sources. */
ls_status ls_peers_sum(const ls_request *request, const ls_tree_program *program, const ls_reduce_source *of, int count,
                       const void *const *sources, void *out, size_t elems);

#endif
