/* optimizer.h: one step of an optimizer over the parameters of a model: AdamW, or SGD with or without momentum. The
 * training step (run/step, and parallel/partition for its checks and measurements) calls it on every worker once the
 * gradient is reduced; run/recover finishes with it the update of a worker that was lost. A worker updates only its own
 * elements (ls_param.own): all of its slices, or its shard with ZeRO. The arithmetic is an operation of the device
 * (ops->update); this module computes its scalars and lists the tensors. Functions that take a device return errors of
 * its operations.
 *
 * While an update writes, it may compute checksums, which the guards compare later (numerics/state_sum.h): state sums
 * of weights and optimizer state, and sums of blocks, which detect memory that changed between two updates.
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

/* Checks that the options are in the ranges above; LS_ERR_INPUT names the option and its value. */
ls_status ls_adamw_options_check(const ls_adamw_options *options);
/* Checks the momentum, and that Nesterov has a momentum above 0; else LS_ERR_INPUT. */
ls_status ls_sgd_options_check(const ls_sgd_options *options);

/* β1^t and β2^t for AdamW's bias correction, by repeated multiplication. All zeros: before the first move. */
typedef struct ls_adamw_powers {
    int64_t updates;     /* t */
    double beta1, beta2; /* β1^t and β2^t, not β itself */
} ls_adamw_powers;

/* Moves the powers to t = `updates` ≥ 0, by one multiplication for each update; from t = 0 again if that lies behind
 * (after a rollback). */
void ls_adamw_powers_move(ls_adamw_powers *powers, const ls_adamw_options *options, int64_t updates);

/* The optimizer of a run; of `adamw` and `sgd` only the one of its kind is used. */
typedef struct ls_optimizer {
    ls_optimizer_kind kind;
    ls_adamw_options adamw;
    ls_sgd_options sgd;
    double weight_decay; /* for parameters that decay; 0: none */
} ls_optimizer;

/* Returns how many moments each weight has: 2 with AdamW, 1 with SGD with momentum, otherwise 0. */
int ls_optimizer_moments(const ls_optimizer *optimizer);

/* Returns the scalars of AdamW for update powers->updates: 1 is the first; skipped steps do not count. `weight_decay`
 * is that of the parameters to be updated, 0 for those without; `factor` that of ls_clip_factor(). */
ls_update_step ls_adamw_scalars(const ls_adamw_powers *powers, const ls_adamw_options *options, double lr,
                                double weight_decay, float factor);
/* Returns the scalars of SGD, which do not depend on the number of the update. */
ls_update_step ls_sgd_scalars(const ls_sgd_options *options, double lr, double weight_decay, float factor);

/* State sums of a parameter: LS_STATE_TENSORS sums of the elements that this worker reports (ls_param.once), then as
 * many of those that another replica reports. */
enum { LS_PARAM_SUMS = 2 * LS_STATE_TENSORS };

/* State sums of the weights that matmuls read: of the fp32 ones, and of their 16-bit copy. */
enum { LS_COPY_SUMS = 2 };

/* Returns whether an update of this parameter writes all of this worker's 16-bit copy and can sum it on the way, two
 * elements as one 32-bit word. If not, the copy is summed in a pass of its own (parallel/partition/check.c). */
static inline bool ls_optimizer_sums_copy(const ls_param *param) {
    size_t elems = ls_param_local_elems(param);
    return param->w16 && param->own_w16 == param->w16 && !param->running && elems % 2 == 0 &&
           ls_param_range_elems(param->own) == elems && (uintptr_t)param->w16 % sizeof(float) == 0;
}

/* Returns the number of a parameter's weights as a tensor of a state sum; its moments have the next numbers. */
static inline uint64_t ls_param_state_tensor(const ls_param *param) { return (uint64_t)param->number * 4; }

/* The scalars of an update, and the checksums that it computes on the way; one for all parameters. All memory is the
 * caller's. */
typedef struct ls_optimizer_update {
    ls_update_step step[2]; /* without decay and with it */
    double ghosts;          /* number of ghost groups of the step, for running statistics */
    ls_hash128 *sums;       /* device memory, LS_PARAM_SUMS for each parameter by its number: state sums are added to;
                               NULL: none */
    bool sums_rest;         /* also sum elements that other workers report */
    ls_hash128 *copy_sums;  /* LS_COPY_SUMS for each parameter by its number, of which an update adds to the second, of
                               the 16-bit copy, if ls_optimizer_sums_copy(); NULL: none */
    bool keeps_blocks;      /* parameters have block_sums: compare them before, and write them again after the update */
    uint64_t *damage;       /* device memory: becomes the largest ls_damage_word() of blocks that differ from what was
                               written; NULL: blocks are not compared */
} ls_optimizer_update;

/* Returns the scalars of update number powers->updates, with no checksums and ghosts 0, which the caller then sets.
 * `factor` multiplies every gradient once (ls_clip_factor()); `powers` is not read with SGD. */
ls_optimizer_update ls_optimizer_update_at(const ls_optimizer *optimizer, const ls_adamw_powers *powers, double lr,
                                           float factor);
/* Running statistics r follow the mean s of the step's ghost groups: r = r + LS_RUNNING_RATE·(s − r). This is SGD's
 * rule with this rate as lr, wd 1 and f = −follow/ghosts (docs/reference/arithmetic.md). */
#define LS_RUNNING_RATE 0.1

/* Updates own elements first … first + count − 1 of a parameter (counted in param->own) with their moments and 16-bit
 * copy, and adds to the checksums; a block that update->damage reports stays as it was. Running statistics of batch
 * norm follow their mean instead, by update->ghosts. Without master weights (ls_policy.no_master) the new weights are
 * rounded to 16 bits. */
ls_status ls_optimizer_run(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                           const ls_param *param, size_t first, size_t count);
/* Compares all own elements with the checksums of their blocks, and reports blocks that differ in update->damage
 * (device memory). Does nothing if that is NULL. Changes no weights. */
ls_status ls_optimizer_check(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                             const ls_model *model);
/* Adds the state sums of all own elements, as they are in memory, to update->sums (not those of 16-bit copies), and
 * writes the block sums if update->keeps_blocks; changes no weights. For weights that no update with sums has written,
 * such as loaded ones, and to compare memory with the sums of the last update. */
ls_status ls_optimizer_sum(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                           const ls_model *model);
/* Updates all own elements of a model, as ls_optimizer_run() does, but up to 256 parameters in one call of the device
 * where a parameter needs only one operation. */
ls_status ls_optimizer_step(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                            const ls_model *model);

#endif
