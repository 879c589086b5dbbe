/* schedule.c: learning rates and the scalars of optimizer steps, from docs/arithmetic.md, "Step". */
#include "optim/schedule.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "numerics/elementary.h"

/* Whole numbers up to here are doubles. */
static const int64_t steps_max = INT64_C(1) << 53;

/* ---- learning rate ----------------------------------------------------------------------------------------------- */

static ls_status check_share(const char *what, double share) {
    if (share >= 0 && share <= 1) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s is %g; it must be between 0 and 1", what, share);
}

static ls_status check_steps(const char *what, int64_t steps) {
    if (steps >= 0 && steps <= steps_max) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s is %" PRId64 "; it must be between 0 and %" PRId64, what, steps, steps_max);
}

static ls_status check_falls(const ls_lr_schedule *s) {
    if (!(s->gamma > 0 && s->gamma <= 1))
        return ls_fail(LS_ERR_INPUT, "the decay factor of the learning rate is %g; it must be above 0 and at most 1",
                       s->gamma);
    if (s->steps.count < 1 || s->steps.count > LS_LR_STEPS_MAX)
        return ls_fail(LS_ERR_INPUT, "the learning rate decays %d times; it must be 1 to %d times", s->steps.count,
                       LS_LR_STEPS_MAX);
    for (int i = 0; i < s->steps.count; i++) {
        LS_TRY(check_steps("a step at which the learning rate decays", s->steps.at[i]));
        if (i > 0 && s->steps.at[i] < s->steps.at[i - 1])
            return ls_fail(LS_ERR_INPUT,
                           "the learning rate decays at step %" PRId64 " after step %" PRId64 "; steps must ascend",
                           s->steps.at[i], s->steps.at[i - 1]);
    }
    return LS_OK;
}

ls_status ls_lr_schedule_check(const ls_lr_schedule *s) {
    if ((int)s->kind < 0 || s->kind >= LS_LR_KIND_COUNT)
        return ls_fail(LS_ERR_INPUT, "unknown learning-rate schedule number %d", (int)s->kind);
    if (!(s->peak >= 0 && isfinite(s->peak)))
        return ls_fail(LS_ERR_INPUT, "the learning rate is %g; it must not be negative", s->peak);
    LS_TRY(check_share("the minimum learning rate, as a fraction of the peak,", s->min_fraction));
    if (s->kind == LS_LR_WSD) LS_TRY(check_share("the fraction of steps that decay", s->decay_fraction));
    if (s->kind == LS_LR_STEP) LS_TRY(check_falls(s));
    LS_TRY(check_steps("the number of warm-up steps", s->warmup_steps));
    return check_steps("steps", s->total_steps);
}

/* The step with which the decay begins. */
static int64_t decay_start(const ls_lr_schedule *s) {
    if (s->kind != LS_LR_WSD) return s->warmup_steps;
    int64_t start = s->total_steps - (int64_t)(s->decay_fraction * (double)s->total_steps);
    return start > s->warmup_steps ? start : s->warmup_steps;
}

/* How far down the rate is, from 0 at the peak to 1 at the end, when the part x of the decay is over. */
static double fallen(ls_lr_kind kind, double x) {
    static const double pi = 0x1.921fb54442d18p+1;
    switch (kind) {
    case LS_LR_LINEAR: return x;
    case LS_LR_COSINE: return 0.5 * (1.0 - ls_cos_f64(pi * x));
    case LS_LR_WSD: return sqrt(x);
    default: return 0.0;
    }
}

/* One multiplication for each fall, from the peak down. */
static double rate_in_steps(const ls_lr_schedule *s, int64_t step) {
    double rate = s->peak;
    for (int i = 0; i < s->steps.count && s->steps.at[i] <= step; i++) rate *= s->gamma;
    return rate;
}

double ls_lr_at(const ls_lr_schedule *s, int64_t step) {
    assert(step >= 0);
    if (step < s->warmup_steps) return s->peak * ((double)(step + 1) / (double)s->warmup_steps);
    if (s->kind == LS_LR_CONSTANT) return s->peak;
    if (s->kind == LS_LR_STEP) return rate_in_steps(s, step);
    double low = s->peak * s->min_fraction;
    if (step >= s->total_steps) return low;
    int64_t start = decay_start(s);
    if (step <= start) return s->peak;
    double x = (double)(step - start) / (double)(s->total_steps - start);
    /* From the peak down, so that the peak itself is exact. */
    return s->peak - (s->peak - low) * fallen(s->kind, x);
}

bool ls_lr_depends_on_total(ls_lr_kind kind) { return kind != LS_LR_CONSTANT && kind != LS_LR_STEP; }

/* Looks at every step: it takes a moment, once in a run, and cannot be wrong about a corner of a formula. */
bool ls_lr_same_until(const ls_lr_schedule *a, const ls_lr_schedule *b, int64_t step) {
    for (int64_t i = 0; i < step; i++)
        if (ls_lr_at(a, i) != ls_lr_at(b, i)) return false;
    return true;
}

/* ---- optimizer steps --------------------------------------------------------------------------------------------- */

static ls_status check_below_one(const char *what, double value) {
    if (value >= 0 && value < 1) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s is %g; it must be at least 0 and below 1", what, value);
}

ls_status ls_adamw_options_check(const ls_adamw_options *o) {
    LS_TRY(check_below_one("beta1 of AdamW", o->beta1));
    LS_TRY(check_below_one("beta2 of AdamW", o->beta2));
    if (o->epsilon >= 0 && isfinite(o->epsilon)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "epsilon of AdamW is %g; it must not be negative", o->epsilon);
}

ls_status ls_sgd_options_check(const ls_sgd_options *o) {
    LS_TRY(check_below_one("the momentum of SGD", o->momentum));
    if (o->nesterov && o->momentum == 0)
        return ls_fail(LS_ERR_INPUT, "Nesterov momentum needs a momentum above 0; it is 0");
    return LS_OK;
}

void ls_adamw_powers_move(ls_adamw_powers *p, const ls_adamw_options *o, int64_t updates) {
    assert(updates >= 0);
    if (p->updates == 0 || updates < p->updates) *p = (ls_adamw_powers){.beta1 = 1, .beta2 = 1};
    for (; p->updates < updates; p->updates++) {
        p->beta1 *= o->beta1;
        p->beta2 *= o->beta2;
    }
}

ls_adamw_step ls_adamw_scalars(const ls_adamw_powers *p, const ls_adamw_options *o, double lr, double weight_decay,
                               float factor) {
    assert(p->updates >= 1);
    return (ls_adamw_step){
        .factor = factor,
        .beta1 = (float)o->beta1,
        .beta1_rest = (float)(1.0 - o->beta1),
        .beta2 = (float)o->beta2,
        .beta2_rest = (float)(1.0 - o->beta2),
        .rate = (float)(lr / (1.0 - p->beta1)),
        .root = (float)(1.0 / sqrt(1.0 - p->beta2)),
        .epsilon = (float)o->epsilon,
        .decay = (float)(1.0 - lr * weight_decay),
    };
}

ls_sgd_step ls_sgd_scalars(const ls_sgd_options *o, double lr, double weight_decay, float factor) {
    return (ls_sgd_step){
        .factor = factor,
        .rate = (float)lr,
        .momentum = (float)o->momentum,
        .weight_decay = (float)weight_decay,
        .nesterov = o->nesterov,
    };
}
