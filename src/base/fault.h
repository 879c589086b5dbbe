/* fault.h: fault injection for tests and drills: slow workers, corrupted numbers, deaths. Environment variables
 * switch it on; code that trains calls the functions below at the places where a fault may be planted.
 *
 *     LS_FAULT_SLOW=RANK:PERCENT    adds so much to the time of a worker's computation: 1:300 makes worker 1 take four
 *                                   times as long. RANK: of the first attempt (see ls_fault_read)
 *
 *     LS_FAULT_INPUT=MS             delays reading each micro-batch, on every worker
 *
 *     LS_FAULT_SHARES=SECONDS       how long slowness is observed before groups are redistributed (run/shares.h)
 *
 *     LS_FAULT_SNAPSHOT=RANK:BYTES  free memory that worker RANK sees when it checks whether a snapshot or another
 *                                   worker's state fits; −1: enough, but the allocation fails
 *
 * Computation to be slowed down stands between ls_fault_slow_begin() and ls_fault_slow_end(), which cost one load while
 * the switch is off. Each worker reads the switches once, before it starts. */
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

/* NONE: the allocation fails, although enough memory seems free. */
enum { LS_FAULT_SNAPSHOT_OFF = -2, LS_FAULT_SNAPSHOT_NONE = -1 };
extern int64_t ls_fault_snapshot; /* bytes; likewise */

/* Reads the switches from the environment for the worker of this rank and attempt (comm/world/attempt.h: how often
 * the supervisor has restarted the workers). Slowness and corruption belong to a place (its cores, its GPU) and stay
 * there if a restart assigns other ranks to the places. In the first attempt rank and place are equal. Fails with
 * LS_ERR_INPUT for a value that cannot be parsed. */
ls_status ls_fault_read(int rank, int place, int attempt);

/* ---- corrupted numbers -------------------------------------------------------------------------------------------
 *
 * A test program (tests/spoil) sets a function here that changes numbers at one of these places, to show that the
 * corruption is detected. It is NULL outside tests. */

typedef enum ls_fault_place {
    LS_FAULT_TOKENS,      /* of a batch that was read: int32 */
    LS_FAULT_FORWARD,     /* what a block adds to the residual stream */
    LS_FAULT_PRODUCT,     /* the result of a matmul, in the policy's type */
    LS_FAULT_BACKWARD,    /* the gradient that a block passes on */
    LS_FAULT_LEAF,        /* the gradient of a group */
    LS_FAULT_SHARE,       /* a worker's contribution to a sum over replicas; with one replica, its gradient */
    LS_FAULT_GRADIENT,    /* the sum, before the update */
    LS_FAULT_WEIGHT,      /* after the update: fp32 */
    LS_FAULT_MOMENT,      /* after the update */
    LS_FAULT_LATE_WEIGHT, /* right before the update, after memory was verified: fp32 */
    LS_FAULT_LATE_MOMENT,
    LS_FAULT_COPY,     /* after the update: the copy of the weight that matmuls read */
    LS_FAULT_GATHERED, /* weights of other workers, as received */
    LS_FAULT_LEFT,     /* weights that a worker of the previous attempt left; `block` is its rank */
    LS_FAULT_TAKEN,    /* the same weights after they were restored */
    LS_FAULT_SAVING    /* weights after they were verified, right before a checkpoint is written: fp32 */
} ls_fault_place;

typedef struct ls_fault_site {
    ls_fault_place place;
    const char *tensor;       /* its name; NULL: none */
    int block;                /* of the model; −1: none */
    struct ls_device *device; /* that owns the memory; NULL: host memory */
    void *data;
    size_t elems, elem_bytes;
} ls_fault_site;

extern void (*ls_fault_spoil)(const ls_fault_site *site);
extern int ls_fault_rank;     /* this worker's place, which is its rank in the first attempt */
extern int64_t ls_fault_step; /* completed steps */
extern int ls_fault_path;     /* 1: while an audit recomputes with other instructions */
extern bool ls_fault_no_unit; /* pretend that this CPU has no matrix units */

/* Lets a test program corrupt the numbers at `data`; does nothing outside tests. The step calls it wherever numbers
 * are complete. */
static inline void ls_fault_at(struct ls_device *device, ls_fault_place place, const char *tensor, int block,
                               void *data, size_t elems, size_t elem_bytes) {
    if (ls_fault_spoil) ls_fault_spoil(&(ls_fault_site){place, tensor, block, device, data, elems, elem_bytes});
}

/* ---- deaths -------------------------------------------------------------------------------------------------------
 *
 *     LS_FAULT_POINT=POINT:RANK:STEP:ATTEMPT[:COUNT[:kill|stop|parent]],…
 *     LS_FAULT_LOG=FILE
 *
 * The worker of rank RANK kills itself, stops (SIGSTOP), or kills its parent, the COUNT-th time (1: the first) that it
 * reaches the point named POINT in that step of that attempt. −1 means any; STEP +2 means two steps after the first
 * one of the attempt. FILE gets a line for each such event: "kill update rank=1 step=3 attempt=0". For tests. */

#define LS_FAULT_POINTS(X)                                                                                             \
    X(START, "start")       /* before the state of the run is loaded */                                                \
    X(LOAD, "load")         /* weights of a checkpoint are loaded, optimizer state and counters are not */             \
    X(ADOPT, "adopt")       /* while the state is restored from the previous attempt */                                \
    X(FINISH, "finish")     /* while an update that the previous attempt began is finished */                          \
    X(READY, "ready")       /* right before this attempt reports that it has the state */                              \
    X(FORWARD, "forward")   /* before forward and backward */                                                          \
    X(REDUCE, "reduce")     /* before the gradients of a block, while those of other blocks are reduced */             \
    X(REDUCED, "reduced")   /* gradients are reduced, their norm is not known */                                       \
    X(GIVEN, "given")       /* gradients are also with the workers that keep copies */                                 \
    X(COMMIT, "commit")     /* the step is decided but not recorded */                                                 \
    X(UPDATE, "update")     /* a block of elements is updated */                                                       \
    X(PUBLISH, "publish")   /* own elements are updated, other workers do not have them */                             \
    X(STEPPED, "stepped")   /* the step is done but not in the metrics */                                              \
    X(EVALUATE, "evaluate") /* before an evaluation (COUNT 1) and after it (COUNT 2) */                                \
    X(SAVE, "save")         /* before a checkpoint is saved, or copied for a save in the background */                 \
    X(PART, "part")         /* this worker's part of the checkpoint is on disk */                                      \
    X(NAME, "name")         /* rank 0: all parts are on disk, the folder has no final name */                          \
    X(SAVED, "saved")       /* after the save, or after the copy for it */                                             \
    X(LEAVE, "leave")       /* it has left for another set of workers, its process still exists */                     \
    X(STOPPED, "stopped")   /* a signal has ended its run, its supervisor does not know yet */                         \
    X(END, "end")           /* its run is over, its process still exists */

typedef enum ls_fault_point_kind {
#define LS_FAULT_POINT_ENUM(name, text) LS_POINT_##name,
    LS_FAULT_POINTS(LS_FAULT_POINT_ENUM)
#undef LS_FAULT_POINT_ENUM
        LS_POINTS
} ls_fault_point_kind;

extern bool ls_fault_has_points; /* only ls_fault_read() writes it */
/* Kills or stops this process or its parent if an entry of LS_FAULT_POINT names this point, step and count; otherwise
 * returns. */
void ls_fault_die(ls_fault_point_kind point);
/* Marks a place in the code where LS_FAULT_POINT may let the worker die; costs one load otherwise. */
static inline void ls_fault_point(ls_fault_point_kind point) {
    if (ls_fault_has_points) ls_fault_die(point);
}

/* ---- slow work --------------------------------------------------------------------------------------------------- */

/* Returns the time at which computation that may be slowed down begins, for ls_fault_slow_end(); 0 while the switch
 * is off. */
static inline double ls_fault_slow_begin(void) { return ls_fault_slow > 0 ? ls_clock_seconds() : 0; }
/* Spins for the time since `begin` multiplied by the switch; does nothing while it is off. */
void ls_fault_slow_end(double begin);
/* Sleeps for ls_fault_input_ms, as a thread that waits for a disk does. */
void ls_fault_input_wait(void);
/* Delays the reading of a micro-batch if LS_FAULT_INPUT is set. */
static inline void ls_fault_slow_input(void) {
    if (ls_fault_input_ms > 0) ls_fault_input_wait();
}

#endif
