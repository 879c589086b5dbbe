/* links.h: collectives over links, by which devices on different machines send each other tensors without the hosts
 * (device.h; NCCL communicators for GPUs). One of the movers from which movers/tensors.c chooses; communicators.c opens
 * and closes links. Links only move bytes. Each worker's device computes its sums in the order of the tree, as on one
 * machine (collectives/device_sum.h), so the bits are those of every other way to move the tensors.
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

/* A transfer in a device queue, between two events, for finding one that hangs. */
typedef struct ls_links_move {
    ls_traffic_kind kind; /* LS_TRAFFIC_KINDS: links are being opened */
    uint64_t number;      /* of the collective; 0: a message */
    int peer;             /* rank in the communicator; −1: all */
    ls_event begin, end;
} ls_links_move;

/* The links of one communicator. */
typedef struct ls_links {
    struct ls_links *next; /* those of the worker's other communicators */
    ls_comm *comm;
    ls_device *device;
    bool open;                 /* all members opened theirs: from now on a link that fails fails the worker */
    ls_link *all;              /* of all members, for collectives; NULL: none */
    ls_link *out[2], *in[2];   /* for messages around the ring of ranks: [0] to the next and from the previous rank, [1]
                                * to the previous and from the next; NULL: that rank is on this machine, or (two members)
                                * the same as by [0] */
    ls_links_move first, last; /* the transfer that is watched, and the newest, which replaces it when it has ended;
                                * number of `end` 0: none */
    uint64_t still_ns;         /* how long `first` has been running, counted while the host waits */
} ls_links;

/* ---- links.c ----------------------------------------------------------------------------------------------------- */

/* Opens links for the new communicator `comm` (NULL: this worker is in none), collectively over its parent; `wants`:
 * LS_LINKS_…. Tests each link by moving a byte over it. If any link of any of the parent's new communicators fails, all
 * of them stay without links: rank 0 of the parent logs a warning, tensors go through host memory, later calls open
 * none, and LS_OK is returned. Other statuses: no memory, or a lost worker. */
ls_status ls_links_meet(ls_comm *parent, ls_comm *comm, unsigned wants);
/* Closes the links of a communicator, which ends transfers that are stuck; does nothing if there are none. */
void ls_links_close(ls_comm *comm);
/* Closes the links of all communicators of this worker, before the device is destroyed, or after a failure. */
void ls_links_leave(ls_world *world);
/* Checks all links for errors and deadlines; on either fails the world and closes all links. If the world has failed
 * already, only closes all links, which ends transfers that are stuck, and returns LS_OK. Called while the host
 * waits for the device; `more_ns` is the time that it has waited since the last call. */
ls_status ls_links_watch(ls_world *world, uint64_t more_ns);

/* Returns the link for messages to a rank, which must be a neighbour in the ring of ranks on another machine; NULL:
 * none, or links of another device. */
ls_link *ls_links_to(const ls_device *device, const ls_comm *comm, int rank);
/* Returns the link for messages from a rank, which must be a neighbour in the ring of ranks on another machine; NULL:
 * none, or links of another device. */
ls_link *ls_links_from(const ls_device *device, const ls_comm *comm, int rank);

/* Returns an error if the communicator's links were closed, which a failure does during any wait of the host: the
 * failure's own, or LS_ERR_PEER. */
ls_status ls_links_check(const ls_comm *comm);
/* Enqueues the transfers of `pieces` in the device's current queue, as one operation, and returns when they are
 * enqueued. LS_ERR_DEADLINE if that takes longer than --timeout. */
ls_status ls_links_put(const ls_request *request, ls_link *link, const ls_link_piece *pieces, int count);

/* ---- collectives.c, messages.c ----------------------------------------------------------------------------------- */

/* Reaches members of a communicator with links between machines, except for sums of integers; and the partner of a
 * message if a link leads there. */
extern const ls_mover ls_mover_links;
/* Advances a message over a link: the `step` of its request. LS_REQUEST_WAITS: to be called again. */
ls_status ls_links_step_send(ls_request *request);
/* Advances the receive of a message over a link: the `step` of its request. LS_REQUEST_WAITS: to be called again; only
 * the oldest unfinished receive of this worker makes progress. */
ls_status ls_links_step_receive(ls_request *request);

#endif
