/* optimizer.h: one step of an optimizer over the parameters of a model: AdamW, or SGD with or without momentum.
 *
 * Weight decay applies to parameters that ask for it (matrices and tables, not norms and biases). Two moments of AdamW,
 * one of SGD with momentum, none without. */
#ifndef LS_OPTIM_OPTIMIZER_H
#define LS_OPTIM_OPTIMIZER_H

#include "nn/blocks.h"
#include "optim/schedule.h"

typedef struct ls_optimizer {
    ls_optimizer_kind kind;
    ls_adamw_options adamw;
    ls_sgd_options sgd;
    double weight_decay;
} ls_optimizer;

int ls_optimizer_moments(const ls_optimizer *optimizer);

/* The scalars of an update, without decay and with it. */
typedef struct ls_optimizer_update {
    ls_optimizer_kind kind;
    double ghosts; /* ghost groups of the step, where running statistics follow their mean */
    ls_adamw_step adamw[2];
    ls_sgd_step sgd[2];
} ls_optimizer_update;

/* Update number powers->updates. `factor` multiplies every gradient once (rule 11). */
ls_optimizer_update ls_optimizer_update_at(const ls_optimizer *optimizer, const ls_adamw_powers *powers, double lr,
                                           float factor);
/* Running statistics r follow the mean s of those of the step's ghost groups: r = r + LS_RUNNING_RATE·(s − r), as SGD
 * has it with the rate for lr, 1 for wd and −follow/ghosts for f (docs/arithmetic.md). */
#define LS_RUNNING_RATE 0.1

/* Own elements first … first + count − 1 of a parameter, and the copies of them that matmuls read. */
ls_status ls_optimizer_run(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                           const ls_param *param, size_t first, size_t count);
/* All own elements of a model. */
ls_status ls_optimizer_step(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                            const ls_model *model);

#endif
