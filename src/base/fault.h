/* fault.h: fault injection for tests: a worker that is slow, numbers that are spoiled.
 *
 *     LS_FAULT_SLOW=RANK:PERCENT    how much longer its work takes: 1:300 makes worker 1 four times slower
 *
 *     LS_FAULT_INPUT=MS             reading a micro-batch takes so many milliseconds longer, on every worker
 *
 *     LS_FAULT_SHARES=SECONDS       how long slowness is looked at before groups are shared out anew (run/shares.h)
 *
 *     LS_FAULT_SNAPSHOT=RANK:BYTES  worker RANK sees so much free memory when it asks whether a copy of what is saved,
 *                                   or of another's state, fits; −1: enough, and then it gets none
 *
 * What is slowed down is put between begin and end, which cost one look at a number while the switch is off. The number
 * is set once, by each worker, before it works. */
#ifndef LS_BASE_FAULT_H
#define LS_BASE_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

struct ls_device;

/* 3.0 for 300 %; 0: off. Only ls_fault_read() writes it. */
extern double ls_fault_slow;

extern double ls_fault_input_ms; /* 0: off; likewise */

enum { LS_FAULT_SNAPSHOT_OFF = -2, LS_FAULT_SNAPSHOT_NONE = -1 };
extern int64_t ls_fault_snapshot; /* bytes; likewise */

/* Looks at the environment for the worker of this rank, in this attempt (comm/attempt.h). What is slow, or computes
 * wrongly, is a place: it stays with it when ranks are dealt out anew. In the first attempt the two are the same. */
ls_status ls_fault_read(int rank, int place, int attempt);

/* ---- spoiled numbers ---------------------------------------------------------------------------------------------
 *
 * A test's own program (tests/spoil) puts a function here that changes numbers at one of these places, to see whether
 * it is noticed. It is NULL outside tests. */

typedef enum ls_fault_place {
    LS_FAULT_TOKENS,      /* of a batch as it was read: int32 */
    LS_FAULT_FORWARD,     /* what a block gives to the residual stream */
    LS_FAULT_PRODUCT,     /* the result of a matmul, in the policy's type */
    LS_FAULT_BACKWARD,    /* the gradient that a block passes on */
    LS_FAULT_LEAF,        /* the gradient of a group */
    LS_FAULT_SHARE,       /* what a worker adds to a sum over replicas; with one replica, its gradient of the step */
    LS_FAULT_GRADIENT,    /* the sum, before the update */
    LS_FAULT_WEIGHT,      /* after the update: fp32 */
    LS_FAULT_MOMENT,      /* after the update */
    LS_FAULT_LATE_WEIGHT, /* right before the update, when memory has been checked: fp32 */
    LS_FAULT_LATE_MOMENT,
    LS_FAULT_COPY,     /* after the update: the weight as matmuls read it */
    LS_FAULT_GATHERED, /* weights of other workers, as they came */
    LS_FAULT_LEFT,     /* weights that a worker of the attempt before left; `block` is its rank */
    LS_FAULT_TAKEN     /* weights as they were taken over from it */
} ls_fault_place;

typedef struct ls_fault_site {
    ls_fault_place place;
    const char *tensor;       /* NULL: none of its own */
    int block;                /* of the model; −1: none */
    struct ls_device *device; /* whose memory it is; NULL: the host's */
    void *data;
    size_t elems, elem_bytes;
} ls_fault_site;

extern void (*ls_fault_spoil)(const ls_fault_site *site);
extern int ls_fault_rank;     /* of this worker's place */
extern int64_t ls_fault_step; /* steps done */
extern int ls_fault_path;     /* 1: while other instructions than usual compute */
extern bool ls_fault_no_unit; /* this CPU is taken for one without matrix units */

static inline void ls_fault_at(struct ls_device *device, ls_fault_place place, const char *tensor, int block,
                               void *data, size_t elems, size_t elem_bytes) {
    if (ls_fault_spoil) ls_fault_spoil(&(ls_fault_site){place, tensor, block, device, data, elems, elem_bytes});
}

/* ---- deaths -------------------------------------------------------------------------------------------------------
 *
 *     LS_FAULT_POINT=POINT:RANK:STEP:ATTEMPT[:COUNT[:kill|stop|parent]],…
 *     LS_FAULT_LOG=FILE
 *
 * The worker of that rank kills itself, stops (SIGSTOP), or kills its parent, at the place of that name, the COUNT-th
 * time (1: the first) that it comes by in that step of that attempt; −1 is any, and a STEP of +2 the second after the
 * first one of the attempt. FILE gets a line for each time that it happened: "kill update rank=1 step=3 attempt=0". For
 * tests. */

#define LS_FAULT_POINTS(X)                                                                                             \
    X(START, "start")       /* before the state of the run is there */                                                 \
    X(LOAD, "load")         /* weights of a checkpoint are loaded, moments and numbers are not */                      \
    X(ADOPT, "adopt")       /* while it is taken from the attempt before */                                            \
    X(FINISH, "finish")     /* while an update is finished that the attempt before left */                             \
    X(READY, "ready")       /* right before this attempt has it */                                                     \
    X(FORWARD, "forward")   /* before the pass over the batch */                                                       \
    X(REDUCE, "reduce")     /* before the gradients of a block, while those of others are summed */                    \
    X(REDUCED, "reduced")   /* gradients are there, nobody knows the norm */                                           \
    X(GIVEN, "given")       /* gradients are with those who keep copies, too */                                        \
    X(COMMIT, "commit")     /* the step is decided, and not written down */                                            \
    X(UPDATE, "update")     /* a block of elements has changed */                                                      \
    X(PUBLISH, "publish")   /* own elements have changed, nobody else has them */                                      \
    X(STEPPED, "stepped")   /* the step is done, and not in the metrics */                                             \
    X(EVALUATE, "evaluate") /* before an evaluation, and after it: COUNT 2 */                                          \
    X(SAVE, "save")         /* before a checkpoint is saved, or copied to be saved meanwhile */                        \
    X(PART, "part")         /* this worker's part of it is on disk */                                                  \
    X(NAME, "name")         /* of the first worker: all parts are, and it has no name yet */                           \
    X(SAVED, "saved")       /* after, or after the copy was made */                                                    \
    X(LEAVE, "leave")       /* it has left for another set of workers, and its process is still there */               \
    X(STOPPED, "stopped")   /* a signal has ended the run for it, which its supervisor does not know yet */            \
    X(END, "end")           /* the run is over for it, and its process is still there */

typedef enum ls_fault_point_kind {
#define LS_FAULT_POINT_ENUM(name, text) LS_POINT_##name,
    LS_FAULT_POINTS(LS_FAULT_POINT_ENUM)
#undef LS_FAULT_POINT_ENUM
        LS_POINTS
} ls_fault_point_kind;

extern bool ls_fault_has_points; /* only ls_fault_read() writes it */
void ls_fault_die(ls_fault_point_kind point);
static inline void ls_fault_point(ls_fault_point_kind point) {
    if (ls_fault_has_points) ls_fault_die(point);
}

/* ---- slow work --------------------------------------------------------------------------------------------------- */

static inline double ls_fault_slow_begin(void) { return ls_fault_slow > 0 ? ls_clock_seconds() : 0; }
/* Stays busy for as long as the work since `begin` makes it. */
void ls_fault_slow_end(double begin);
/* Sleeps, as one who waits for a disk does. */
void ls_fault_input_wait(void);
static inline void ls_fault_slow_input(void) {
    if (ls_fault_input_ms > 0) ls_fault_input_wait();
}

#endif
