/* meter.h: stopwatch of one worker: how its time divides into computation, idle time and synchronization, while it is
 * switched on (`lockstep scale`).
 *
 * The executor, the optimizer step and collectives count into it; `lockstep scale` reads it. Counters only grow; take
 * the difference of two readings. While the meter is off, as by default, each place costs one load. For the worker's
 * main thread, which computes and calls collectives. A worker's time is
 *
 *     computation      inside forward, backward and optimizer, without calls of collectives
 *     idle             in a call of a collective, until the last of the other members has started it
 *     synchronization  in such a call, after that: transfers that are not overlapped, copies, sums
 *     other            the rest of a step: scheduling, bookkeeping, reading data */
#ifndef LS_BASE_METER_H
#define LS_BASE_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "lockstep.h"

/* The counters, in ns; those by kind have one for each kind of traffic between workers (gradients, weights, ...). */
typedef struct ls_meter {
    bool on;
    uint64_t compute_ns, comm_ns; /* comm: all calls of collectives */
    uint64_t idle_ns[LS_TRAFFIC_KINDS], sync_ns[LS_TRAFFIC_KINDS];
    uint64_t link_ns[LS_TRAFFIC_KINDS]; /* time with a transfer in flight on a slow link, overlapped or not */
} ls_meter;

extern ls_meter ls_meter_now;

/* The meter at the beginning of a span; zeros: it was off. */
typedef struct ls_meter_mark {
    uint64_t begin_ns, comm_ns;
} ls_meter_mark;

/* Begins a span of computation or a call of a collective. Returns zeros while the meter is off. */
static inline ls_meter_mark ls_meter_begin(void) {
    ls_meter_mark mark = {0};
    if (ls_meter_now.on) mark = (ls_meter_mark){ls_clock_ns(), ls_meter_now.comm_ns};
    return mark;
}

/* Ends a span of computation and counts it, without the calls of collectives inside it. */
static inline void ls_meter_computed(ls_meter_mark mark) {
    if (mark.begin_ns == 0) return;
    ls_meter_now.compute_ns += ls_clock_ns() - mark.begin_ns - (ls_meter_now.comm_ns - mark.comm_ns);
}

/* Ends a call of a collective of this kind of traffic. `ready_ns`: when the last of the other members started it, as
 * ls_clock_ns(); 0: not known, or long ago, so that all of the call counts as synchronization. */
static inline void ls_meter_communicated(ls_meter_mark mark, int kind, uint64_t ready_ns) {
    if (mark.begin_ns == 0 || kind >= LS_TRAFFIC_KINDS) return;
    uint64_t end = ls_clock_ns(), all = end - mark.begin_ns;
    uint64_t idle = ready_ns <= mark.begin_ns ? 0 : ready_ns < end ? ready_ns - mark.begin_ns : all;
    ls_meter_now.comm_ns += all;
    ls_meter_now.idle_ns[kind] += idle;
    ls_meter_now.sync_ns[kind] += all - idle;
}

#endif
