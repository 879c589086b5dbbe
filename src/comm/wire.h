/* wire.h: a slow network between workers that in truth share memory (--slow-link).
 *
 * Each worker has one link out and one in, both of the same bandwidth, that work at the same time. A transfer of n
 * bytes takes n / bandwidth of each; transfers on one link follow each other; what has passed both links is readable
 * one latency later:
 *
 *     collective begins (all are there) ─┬─ out link: own bytes to others ─┐
 *                                        ├─ in link: others' bytes ────────┼─ the last of them ── latency ── readable
 *                                        └─ the busiest member's link ─────┘
 *
 * Invariants:
 *  1. Only time changes: nothing is read before it could have come, everything else is as without.
 *  2. A transfer begins when the data was published, not when the receiver first looks: what a worker computes
 * meanwhile hides it, as with a network card that works by itself. What has to be added up on the way is added up when
 * the worker looks.
 *  3. Each worker knows its own links alone. A member's share of a collective follows from the sizes, which all know,
 * so nobody asks.
 *  4. Acknowledgements (a sender learns that its buffer was read) cost nothing.
 *
 * A barrier is one latency. All workers must be on one machine: they share a clock there. */
#ifndef LS_COMM_WIRE_H
#define LS_COMM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define LS_WIRE_NEVER UINT64_MAX

typedef struct ls_wire {
    bool slow;
    uint64_t latency_ns;
    double ns_per_byte;
    uint64_t in_free_ns, out_free_ns; /* when this worker's links will have carried all that was asked of them */
    uint64_t counted_ns;              /* up to here base/meter.h knows of what was under way */
    uint64_t wake_ns; /* when the first of what is under way arrives, as of the last look; LS_WIRE_NEVER: nothing is */
} ls_wire;

/* What a collective asks of links: this worker's, and of the most that any member's link carries. */
typedef struct ls_wire_load {
    double in_bytes, out_bytes, most_bytes;
} ls_wire_load;

typedef ls_wire_load (*ls_wire_load_fn)(const ls_request *request);

/* "1ms,100Mbit", in either order, or one of the two: seconds and bytes a second, 0 where not given. LS_ERR_INPUT says
 * what is wrong. */
ls_status ls_wire_parse(const char *text, double *latency_s, double *bytes_per_s);

/* Sets the links of a world up; LS_ERR_INPUT where its workers are on several machines. */
ls_status ls_wire_open(ls_world *world, const ls_workers_options *options);

/* Whether what the local members (or the one with number `from` ≥ 0) published with `stage` could have come by now.
 * True where links are not slow. Asked again and again until it is true; the first time books the links. */
bool ls_wire_arrived(ls_request *request, uint64_t stage, int from, ls_wire_load_fn load);

/* When the last of the local members (or the one with number `from` ≥ 0) published `stage`. Known over a slow link, and
 * while somebody measures. */
uint64_t ls_wire_published_ns(const ls_request *request, uint64_t stage, int from);

/* A message: the sender books its link out and hands over when the last byte leaves; the receiver asks whether it has
 * come. */
uint64_t ls_wire_send(ls_world *world, uint64_t bytes);
bool ls_wire_received(ls_request *request, uint64_t leaves_ns, uint64_t bytes);

/* How long a worker with nothing else to do may sleep: at most `most_ns`; 0: what comes next is so near that it spins.
 */
uint64_t ls_wire_nap_ns(const ls_world *world, uint64_t most_ns);
/* Whether some worker of this machine still has a transfer under way: nobody is late then. */
bool ls_wire_is_busy(const ls_world *world, uint64_t now_ns);

#endif
