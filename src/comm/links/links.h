/* links.h: collectives of workers on several machines whose devices send each other tensors past the hosts
 * (device.h: links, which are NCCL's for GPUs). Links move bytes and nothing else: sums are made by this worker's
 * device in the order of the tree, as on one machine (peers/sum.c), so they have the bits of all other ways to compute
 * them.
 *
 *     all-gather      each member sends its piece to all others
 *     reduce-scatter  each sends its parts of shard d to member d, which adds them up; large shards go in windows
 *     all-reduce      that, and each sends its shard of the sum to all others
 *     a message       the receiver says that it is ready, the sender sends and says so
 *
 * Members of one machine take part as all others do. Everything of a collective goes into the communicator's queue when
 * it is started, and no host hears of the others: a queue stands still until theirs have come as far.
 *
 * A message needs both hosts. The receive goes into LS_QUEUE_RECEIVE, then the receiver asks (through the transport)
 * and the send goes into the sender's queue, then the sender tells; one receive of a worker at a time. Invariants
 *   1. Who has waited for a message knows that both ends are in a queue: no host is needed for it any more.
 *   2. Sends were put into queues in some order of time; a queue has its sends, and its receives, in that order. So
 *      queues cannot wait for each other in a circle. Each direction between two neighbours has a link of its own,
 * since one link has one order.
 *   3. A link that fails, or on which nothing moves for as long as a collective may take, fails the worker: hosts that
 *      wait for their device look after it (ls_links_watch). */
#ifndef LS_COMM_LINKS_LINKS_H
#define LS_COMM_LINKS_LINKS_H

#include "comm/comm.h"

/* What a communicator has links for. */
enum { LS_LINKS_COLLECTIVES = 1, LS_LINKS_MESSAGES = 2 };

/* Something in a queue, from its beginning to its end. */
typedef struct ls_links_move {
    ls_traffic_kind kind;
    uint64_t number; /* of the collective */
    int peer;        /* −1: all */
    ls_event begin, end;
} ls_links_move;

/* Of one communicator. */
typedef struct ls_links {
    struct ls_links *next;
    ls_comm *comm;
    ls_device *device;
    bool open;    /* all have them: from now on a link that fails fails the worker */
    ls_link *all; /* of all members; NULL: none */
    ls_link *out[2],
        *in[2]; /* to and from neighbours in the ring of ranks on other machines: the next, the one before */
    ls_links_move first, last; /* that may not have ended; number of `end` 0: none */
    uint64_t still_ns;         /* for how long `first` was seen to have begun and not to end */
} ls_links;

/* ---- links.c ----------------------------------------------------------------------------------------------------- */

/* Makes links for the new communicator (NULL: this worker is in none), collectively over its parent: all communicators
 * get them, or none does, which rank 0 of the parent says, and tensors then go through memory of the hosts. */
ls_status ls_links_meet(ls_comm *parent, ls_comm *comm, unsigned wants);
/* The end of the communicator; of the device. */
void ls_links_close(ls_comm *comm);
void ls_links_leave(ls_world *world);
/* While the host waits for the device, which it has done for `more_ns` since it looked last. */
ls_status ls_links_watch(ls_world *world, uint64_t more_ns);

/* Whether tensors of this device go by links to all members; to, or from, the one. */
static inline bool ls_links_reach_all(const ls_device *device, const ls_comm *comm) {
    return comm->links && comm->links->device == device && comm->links->all;
}
ls_link *ls_links_to(const ls_device *device, const ls_comm *comm, int rank);
ls_link *ls_links_from(const ls_device *device, const ls_comm *comm, int rank);

/* Whether the links are still there, which a failure closes at any time that the host waits. */
ls_status ls_links_check(const ls_comm *comm);
/* Puts the pieces into the queue that is in use, and returns when they are there. */
ls_status ls_links_put(const ls_request *request, ls_link *link, const ls_link_piece *pieces, int count);

/* ---- collectives.c, messages.c ----------------------------------------------------------------------------------- */

/* As those of tensors.h. */
ls_status ls_links_all_gather_start(ls_device *device, ls_comm *comm, const void *in, void *out_buffer,
                                    const size_t *bytes, ls_request **out);
ls_status ls_links_all_reduce_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                    const void *const *parts, void *out_buffer, size_t elems, ls_request **out);
ls_status ls_links_reduce_scatter_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                        const void *const *parts, void *out_buffer, const size_t *shards, size_t elems,
                                        ls_request **out);
ls_status ls_links_send_start(ls_device *device, ls_comm *comm, int to, int tag, const void *buffer, size_t bytes,
                              ls_request **out);
ls_status ls_links_recv_start(ls_device *device, ls_comm *comm, int from, int tag, void *buffer, size_t bytes,
                              ls_request **out);

/* Gives the request what its steps need, lets the queue follow what the device was asked for until now, and launches
 * it. `request` is released where it fails. */
ls_status ls_links_launch(ls_device *device, int queue, ls_request *request, ls_request **out);

#endif
