/* sum_order.h: trains with gradients that are added in another order than lockstep's tree (a fixed balanced tree over
 * the groups of the batch), for `lockstep verify --order`.
 *
 * In each step the gradient of every group is computed alone, by a partition that is one of G in its DP group and does
 * not reduce. The gradients are added in the given way, and the trainer continues with the sum as with its own: norm,
 * clip, update. So all ways have the same data, dropout and kernels; only the order of G numbers differs.
 *
 * Lockstep's own way is an unchanged trainer with the way's number of workers: real processes, real reductions. */
#ifndef LS_LAB_VERIFY_SUM_ORDER_H
#define LS_LAB_VERIFY_SUM_ORDER_H

#include "lab/verify/steps.h"
#include "lab/verify/sum_orders.h"

/* The results of one way of adding, in shared memory (lab/trial.h). */
typedef struct ls_order_record {
    int64_t steps;
    size_t elems;            /* of all parameters */
    ls_verify_hash *weights; /* one hash of all weights */
    double *loss;            /* [steps] */
    float *grad, *weight;    /* [elems]: of the first step, after the last one; parameters in model order */
} ls_order_record;

/* Allocates a record in shared memory. Call it before workers are forked. */
ls_status ls_order_record_open(int64_t steps, size_t elems, ls_order_record *out);
/* Unmaps the record; does nothing for {0}. */
void ls_order_record_close(ls_order_record *record);

typedef struct ls_order_task {
    ls_order_way way;
    ls_order_record *record;
    const ls_verify_fault *fault; /* planted in our own way only; NULL: none */
} ls_order_task;

/* Trains the steps of a task, the function of a trial; ctx is the ls_order_task. Every way but lockstep's own needs a
 * layout of one worker. Worker 0 writes the record. */
ls_status ls_order_steps(ls_trainer *trainer, void *ctx);

/* ---- all ways ---------------------------------------------------------------------------------------------------- */

/* How the results of one way of adding differ from those of its base. */
typedef struct ls_order_result {
    ls_order_way way;
    ls_order_difference grad;       /* after the first step */
    ls_order_difference weight;     /* after the last */
    int64_t first_bits, first_seen; /* first step whose losses differ: in any bit, in what train prints; 0: none */
    ls_verify_hash weights;
    double *loss; /* [steps] */
} ls_order_result;

typedef struct ls_order_case {
    char model[64];
    int64_t steps;
    int ways;
    ls_order_result result[LS_ORDER_WAYS_MAX];
    const ls_order_result *different; /* the first of our own ways that depends on the workers; NULL: none does */
} ls_order_case;

enum { LS_ORDER_CASES_MAX = 8 };

typedef struct ls_order_request {
    const ls_options *options;
    const ls_verify_fault *fault; /* NULL: none */
    /* Called before a way is trained, and after it with its result in done->result[way]; a failure of the second ends
     * the run. */
    void (*on_start)(void *ctx, const ls_order_case *done, int way);
    ls_status (*on_row)(void *ctx, const ls_order_case *done, int way);
    void *ctx;
} ls_order_request;

/* Trains once with every way of adding. The caller frees *done by ls_order_case_free(), also after a failure. Forks
 * workers, so the process must not have started a thread. */
ls_status ls_order_run(const ls_order_request *request, const ls_lab_model *one, ls_order_case *done);
/* Frees the losses of all ways. */
void ls_order_case_free(ls_order_case *done);

#endif
