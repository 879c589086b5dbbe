/* schedule.h: the learning rate of a step, which depends on its number alone. The formulas are in
 * docs/reference/arithmetic.md, "Step". All in double, with the project's own functions.
 *
 * Steps count from 0. With W warm-up steps and N in all, the rate as a share of the peak:
 *
 *     1        ____________________  constant
 *            /|\ \ .                 linear, cosine: from 1 at step W to `min_fraction` at step N
 *           / |  \   . .        \    wsd: 1, then 1 − √x over the last `decay_fraction`·N steps
 *     1/W  /  |    \      .  .   |   step: 1, γ from the first of its steps on, γ·γ from the second on …
 *          0  W                  N */
#ifndef LS_OPTIM_SCHEDULE_H
#define LS_OPTIM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "config/choices.h"

/* ---- learning rate ----------------------------------------------------------------------------------------------- */

enum { LS_LR_STEPS_MAX = 16, LS_LR_STEPS_TEXT_MAX = LS_LR_STEPS_MAX * 20 };

/* When a rate falls: not before step 0, in order, two of them at the same step where a run is short. */
typedef struct ls_lr_steps {
    int count;
    int64_t at[LS_LR_STEPS_MAX];
} ls_lr_steps;

typedef struct ls_lr_schedule {
    ls_lr_kind kind;
    double peak;           /* the rate once the warm-up is over; ≥ 0 */
    double min_fraction;   /* of the peak, where the decay ends; 0 … 1 */
    double decay_fraction; /* wsd only: share of the total that decays; 0 … 1 */
    double gamma;          /* step only: what each of its steps multiplies the rate by; above 0, at most 1 */
    ls_lr_steps steps;     /* step only; at least one */
    int64_t warmup_steps;  /* 0: none. May exceed the total: then the warm-up is all there is. */
    int64_t total_steps;
} ls_lr_schedule;

/* LS_ERR_INPUT, naming the member that is out of its range. The functions below expect what passes this. */
ls_status ls_lr_schedule_check(const ls_lr_schedule *schedule);

/* The rate of `step`; from the total on, that of the end of the decay. */
double ls_lr_at(const ls_lr_schedule *schedule, int64_t step);

/* From text: "3000,4500", numbers of steps, or "0.5,0.75", shares of the total, which become the nearest steps. */
ls_status ls_lr_steps_parse(const char *text, int64_t total_steps, ls_lr_steps *out);
/* "3000,4500" */
void ls_lr_steps_text(const ls_lr_steps *steps, char text[LS_LR_STEPS_TEXT_MAX]);

/* Whether the total number of steps has an influence on the rate: then another total is another experiment. What
 * shares of it have become is fixed, so the total has none on a schedule of steps. */
bool ls_lr_depends_on_total(ls_lr_kind kind);
/* Whether both schedules give the same rates for the steps before `step`, so that a run of the one may go on from there
 * as a run of the other. A wsd that has not begun to decay may be made longer. */
bool ls_lr_same_until(const ls_lr_schedule *a, const ls_lr_schedule *b, int64_t step);

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

/* What a rate that was found at a batch of `base` is multiplied by for one of `batch`; both are whole numbers, at least
 * 1. With k = batch / base it is k or √k, in double and rounded once. Linear is for SGD: one step with the mean of a
 * batch k times as large stands for k small ones. The square root is for optimizers that divide by the gradient's own
 * size, such as Adam: there a step is set by the noise, whose spread falls with √k. Either ends where the batch comes
 * near the noise scale (docs/explain/numerics.md). */
double ls_lr_scaling_factor(ls_lr_scaling scaling, double batch, double base);

#endif
