/* fault.h: fault injection for tests: a worker that is slow, numbers that are spoiled.
 *
 *     LS_FAULT_SLOW=RANK:PERCENT    how much longer its work takes: 1:300 makes worker 1 four times slower
 *
 *     LS_FAULT_INPUT=MS             reading a micro-batch takes so many milliseconds longer, on every worker
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

/* Looks at the environment for the worker of this rank. */
ls_status ls_fault_read(int rank);

/* ---- spoiled numbers ---------------------------------------------------------------------------------------------
 *
 * A test's own program (tests/spoil) puts a function here that changes numbers at one of these places, to see whether
 * it is noticed. It is NULL outside tests. */

typedef enum ls_fault_place {
    LS_FAULT_TOKENS,   /* of a batch as it was read: int32 */
    LS_FAULT_FORWARD,  /* what a block gives to the residual stream */
    LS_FAULT_PRODUCT,  /* the result of a matmul, in the policy's type */
    LS_FAULT_BACKWARD, /* the gradient that a block passes on */
    LS_FAULT_LEAF,     /* the gradient of a group */
    LS_FAULT_GRADIENT, /* the sum, before the update */
    LS_FAULT_WEIGHT,   /* after the update: fp32 */
    LS_FAULT_MOMENT,   /* after the update */
    LS_FAULT_COPY,     /* after the update: the weight as matmuls read it */
    LS_FAULT_GATHERED  /* weights of other workers, as they came */
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
extern int ls_fault_rank;     /* of this worker */
extern int64_t ls_fault_step; /* steps done */
extern int ls_fault_path;     /* 1: while other instructions than usual compute */
extern bool ls_fault_no_unit; /* this CPU is taken for one without matrix units */

static inline void ls_fault_at(struct ls_device *device, ls_fault_place place, const char *tensor, int block,
                               void *data, size_t elems, size_t elem_bytes) {
    if (ls_fault_spoil) ls_fault_spoil(&(ls_fault_site){place, tensor, block, device, data, elems, elem_bytes});
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
