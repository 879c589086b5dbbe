/* peers.h: collectives of workers whose devices (GPUs of one machine) read and write each other's memory. One of the
 * movers from which movers/tensors.c chooses; movers/device.c registers the device and its allocations.
 *
 * Counters in device memory order the queues of different devices; only the queues of a counter's owner write it. The
 * hosts exchange the places of tensors and the values that counters will reach through slots and mail (mail.h), as in
 * every other collective. A worker does:
 *
 *     start   signal `ready` on the compute queue; publish where its tensors are (stage 1)
 *     run     once all members have published, on the communicator's queue: follow the start → await the others'
 *             `ready` → read, add up, write → signal `done`; publish the value of `done` (stage 2)
 *     end     once all members have published again: later work on the compute queue follows the communicator's queue
 *             and awaits the `done` of all members
 *
 * Invariants:
 *   1. An await is enqueued only after the signal that it awaits, because a worker awaits only published values, and a
 *      value is published after its signal was enqueued. So queues cannot deadlock, whatever the order in which workers
 *      reach their collectives, and enqueued work needs no host.
 *   2. No other worker touches a tensor before its `ready`, and its owner does not touch it again before the `done` of
 *      all readers and writers.
 *   3. Members that share a GPU publish a signal only after the GPU has reached it, so that no queue waits for another
 *      process. A GPU is time-sliced between processes, and a queue that awaits a counter uses up the time slice of its
 *      process: with eight workers on a GPU a collective took about 60 ms.
 *   4. A worker that was lost never signals. So a host that waits for its device checks the other workers meanwhile
 *      (ls_device_guest, callbacks of the device: movers/device.c).
 *
 * Sums are computed in the order of the tree (reduce_plan.h), so the bits are those of every other way to move the
 * tensors. */
#ifndef LS_COMM_PEERS_PEERS_H
#define LS_COMM_PEERS_PEERS_H

#include "comm/collectives/device_sum.h"
#include "comm/collectives/mail.h"
#include "comm/collectives/move.h"

typedef struct ls_peers ls_peers;

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */

/* Creates world->peers, which shares the device's memory with the other workers of this machine until the device is
 * destroyed, for communicators that are made later. If the device cannot share, logs a warning once and returns LS_OK;
 * tensors then go through host memory. Does nothing for a worker alone on its machine, or with --slow-link. */
ls_status ls_peers_open(ls_world *world, ls_device *device);
/* Registers an allocation of the device, so that tensors in it can be shared; called after every allocation. */
ls_status ls_peers_note(ls_peers *peers, void *memory, size_t bytes);
/* Removes an allocation that is about to be freed; does nothing if it is not registered. */
void ls_peers_forget(ls_peers *peers, const void *memory);
/* Ends sharing and frees `peers`, before the device is destroyed. */
void ls_peers_leave(ls_peers *peers);
/* Opens the counters of the local members, once a communicator is made, and sets comm->takes_turns if one of
 * them uses this worker's GPU. All of them must have world->peers. Returns false, and logs a warning once, if a
 * member's counters cannot be opened. */
bool ls_peers_meet(ls_comm *comm);

/* Returns in *place the name by which other workers find `memory`, which the device allocated; 0 for 0 bytes.
 * LS_ERR_INPUT: the device did not allocate it. */
ls_status ls_peers_place(ls_peers *peers, const void *memory, size_t bytes, uint64_t *place);
/* Returns in *out the address, on this worker's device, of a local member's place; opens that member's allocation at
 * the first call. NULL for place 0. LS_ERR_FAILED: that member has freed the memory. */
ls_status ls_peers_at(const ls_comm *comm, int local, uint64_t place, void **out);

/* The two counters that a worker has for each queue: its tensors are ready; it has read and written the others'. */
typedef enum ls_peers_count { LS_PEERS_READY, LS_PEERS_DONE } ls_peers_count;

/* Enqueues, in the device's current queue, a signal that sets this worker's counter for the communicator to the next
 * value, which *value gets. */
ls_status ls_peers_signal(const ls_comm *comm, ls_peers_count kind, uint64_t *value);
/* Returns a local member's counter for the communicator, in device memory; only for ls_device_await(). */
const uint64_t *ls_peers_counter(const ls_comm *comm, int local, ls_peers_count kind);
/* Returns whether the signal at `event` may be published (invariant 3): LS_OK if no other member uses this worker's GPU
 * (comm->takes_turns) or the GPU has reached the event; otherwise LS_REQUEST_WAITS. */
ls_status ls_peers_reached(const ls_request *request, ls_event event);

/* ---- collectives.c, messages.c ----------------------------------------------------------------------------------- */

/* Reaches all members of a communicator on one machine whose devices can access each other's memory, except for sums of
 * integers; and the partner of a message on this machine. */
extern const ls_mover ls_mover_peers;
/* Advances a send of device memory between local members: the `step` of its request. LS_REQUEST_WAITS: to be called
 * again. */
ls_status ls_peers_step_send(ls_request *request);
/* Advances a receive of device memory between local members: the `step` of its request. LS_REQUEST_WAITS: to be called
 * again. */
ls_status ls_peers_step_receive(ls_request *request);

#endif
