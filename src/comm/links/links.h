/* links.h: collectives over links, by which devices on different machines send each other tensors without the hosts
 * (device.h; NCCL communicators for GPUs). Links only move bytes. Each worker's device computes its sums in the order
 * of the tree, as on one machine (collectives/device_sum.h), so the bits are those of every other way to move the
 * tensors.
 *
 *     all-gather      each member sends its piece to all others
 *     reduce-scatter  each member sends its parts of shard d to member d, which adds them up, window by window
 *     all-reduce      a reduce-scatter; then each member sends its shard of the sum to all others
 *     a message       the receiver asks for it, then the sender sends it and reports that it did
 *
 * Members of one machine also use links among themselves. A collective is enqueued completely when it is started,
 * without communication between hosts: the queue stalls until the queues of the other members have reached it.
 *
 * A message needs both hosts. The receiver enqueues the receive in LS_QUEUE_RECEIVE and asks for the message through
 * the transport; then the sender enqueues the send and reports it. A worker has one receive in flight. Invariants:
 *   1. When the wait for a message returns, both ends are enqueued, and neither host is needed any more.
 *   2. Sends are enqueued in some global order of time, and every queue has its sends and its receives in that order.
 * So queues cannot deadlock. Each direction between two neighbours has its own link, because a link has one order.
 *   3. A worker fails if a link fails, or if nothing moves on it for --timeout. A host that waits for its device checks
 *      this (ls_links_watch). */
#ifndef LS_COMM_LINKS_LINKS_H
#define LS_COMM_LINKS_LINKS_H

#include "comm/collectives/move.h"

/* What links of a communicator are used for. */
enum { LS_LINKS_COLLECTIVES = 1, LS_LINKS_MESSAGES = 2 };

/* A transfer in a queue, between two events. */
typedef struct ls_links_move {
    ls_traffic_kind kind;
    uint64_t number; /* of the collective */
    int peer;        /* −1: all */
    ls_event begin, end;
} ls_links_move;

/* The links of one communicator. */
typedef struct ls_links {
    struct ls_links *next;
    ls_comm *comm;
    ls_device *device;
    bool open;    /* all members opened theirs: from now on a link that fails fails the worker */
    ls_link *all; /* of all members, for collectives; NULL: none */
    ls_link *out[2],
        *in[2]; /* for messages to and from the next and the previous rank of the ring, if on another machine */
    ls_links_move first, last; /* oldest and newest transfer that may be unfinished; number of `end` 0: none */
    uint64_t still_ns;         /* how long `first` has been running */
} ls_links;

/* ---- links.c ----------------------------------------------------------------------------------------------------- */

/* Opens links for the new communicator (NULL: this worker is in none), collectively over its parent. Either all
 * communicators get links or none does; then rank 0 of the parent logs a warning, and tensors go through host memory.
 */
ls_status ls_links_meet(ls_comm *parent, ls_comm *comm, unsigned wants);
/* Close the links of a communicator; of all communicators, before the device is destroyed. */
void ls_links_close(ls_comm *comm);
void ls_links_leave(ls_world *world);
/* Checks all links for errors and deadlines. Called while the host waits for the device; `more_ns` is the time that it
 * has waited since the last call. */
ls_status ls_links_watch(ls_world *world, uint64_t more_ns);

/* Return the link of the device to a rank, and from it; NULL: none. */
ls_link *ls_links_to(const ls_device *device, const ls_comm *comm, int rank);
ls_link *ls_links_from(const ls_device *device, const ls_comm *comm, int rank);

/* Returns an error if the links are gone: a failure closes them during any wait of the host. */
ls_status ls_links_check(const ls_comm *comm);
/* Enqueues the pieces in the device's current queue, and returns when they are enqueued. */
ls_status ls_links_put(const ls_request *request, ls_link *link, const ls_link_piece *pieces, int count);

/* ---- collectives.c, messages.c ----------------------------------------------------------------------------------- */

/* Reaches members of a communicator with links between machines, or the partner of a message if a link leads there. */
extern const ls_mover ls_mover_links;
/* The steps of its messages. */
ls_status ls_links_step_send(ls_request *request);
ls_status ls_links_step_receive(ls_request *request);

#endif
