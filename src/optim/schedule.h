/* schedule.h: the learning rate of a step, a function of its number, and its scaling with the batch size. The formulas
 * are in docs/reference/arithmetic.md, "Step". All is computed in double, with the functions of numerics/elementary.h,
 * so that every machine gets the same rate. Nothing has state; any thread may call.
 *
 * Steps count from 0. With W warm-up steps of N steps, the rate as a fraction of the peak:
 *
 *     1        ____________________  constant
 *            /|\ \ .                 linear, cosine: from 1 at step W to `min_fraction` at step N
 *           / |  \   . .        \    wsd: 1, then falls with √x over the last `decay_fraction`·N
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

/* The steps at which a rate falls, ascending from 0; two of them may be equal in a short run. */
typedef struct ls_lr_steps {
    int count;
    int64_t at[LS_LR_STEPS_MAX];
} ls_lr_steps;

typedef struct ls_lr_schedule {
    ls_lr_kind kind;
    double peak;         /* the rate after the warm-up; ≥ 0 */
    double min_fraction; /* rate at the end of the decay, as a fraction of the peak; 0 … 1; constant, step ignore it */
    double decay_fraction; /* wsd only: fraction of the steps that decays; 0 … 1 */
    double gamma;          /* step only: factor of each fall; above 0, at most 1 */
    ls_lr_steps steps;     /* step only; at least one */
    int64_t warmup_steps;  /* 0: none. May exceed the total: then the whole run is warm-up. */
    int64_t total_steps;   /* N; constant and step ignore it */
} ls_lr_schedule;

/* Checks a schedule; the functions below require one that passes. LS_ERR_INPUT names the member that is out of range.
 */
ls_status ls_lr_schedule_check(const ls_lr_schedule *schedule);

/* Returns the rate of `step` ≥ 0: in the warm-up (step + 1) / warmup_steps of the peak; from total_steps on the end of
 * the decay, min_fraction of the peak (constant and step schedules just go on). */
double ls_lr_at(const ls_lr_schedule *schedule, int64_t step);

/* Parses "3000,4500", numbers of steps above 0, or "0.5,0.75", fractions of total_steps above 0 and below 1, which are
 * rounded to the nearest steps. LS_ERR_INPUT unless they ascend, all of one kind, at most LS_LR_STEPS_MAX: then *out is
 * unchanged, and the message has no subject: the caller puts the name of the option in front. */
ls_status ls_lr_steps_parse(const char *text, int64_t total_steps, ls_lr_steps *out);
/* Writes the steps as text, such as "3000,4500"; an empty string if there are none. */
void ls_lr_steps_text(const ls_lr_steps *steps, char text[LS_LR_STEPS_TEXT_MAX]);

/* Returns whether the rate depends on the total number of steps, so that another total is another experiment. A
 * schedule of steps does not: fractions were rounded to steps when they were parsed. */
bool ls_lr_depends_on_total(ls_lr_kind kind);

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

/* Returns by what to multiply a rate that was tuned at batch size `base` for batch size `batch`; both are integers ≥ 1.
 * With k = batch / base it is k (linear), √k (square root), or 1 without scaling. Linear scaling is for SGD: one step
 * with a batch k times as large replaces k small steps. The square root is for optimizers that divide by the gradient's
 * magnitude, such as Adam: the size of their steps is set by the noise, whose spread falls with √k. Neither holds once
 * the batch reaches the noise scale (docs/explain/numerics.md). */
double ls_lr_scaling_factor(ls_lr_scaling scaling, double batch, double base);

#endif
