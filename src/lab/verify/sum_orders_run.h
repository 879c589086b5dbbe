/* sum_orders_run.h: training with gradients that are added in another order than ours.
 *
 * In each step every group's gradient is made apart, by a stage that is one dp row of G and whose sums are left where
 * they are. They are added the given way, and the trainer goes on with the sum as if it were its own: norm, clip,
 * update. So all ways see the same data, the same dropout and the same kernels; the order of G numbers is all that
 * differs.
 *
 * Lockstep's own way is the trainer as it is, on as many workers as the way says: real processes, real reductions. */
#ifndef LS_LAB_VERIFY_SUM_ORDERS_RUN_H
#define LS_LAB_VERIFY_SUM_ORDERS_RUN_H

#include "lab/verify/sum_orders.h"
#include "lab/verify/trial.h"

/* What a way left behind, in memory that forked processes share. */
typedef struct ls_order_record {
    int64_t steps;
    size_t elems;
    ls_verify_hash *weights; /* of all of them */
    double *loss;            /* [steps] */
    float *grad, *weight;    /* [elems]: of the first step, after the last one; parameters in model order */
    size_t map_bytes;
} ls_order_record;

ls_status ls_order_record_open(int64_t steps, size_t elems, ls_order_record *out);
void ls_order_record_close(ls_order_record *record); /* zeros do nothing */

typedef struct ls_order_task {
    ls_order_way way;
    ls_order_record *record;
} ls_order_task;

/* All workers of the job's layout call it together; world NULL: one worker alone, as every way but our own needs. The
 * job's record and fetch are not used; its fault is planted in our own way only. Worker 0 writes the record. */
ls_status ls_order_work(const ls_verify_job *job, const ls_order_task *task, ls_world *world, ls_device *device);

/* What one way of adding changed against the one that it is compared with. */
typedef struct ls_order_result {
    ls_order_way way;
    ls_order_difference grad;   /* after the first step */
    ls_order_difference weight; /* after the last */
    int64_t first_bits, first_seen;
    ls_verify_hash weights;
    double *loss; /* [steps] */
} ls_order_result;

typedef struct ls_order_case {
    char model[64];
    int64_t steps;
    int ways;
    ls_order_result result[LS_ORDER_WAYS_MAX];
} ls_order_case;

enum { LS_ORDER_CASES_MAX = 8 };

#endif
