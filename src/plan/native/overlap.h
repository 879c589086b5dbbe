/* overlap.h: what a GPU's queues of collectives do while its queue of kernels computes.
 *
 *     compute     … │ backward: head, block n, …, block 0 │ update
 *     dp              ▏  head  ▏ block n ▏   …  ▏ block 0 ▏           a reduction begins when its gradients are made
 * and the one └ seen ┘              before it has ended; what ends after backward is waited for
 *
 * With zero 3 the weights of a block are gathered while the block before it computes; those of the first one are waited
 * for. Kernels and collectives are taken not to slow each other down, also where workers share a GPU. */
#ifndef LS_PLAN_NATIVE_OVERLAP_H
#define LS_PLAN_NATIVE_OVERLAP_H

#include "model/model.h"
#include "parallel/layout/micro_batches.h"
#include "parallel/schedule/schedule.h"

/* The first and the last block that an action runs, from the last to the first. With a head that is not in the phase of
 * the weights, as it makes all of its gradients in that of the input. */
typedef struct ls_native_run {
    int first, last;
    bool has_head;
} ls_native_run;
ls_native_run ls_native_run_of(const ls_layout *layout, const ls_action *action, int stage);
/* Whether gradients of the block are made by such an action. */
bool ls_native_makes(ls_action_kind kind, const ls_native_run *run, int block);

/* Of one stage, by block of the model. */
typedef struct ls_native_grads {
    double *made;  /* when in its action the gradients are made: a share of the action's time */
    double *elems; /* of gradients that replicas add up */
} ls_native_grads;

/* Parameters are divided among the workers of the place already (ls_partition_create). */
double ls_native_grad_elems(const ls_model *model, int block);

/* When the last reduction of the stage ends, if all together take so long; `begin` and `end` are of its actions. */
double ls_native_reduce_end(const ls_layout *layout, const ls_schedule *schedule, int stage,
                            const ls_micro_list *micros, const ls_native_grads *grads, double seconds,
                            const double *begin, const double *end);

/* What is seen of the gathering of the weights of so many blocks, while they compute. */
double ls_native_gather_seen(int blocks, double gather, double work);

#endif
