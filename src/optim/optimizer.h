/* optimizer.h: one step of an optimizer over the parameters of a model: AdamW, or SGD with or without momentum.
 *
 * Weight decay applies only to parameters that are declared with it (matrices and tables, not norms and biases). AdamW
 * has two moments, SGD with momentum has one, SGD without has none.
 *
 * The scalars of a step are computed in double, with the project's own functions, and rounded to fp32 once
 * (docs/reference/arithmetic.md, "Step"). They need no state in a checkpoint: ls_adamw_powers is a running value, but a
 * function of the number of updates only. */
#ifndef LS_OPTIM_OPTIMIZER_H
#define LS_OPTIM_OPTIMIZER_H

#include "nn/blocks.h"

/* A normal fp32 number, so that a weight whose moments are 0 does not change; with epsilon 0 it would become 0/0. */
#define LS_ADAMW_EPSILON_MIN 1e-37

typedef struct ls_adamw_options {
    double beta1, beta2; /* 0 ≤ β < 1 */
    double epsilon;      /* ≥ LS_ADAMW_EPSILON_MIN */
} ls_adamw_options;

typedef struct ls_sgd_options {
    double momentum; /* 0 ≤ μ < 1 */
    bool nesterov;
} ls_sgd_options;

ls_status ls_adamw_options_check(const ls_adamw_options *options);
ls_status ls_sgd_options_check(const ls_sgd_options *options);

/* β1^t and β2^t by repeated multiplication. All zeros: not at any update, to be moved to one. */
typedef struct ls_adamw_powers {
    int64_t updates; /* t */
    double beta1, beta2;
} ls_adamw_powers;

/* Moves to `updates` ≥ 0: one multiplication for each update forward, from the start for a move backward. */
void ls_adamw_powers_move(ls_adamw_powers *powers, const ls_adamw_options *options, int64_t updates);

typedef struct ls_optimizer {
    ls_optimizer_kind kind;
    ls_adamw_options adamw;
    ls_sgd_options sgd;
    double weight_decay;
} ls_optimizer;

int ls_optimizer_moments(const ls_optimizer *optimizer);

/* Compute the scalars of update powers->updates: 1 is the first; skipped steps do not count. `weight_decay` is that of
 * the group of parameters, `factor` that of ls_clip_factor(). */
ls_update_step ls_adamw_scalars(const ls_adamw_powers *powers, const ls_adamw_options *options, double lr,
                                double weight_decay, float factor);
ls_update_step ls_sgd_scalars(const ls_sgd_options *options, double lr, double weight_decay, float factor);

/* State sums of a parameter: LS_STATE_TENSORS of the elements that this worker reports, then those of its other ones.
 */
enum { LS_PARAM_SUMS = 2 * LS_STATE_TENSORS };

/* Sums of the copies that matmuls read: of the fp32 one, and of the 16-bit one. */
enum { LS_COPY_SUMS = 2 };

/* Returns whether an update writes all of this worker's 16-bit copy, so that it can sum the copy two elements at a
 * time. */
static inline bool ls_optimizer_sums_copy(const ls_param *param) {
    size_t elems = ls_param_local_elems(param);
    return param->w16 && param->own_w16 == param->w16 && !param->running && elems % 2 == 0 &&
           ls_param_range_elems(param->own) == elems && (uintptr_t)param->w16 % sizeof(float) == 0;
}

/* Returns the tensor number of a parameter's weights in a state sum; its moments have the next numbers. */
static inline uint64_t ls_param_state_tensor(const ls_param *param) { return (uint64_t)param->number * 4; }

/* The scalars of an update, and the sums that it computes on the way; equal for all parameters. */
typedef struct ls_optimizer_update {
    ls_update_step step[2]; /* without decay and with it */
    double ghosts;          /* number of ghost groups of the step, for running statistics */
    ls_hash128 *sums;       /* device memory, LS_PARAM_SUMS for each parameter: state sums are added to; NULL: none */
    bool sums_rest;         /* also sum elements that other workers report */
    ls_hash128 *copy_sums;  /* LS_COPY_SUMS for each parameter: those of 16-bit copies are added to if
                               ls_optimizer_sums_copy(); NULL: none */
    bool keeps_blocks;      /* parameters have block_sums, which are written again */
    uint64_t *damage;       /* device memory: receives a block that differs from what was written; NULL: no check */
} ls_optimizer_update;

/* Returns update number powers->updates, without sums. `factor` multiplies every gradient once (rule 11). */
ls_optimizer_update ls_optimizer_update_at(const ls_optimizer *optimizer, const ls_adamw_powers *powers, double lr,
                                           float factor);
/* Running statistics r follow the mean s of the step's ghost groups: r = r + LS_RUNNING_RATE·(s − r). This is SGD's
 * rule with this rate as lr, wd 1 and f = −follow/ghosts (docs/reference/arithmetic.md). */
#define LS_RUNNING_RATE 0.1

/* Updates own elements first … first + count − 1 of a parameter, and the copies of them that matmuls read. */
ls_status ls_optimizer_run(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                           const ls_param *param, size_t first, size_t count);
/* Compares all own elements with the sums of their blocks, and writes to `damage`. */
ls_status ls_optimizer_check(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                             const ls_model *model);
/* Computes the sums of all own elements without an update. */
ls_status ls_optimizer_sum(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                           const ls_model *model);
/* Updates all own elements of a model. */
ls_status ls_optimizer_step(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                            const ls_model *model);

#endif
