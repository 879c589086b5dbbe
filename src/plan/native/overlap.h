/* overlap.h: predicts how much of the collectives on a GPU's communication queues overlaps with its compute queue.
 *
 *     compute     … │ backward: head, block n, …, block 0 │ update
 *     dp              ▏  head  ▏ block n ▏   …  ▏ block 0 ▏
 *                                                         └ exposed ┘
 *
 * A reduction begins when its gradients are made and the one before it has ended. The part of the last ones that lies
 * after backward is exposed: the update waits for it.
 *
 * With zero 3 the weights of a block are gathered while the previous block computes; those of the first are waited for.
 * The model assumes that kernels and collectives do not slow each other down, even if workers share a GPU. */
#ifndef LS_PLAN_NATIVE_OVERLAP_H
#define LS_PLAN_NATIVE_OVERLAP_H

#include "model/model.h"
#include "parallel/layout/micro_batches.h"
#include "parallel/schedule/schedule.h"

/* The blocks that a backward action runs, from the last to the first. has_head: the head is among them; it makes all
 * its gradients in the input phase, so a weights phase does not have it. */
typedef struct ls_native_run {
    int first, last;
    bool has_head;
} ls_native_run;
/* Returns the blocks of an action of the stage; forward actions have the same ones. */
ls_native_run ls_native_run_of(const ls_layout *layout, const ls_action *action, int stage);
/* Returns whether an action of this kind over these blocks completes the weight gradients of the block; false for
 * forward. */
bool ls_native_makes(ls_action_kind kind, const ls_native_run *run, int block);

/* Of one stage, by block of the model. */
typedef struct ls_native_grads {
    double *made;  /* when in its action the gradients are made: a share of the action's time */
    double *elems; /* of gradients that replicas add up */
} ls_native_grads;

/* Returns the gradient elements of the block, of the parameters that ls_partition_create() left on this worker. */
double ls_native_grad_elems(const ls_model *model, int block);

/* Returns when the last gradient reduction of the stage ends, on the clock of `begin` and `end` (the times of its
 * actions), if all of them together take `seconds`; 0 if there is nothing to reduce. With ZeRO 2 and 3 every round of
 * micro-batches is reduced. */
double ls_native_reduce_end(const ls_layout *layout, const ls_schedule *schedule, int stage,
                            const ls_micro_list *micros, const ls_native_grads *grads, double seconds,
                            const double *begin, const double *end);

/* Returns the exposed seconds of gathering the weights of `blocks` blocks, if all gathers together take `gather` and
 * all blocks compute for `work` seconds: the first gather, and what the others exceed the computing by. */
double ls_native_gather_seen(int blocks, double gather, double work);

#endif
