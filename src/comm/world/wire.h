/* wire.h: emulates a slow network between workers that share memory (--slow-link).
 *
 * Each worker has one outgoing and one incoming link of equal bandwidth, which work concurrently. A transfer of n bytes
 * occupies each of them for n / bandwidth; transfers on one link are serialized; data that has passed both links is
 * readable one latency later:
 *
 *     collective begins (all are ready) ─┬─ out link: own bytes to others ─┐
 *                                        ├─ in link: others' bytes ────────┼─ the last of them ── latency ── readable
 *                                        └─ the busiest member's link ─────┘
 *
 * Invariants:
 *  1. Only time changes: no data is read before it could have arrived; everything else is as without --slow-link.
 *  2. A transfer begins when the data is published, not when the receiver first looks, so computation overlaps with it,
 *     as with a network card. Sums on the way are computed when the worker looks.
 *  3. Each worker tracks only its own links. Its share of a collective follows from the sizes, which all members know,
 *     so this needs no communication.
 *  4. Acknowledgements (a sender learns that its buffer was read) take no time.
 *
 * A barrier takes one latency. All workers must be on one machine, because they must share a clock. */
#ifndef LS_COMM_WIRE_H
#define LS_COMM_WIRE_H

#include "comm/world/comm.h"

/* Bytes that a collective puts on this worker's links, and the most that it puts on any member's link. */
typedef struct ls_wire_load {
    double in_bytes, out_bytes, most_bytes;
} ls_wire_load;

/* Computes the load of a collective from its request, on this worker alone. */
typedef ls_wire_load (*ls_wire_load_fn)(const ls_request *request);

/* Parses "1ms,100Mbit", in either order, or one of the two, into seconds and bytes per second; 0 if not given.
 * LS_ERR_INPUT says what is wrong, and sets neither. */
ls_status ls_wire_parse(const char *text, double *latency_s, double *bytes_per_s);

/* Sets up the links of a world, and lets this thread's sleeps end on time; nothing without --slow-link. LS_ERR_INPUT if
 * the workers are on several machines. */
ls_status ls_wire_open(ls_world *world, const ls_workers_options *options);

/* Returns whether the data that the local members (or local member number `from` ≥ 0) published with `stage` has
 * arrived by now. Always true without --slow-link. The first call books the transfer of `load` (NULL: no bytes, latency
 * alone); the caller repeats the call until it is true, which forgets the booking. */
bool ls_wire_arrived(ls_request *request, uint64_t stage, int from, ls_wire_load_fn load);

/* Returns when (monotonic) the last of the local members, or local member number `from` ≥ 0, published stage 1; with
 * `stage` > 1 when it published its newest stage above 1. Only with a control block. */
uint64_t ls_wire_published_ns(const ls_request *request, uint64_t stage, int from);

/* Books a message of `bytes` on this worker's outgoing link, and returns when its last byte leaves (monotonic; without
 * --slow-link: now). The sender sends this time along. */
uint64_t ls_wire_send(ls_world *world, uint64_t bytes);
/* Returns whether a message that left at `leaves_ns` has arrived; the first call books it on this worker's incoming
 * link. Always true without --slow-link. */
bool ls_wire_received(ls_request *request, uint64_t leaves_ns, uint64_t bytes);

/* Returns how long an idle worker may sleep, at most `most_ns`; 0: the next arrival is so near that it should spin. */
uint64_t ls_wire_nap_ns(const ls_world *world, uint64_t most_ns);
/* Returns whether a worker of this machine has a transfer in flight on a slow link. Until it arrives, no worker counts
 * as late. */
bool ls_wire_is_busy(const ls_world *world, uint64_t now_ns);

#endif
