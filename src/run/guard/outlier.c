/* outlier.c: gradient groups that stand out, by norm, or by norm and loss together. */
#include "run/guard/outlier.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/elementary.h"

/* Natural logarithm of 2: a gradient that goes with a loss that stands out is at least twice as long as its peers'. */
static const double long_enough = 0.69314718055994531;
/* No logarithm of a ratio of doubles is as large; and no loss that is counted. */
static const double log_max = 3000, loss_max = 0x1p31;

struct ls_outlier {
    double threshold;
    ls_track norms, losses;
    bool *left_out; /* by group: not remembered */
};

static bool is_present(const ls_outlier_step *step, size_t g) { return step->tokens[g] > 0; }

static void look(ls_outlier *o, const ls_outlier_step *step) {
    assert(step->scale > 0);
    double scale = ls_log_f64(step->scale);
    for (size_t g = 0; g < o->norms.groups; g++) {
        /* A norm of 0 (nothing to learn in the group) stands out from nothing, and is no peer. */
        bool usable = is_present(step, g) && isfinite(step->squares[g]) && step->squares[g] > 0;
        bool has_loss = is_present(step, g) && step->losses && fabs(step->losses[g]) <= loss_max;
        o->norms.values[g] = (double)NAN;
        if (usable)
            o->norms.values[g] = 0.5 * (ls_log_f64(step->squares[g]) - ls_log_f64((double)step->tokens[g])) + scale;
        o->losses.values[g] = has_loss ? step->losses[g] : (double)NAN;
    }
    ls_track_look(&o->norms);
    ls_track_look(&o->losses);
}

/* What the loss alone cannot say: that the group moves more than others do. */
static bool is_long(const ls_track *norms, size_t g) {
    if (!norms->is_warm || norms->usable < 2 || isnan(norms->values[g])) return false;
    double d = ls_track_deviation(norms, g);
    return d >= long_enough && d >= norms->wide;
}

static ls_outlier_finding describe(const ls_outlier *o, const ls_outlier_step *step, size_t g) {
    bool finite = isfinite(step->squares[g]);
    ls_outlier_finding f = {.group = g,
                            .finite = finite,
                            .norm = finite ? sqrt(step->squares[g]) * step->scale : (double)NAN,
                            .median = (double)NAN,
                            .spread = o->norms.spread,
                            .score = finite ? ls_track_score(&o->norms, g) : (double)INFINITY,
                            .loss = o->losses.values[g],
                            .loss_median = ls_track_peers(&o->losses, g),
                            .loss_score = ls_track_score(&o->losses, g)};
    double peers = ls_track_peers(&o->norms, g);
    if (!isnan(peers)) f.median = ls_exp_f64(peers) * sqrt((double)step->tokens[g]);
    return f;
}

size_t ls_outlier_judge(ls_outlier *o, const ls_outlier_step *step, ls_outlier_finding *findings) {
    size_t found = 0;
    look(o, step);
    for (size_t g = 0; g < o->norms.groups; g++) {
        bool by_loss = ls_track_score(&o->losses, g) >= o->threshold;
        bool is_outlier = is_present(step, g) && !isfinite(step->squares[g]);
        is_outlier = is_outlier || ls_track_score(&o->norms, g) >= o->threshold || (by_loss && is_long(&o->norms, g));
        o->left_out[g] = is_outlier || by_loss;
        if (is_outlier) findings[found++] = describe(o, step, g);
    }
    ls_track_keep(&o->norms, o->left_out);
    ls_track_keep(&o->losses, o->left_out);
    return found;
}

void ls_outlier_remember(ls_outlier *o) {
    ls_track_remember(&o->norms);
    ls_track_remember(&o->losses);
}

/* ---- life and checkpoint ----------------------------------------------------------------------------------------- */

ls_status ls_outlier_create(size_t groups, double threshold, ls_outlier **out) {
    *out = NULL;
    if (groups < 1 || groups > LS_OUTLIER_GROUPS_MAX)
        return ls_fail(LS_ERR_INPUT, "%zu gradient groups; outliers are found among 1 to %d", groups,
                       LS_OUTLIER_GROUPS_MAX);
    if (!(threshold >= 1 && threshold <= 1000))
        return ls_fail(LS_ERR_INPUT, "the outlier threshold is %g; it must be between 1 and 1000", threshold);
    ls_outlier *o = calloc(1, sizeof *o);
    if (!o) return ls_fail(LS_ERR_RESOURCE, "out of memory for the norms of %zu gradient groups", groups);
    ls_status status = ls_track_open(&o->norms, groups, threshold, LS_OUTLIER_SPREAD_MIN, log_max);
    if (status == LS_OK) status = ls_track_open(&o->losses, groups, threshold, LS_OUTLIER_LOSS_SPREAD_MIN, loss_max);
    o->threshold = threshold;
    o->left_out = calloc(groups, sizeof *o->left_out);
    if (status == LS_OK && !o->left_out)
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for the norms of %zu gradient groups", groups);
    if (status == LS_OK)
        *out = o;
    else
        ls_outlier_destroy(o);
    return status;
}

void ls_outlier_destroy(ls_outlier *o) {
    if (!o) return;
    ls_track_close(&o->norms);
    ls_track_close(&o->losses);
    free(o->left_out);
    free(o);
}

void ls_outlier_save(const ls_outlier *o, int64_t words[LS_OUTLIER_WORDS]) {
    ls_track_save(&o->norms, words);
    ls_track_save(&o->losses, words + LS_TRACK_WORDS);
}

ls_status ls_outlier_restore(ls_outlier *o, const int64_t words[LS_OUTLIER_WORDS]) {
    ls_track losses = o->losses;
    LS_TRY(ls_track_restore(&losses, "losses", words + LS_TRACK_WORDS));
    LS_TRY(ls_track_restore(&o->norms, "norms", words));
    o->losses = losses;
    return LS_OK;
}
