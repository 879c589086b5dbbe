/* schedule.c: learning rates by docs/reference/arithmetic.md, "Step", and their scaling with the batch. */
#include "optim/schedule.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/value.h"
#include "numerics/elementary.h"

/* Integers up to here are exact in double. */
static const int64_t steps_max = INT64_C(1) << 53;

/* ---- learning rate ----------------------------------------------------------------------------------------------- */

/* Fails with LS_ERR_INPUT, naming `what`, unless 0 ≤ share ≤ 1. */
static ls_status check_share(const char *what, double share) {
    if (share >= 0 && share <= 1) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s is %g; it must be between 0 and 1", what, share);
}

/* Fails with LS_ERR_INPUT, naming `what`, unless 0 ≤ steps ≤ 2^53. */
static ls_status check_steps(const char *what, int64_t steps) {
    if (steps >= 0 && steps <= steps_max) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s is %" PRId64 "; it must be between 0 and %" PRId64, what, steps, steps_max);
}

/* Checks a step schedule: gamma above 0 and at most 1, and 1 to LS_LR_STEPS_MAX steps that do not descend. */
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

/* Returns the step at which the decay begins: the end of the warm-up, or with wsd the last decay_fraction of the steps
 * if that begins later. */
static int64_t decay_start(const ls_lr_schedule *s) {
    if (s->kind != LS_LR_WSD) return s->warmup_steps;
    int64_t start = s->total_steps - (int64_t)(s->decay_fraction * (double)s->total_steps);
    return start > s->warmup_steps ? start : s->warmup_steps;
}

/* Returns how far the rate has decayed, from 0 at the peak to 1 at the end, after fraction x of the decay. */
static double decayed_part(ls_lr_kind kind, double x) {
    static const double pi = 0x1.921fb54442d18p+1;
    switch (kind) {
    case LS_LR_LINEAR: return x;
    case LS_LR_COSINE: return 0.5 * (1.0 - ls_cos_f64(pi * x));
    case LS_LR_WSD: return sqrt(x);
    default: return 0.0;
    }
}

/* Returns the peak times gamma for each fall before or at `step`. */
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
    return s->peak - (s->peak - low) * decayed_part(s->kind, x);
}

bool ls_lr_depends_on_total(ls_lr_kind kind) { return kind != LS_LR_CONSTANT && kind != LS_LR_STEP; }

/* ---- the steps at which a rate falls, as a user writes them ------------------------------------------------------ */

enum { ENTRY_MAX = 32 };

/* A parsed entry: a number of steps (`step`), or if is_share a fraction of the total (`share`). */
typedef struct entry {
    bool is_share;
    int64_t step;
    double share;
} entry;

/* Parses one entry of `length` bytes, such as "3000" (an integer above 0) or "0.5" (above 0, below 1). */
static ls_status parse_entry(const char *text, size_t length, entry *out) {
    char word[ENTRY_MAX];
    *out = (entry){0};
    if (length < sizeof word) {
        memcpy(word, text, length);
        word[length] = '\0';
        if (ls_value_parse_int(word, &out->step) == LS_OK && out->step > 0) return LS_OK;
        out->is_share = true;
        if (ls_value_parse_float(word, &out->share) == LS_OK && out->share > 0 && out->share < 1) return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "'%.*s' is neither a step number, e.g. 3000, nor a fraction of all steps, e.g. 0.5",
                   (int)(length < ENTRY_MAX ? length : ENTRY_MAX), text);
}

/* Checks that two neighbouring entries are of the same kind and ascend. The caller names the option in the message. */
static ls_status check_order(const entry *before, const entry *now) {
    if (before->is_share != now->is_share)
        return ls_fail(LS_ERR_INPUT, "mixes step numbers and fractions; use one or the other");
    if (now->is_share ? now->share > before->share : now->step > before->step) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "must be in ascending order");
}

/* Returns the step of an entry; a fraction is rounded to nearest, so that 0.29 of 100 is 29 although 0.29·100 is
 * slightly less, and is at most the total. */
static int64_t step_of(const entry *e, int64_t total) {
    if (!e->is_share) return e->step;
    int64_t step = (int64_t)(e->share * (double)total + 0.5);
    return step < total ? step : total;
}

ls_status ls_lr_steps_parse(const char *text, int64_t total_steps, ls_lr_steps *out) {
    ls_lr_steps steps = {0};
    entry before = {0}, now;
    for (const char *at = text;; before = now) {
        size_t length = strcspn(at, ",");
        LS_TRY(parse_entry(at, length, &now));
        if (steps.count > 0) LS_TRY(check_order(&before, &now));
        if (steps.count == LS_LR_STEPS_MAX) return ls_fail(LS_ERR_INPUT, "has more than %d entries", LS_LR_STEPS_MAX);
        steps.at[steps.count++] = step_of(&now, total_steps);
        if (at[length] == '\0') break;
        at += length + 1;
    }
    *out = steps;
    return LS_OK;
}

void ls_lr_steps_text(const ls_lr_steps *steps, char text[LS_LR_STEPS_TEXT_MAX]) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < steps->count && used < LS_LR_STEPS_TEXT_MAX; i++)
        used +=
            (size_t)snprintf(text + used, LS_LR_STEPS_TEXT_MAX - used, "%s%" PRId64, i > 0 ? "," : "", steps->at[i]);
}

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

double ls_lr_scaling_factor(ls_lr_scaling scaling, double batch, double base) {
    assert(batch >= 1 && base >= 1);
    double k = batch / base;
    return scaling == LS_LR_SCALING_LINEAR ? k : scaling == LS_LR_SCALING_SQRT ? sqrt(k) : 1.0;
}
