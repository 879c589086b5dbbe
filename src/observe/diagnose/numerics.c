/* numerics.c: what the telemetry of a 16-bit run says: gradients that flush to zero, updates that change
 * nothing.
 *
 * Embedding and head are left out of the shares of flushed gradients where the model has other blocks: the gradient of
 * a logit that is nearly certain is nearly zero, and it may flush without harm. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "observe/diagnose/rules.h"

static const double FLUSHED = 0.10;  /* share of gradients from which on it is a cause, */
static const double RISING = 0.05;   /* or from which on it is one if it has trebled */
static const double NEEDLESS = 0.04; /* or where a constant scale could be higher, which would cost nothing */
static const double LOST = 0.20;     /* share of updates */
static const double LOW_LR = 0.05;   /* of the peak: below it updates may vanish, they are to be small */

/* ---- points ------------------------------------------------------------------------------------------------------ */

/* Returns the larger of two shares; NaN (not recorded) counts as -1. */
static double larger_share(float a, float b) {
    double x = isnan(a) ? -1 : (double)a, y = isnan(b) ? -1 : (double)b;
    return x > y ? x : y;
}

/* Returns whether the block is neither the embedding nor the head. */
static bool is_inner(const ls_run_log *run, const ls_run_log_numerics *n) {
    return strcmp(run->blocks[n->block], "embedding") != 0 && strcmp(run->blocks[n->block], "head") != 0;
}

/* qsort() order: largest first. */
static int compare_down(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Returns whether the run computed in 16 bits; false if its precision was not recorded. */
static bool is_16_bit(const ls_run_log *run) {
    int precision;
    return ls_run_option_choice(run, LS_OPT_precision, &precision) && precision != LS_PLAN_FP32;
}

/* Computes the point's shares of values that flush to zero; `inner_only` leaves out embedding and head. `value`:
 * scratch memory for every line of the point. */
static void sum_flushed(const ls_run_log *run, ls_point *p, bool inner_only, double *value) {
    size_t n = 0;
    p->worst_flushed = LS_RUN_NONE;
    p->worst_flushed_share = -1;
    for (size_t i = p->first; i < p->first + p->count; i++) {
        const ls_run_log_numerics *line = &run->numerics[i];
        double share = larger_share(line->grad_flushed, line->act_flushed);
        /* The gradient was all zero already, so nothing is counted as flushed here. */
        if (is_16_bit(run) && (double)line->grad_norm == 0) share = 1;
        if (share < 0 || (inner_only && !is_inner(run, line))) continue;
        value[n++] = share;
        if (share <= p->worst_flushed_share) continue;
        p->worst_flushed = line->block;
        p->worst_flushed_share = share;
    }
    if (n > 0) qsort(value, n, sizeof *value, compare_down);
    p->flushed_third = n > 0 ? value[(n - 1) / 3] : (double)NAN;
    p->flushed = ls_median(value, n);
}

/* Computes the point's other figures: values near overflow, lost updates, update/weight ratio. `value`: scratch
 * memory for twice the lines of the point. */
static void sum_others(const ls_run_log *run, ls_point *p, bool inner_only, double *value) {
    size_t lost = 0, ratios = 0;
    double *ratio = value + p->count;
    p->worst_high = p->worst_lost = LS_RUN_NONE;
    p->high = p->worst_lost_share = -1;
    for (size_t i = p->first; i < p->first + p->count; i++) {
        const ls_run_log_numerics *line = &run->numerics[i];
        double high = larger_share(line->grad_high, line->act_high), share = (double)line->lost;
        if (high > p->high) {
            p->high = high;
            p->worst_high = line->block;
        }
        if (share >= 0) value[lost++] = share;
        if (share > p->worst_lost_share) {
            p->worst_lost_share = share;
            p->worst_lost = line->block;
        }
        double r = (double)line->update_norm / (double)line->weight_norm;
        if (isfinite(r) && r >= 0 && (!inner_only || is_inner(run, line))) ratio[ratios++] = r;
    }
    p->lost = ls_median(value, lost);
    p->ratio = ls_median(ratio, ratios);
}

/* Computes all figures of a point. `value`: scratch memory for twice the lines of the point. */
static void sum_up_point(const ls_run_log *run, const ls_series *series, ls_point *p, double *value) {
    bool inner = false;
    size_t at;
    for (size_t i = p->first; i < p->first + p->count; i++) inner = inner || is_inner(run, &run->numerics[i]);
    sum_flushed(run, p, inner, value);
    sum_others(run, p, inner, value);
    p->lr = ls_series_find(series, p->step, &at) ? series->at[at].lr : (double)NAN;
}

ls_status ls_points_make(const ls_run_log *run, const ls_series *series, ls_points *out) {
    size_t longest = 0;
    *out = (ls_points){0};
    if (run->numerics_count == 0) return LS_OK;
    out->point = calloc(run->numerics_count, sizeof *out->point);
    if (!out->point) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu numerics records", run->numerics_count);
    for (size_t i = 0; i < run->numerics_count; i++) {
        ls_point *p = out->count > 0 ? &out->point[out->count - 1] : NULL;
        if (!p || p->step != run->numerics[i].step) {
            p = &out->point[out->count++];
            *p = (ls_point){.step = run->numerics[i].step, .first = i};
        }
        if (++p->count > longest) longest = p->count;
    }
    double *value = calloc(2 * longest, sizeof *value);
    if (!value) {
        ls_points_free(out);
        return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu blocks", longest);
    }
    for (size_t i = 0; i < out->count; i++) sum_up_point(run, series, &out->point[i], value);
    free(value);
    return LS_OK;
}

void ls_points_free(ls_points *points) {
    free(points->point);
    *points = (ls_points){0};
}

/* ---- a state that lasts ------------------------------------------------------------------------------------------ */

/* Returns whether the state that a rule looks for holds at this point. */
typedef bool point_test(const ls_case *c, const ls_point *p);

/* Points from the first to the last at which a state held. */
typedef struct stretch {
    const ls_point *first, *last, *worst;
    size_t count; /* points in which it held */
} stretch;

/* Finds the stretch that begins with the first of two points in a row that pass the test (or with the only points).
 * Returns whether most points from there on pass. `size` ranks points for out->worst. */
static bool find_stretch(const ls_case *c, point_test *test, double (*size)(const ls_point *), stretch *out) {
    const ls_points *points = &c->points;
    size_t after = 0;
    *out = (stretch){0};
    for (size_t i = 0; i < points->count; i++) {
        const ls_point *p = &points->point[i];
        bool holds = test(c, p);
        if (!out->first) {
            bool next = i + 1 < points->count ? test(c, p + 1) : points->count < 3;
            if (!holds || !next) continue;
            out->first = p;
        }
        after++;
        if (!holds) continue;
        out->count++;
        out->last = p;
        if (!out->worst || size(p) > size(out->worst)) out->worst = p;
    }
    return out->first && 2 * out->count > after;
}

/* Returns the name of the block; "" for LS_RUN_NONE. */
static const char *block_name(const ls_case *c, int block) { return block < 0 ? "" : c->run->blocks[block]; }

/* Sets the finding's block to this one's name. */
static void set_block(const ls_case *c, ls_finding *f, int block) {
    memcpy(f->block, block_name(c, block), strlen(block_name(c, block)) + 1);
}

/* ---- underflow --------------------------------------------------------------------------------------------------- */

static double flushed_size(const ls_point *p) { return p->flushed; }

/* Returns whether the run used a constant loss scale with which no value came near the largest fp16 number. */
static bool has_low_scale(const ls_case *c, const ls_point *p) {
    const char *scale = ls_run_log_option_get(c->run, "loss-scale");
    bool is_constant = scale && *scale && strcmp(scale, "dynamic") != 0;
    return is_constant && ls_case_is_fp16(c) && c->run->of_kind[LS_EVENT_OVERFLOW] == 0 && p->high < 1e-4;
}

/* Returns whether too many gradients become zero. Blocks differ: a third of them is enough, or one block that flushes
 * half of its gradients. */
static bool is_flushed(const ls_case *c, const ls_point *p) {
    const ls_point *first = &c->points.point[0];
    if (p->flushed_third >= FLUSHED || p->worst_flushed_share >= 0.5) return true;
    if (p->flushed >= NEEDLESS && has_low_scale(c, p)) return true;
    return p->flushed >= RISING && first->flushed >= 0 && p->flushed >= 3 * first->flushed;
}

/* Sets the advice by how the loss scale moved in the steps, because it depends on what keeps the scale from growing. */
static void advise_underflow(const ls_case *c, ls_finding *f) {
    const ls_run_log *run = c->run;
    int low = INT_MAX, high = INT_MIN;
    size_t skipped = 0;
    for (size_t i = 0; i < run->step_count; i++) {
        skipped += run->steps[i].skipped;
        if (run->steps[i].scale == INT_MIN) continue;
        if (run->steps[i].scale < low) low = run->steps[i].scale;
        if (run->steps[i].scale > high) high = run->steps[i].scale;
    }
    if (!ls_case_is_fp16(c)) {
        LS_ACTION(f, "find out where the gradients become so small; --precision fp32 shows whether it matters");
        return;
    }
    if (high != INT_MIN)
        LS_EVIDENCE(f, "the loss scale was between 2^%d and 2^%d; %zu step%s skipped", low, high, skipped,
                    skipped == 1 ? " was" : "s were");
    if (skipped > 0)
        LS_ACTION(f, "use --precision bf16, which has the range of fp32 and needs no loss scale; overflow keeps the "
                     "scale from growing here");
    else
        LS_ACTION(f, "use --loss-scale dynamic: nothing overflowed, so the scale can grow until gradients use the "
                     "range of fp16; or --precision bf16, which needs no loss scale");
}

void ls_diagnose_underflow(ls_case *c) {
    stretch s;
    if (!find_stretch(c, is_flushed, flushed_size, &s)) return;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_UNDERFLOW, s.first->step, s.last->step, s.worst->flushed);
    set_block(c, f, s.worst->worst_flushed);
    LS_TITLE(f, "gradients underflow: %.0f %% of them become zero in 16 bits, most in %s", 100 * s.worst->flushed,
             f->block);
    LS_EVIDENCE(f,
                "non-zero gradients that become zero in 16 bits: %.1f %% at step %lld, %.1f %% at step %lld (median of "
                "the inner blocks)",
                100 * s.first->flushed, s.first->step, 100 * s.last->flushed, s.last->step);
    LS_EVIDENCE(f, "worst at step %lld: %.1f %% in %s; seen in %zu of %zu measurements", s.worst->step,
                100 * s.worst->worst_flushed_share, f->block, s.count, c->points.count);
    advise_underflow(c, f);
}

/* ---- lost updates ------------------------------------------------------------------------------------------------ */

static double lost_size(const ls_point *p) { return p->lost; }

/* Returns whether too many updates are lost to rounding; below LOW_LR of the peak rate that is expected. */
static bool is_lost(const ls_case *c, const ls_point *p) {
    if (p->lr < LOW_LR * c->series.peak_lr) return false;
    return p->lost >= LOST;
}

void ls_diagnose_lost(ls_case *c) {
    stretch s;
    if (!find_stretch(c, is_lost, lost_size, &s)) return;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_LOST_UPDATES, s.first->step, s.last->step, s.worst->lost);
    set_block(c, f, s.worst->worst_lost);
    LS_TITLE(f, "updates are lost to rounding: up to %.0f %% of the weights do not change when they should",
             100 * s.worst->lost);
    LS_EVIDENCE(f, "updates without effect: %.1f %% at step %lld, %.1f %% at step %lld (median of the blocks)",
                100 * s.first->lost, s.first->step, 100 * s.last->lost, s.last->step);
    LS_EVIDENCE(f, "worst in %s: %.1f %% at step %lld; seen in %zu of %zu measurements", f->block,
                100 * s.worst->worst_lost_share, s.worst->step, s.count, c->points.count);
    if (isfinite(s.worst->ratio))
        LS_EVIDENCE(f,
                    "update-to-weight ratio is %.2g (norms, median of the blocks); a bf16 weight cannot change by less "
                    "than 0.2 %% of its value",
                    s.worst->ratio);
    LS_ACTION(f, "keep fp32 master weights, as --precision bf16 and fp16 do by default: small updates then accumulate");
}
