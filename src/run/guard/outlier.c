/* outlier.c: finds gradient groups that stand out from the others, by norm, or by norm and loss together.
 *
 * A track holds one quantity of the groups over the steps of a run: what is usual, and how far a group is from it.
 * There is one of the logarithms of norms and one of losses. A group's deviation d is its value less the median of the
 * other groups' values. The largest deviation of each step is remembered for LS_OUTLIER_HISTORY steps: with m their
 * median and b the mean distance of those above m from m,
 *
 *     spread = max(least, b + m/threshold)      score = d / spread
 *
 * With less than four groups a median of peers is weak: there d is the smaller of 1.5·d and the deviation from the
 * recent steps' level.
 *
 * A step is looked at, perhaps more than once; then, unless it is skipped, it is remembered. */
#include "run/guard/outlier.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/elementary.h"

typedef struct track_step {
    double level;   /* median over the groups */
    double largest; /* deviation */
} track_step;

typedef struct track {
    size_t groups;
    double threshold, least;
    double range; /* no value is larger in size */
    size_t count;
    track_step history[LS_OUTLIER_HISTORY]; /* oldest first */
    track_step judged;
    bool has_judged;
    /* of the step that is looked at */
    double *values; /* by group, to be filled in by the caller; NaN: it has none, and is no peer */
    double *sorted;
    size_t usable; /* groups with a value */
    bool is_warm;  /* there is enough history to judge by */
    bool is_few;   /* peers */
    double level;
    double spread; /* NaN unless warm */
    double wide;   /* m + b; likewise */
} track;

/* With few peers a group is compared with the level of the last LEVEL_STEPS steps: so few steps that a level which
 * falls fast is followed. */
enum { LEVEL_STEPS = 5, PEERS_ENOUGH = 3 };
static const double few_peers_factor = 1.5;

/* ---- order statistics -------------------------------------------------------------------------------------------- */

/* Orders doubles ascending, for bsearch(). */
static int compare_norms(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Restores the heap order (largest first) of v[0 … count − 1] from index `at` down. */
static void sift_down(double *v, size_t at, size_t count) {
    double value = v[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && v[child] < v[child + 1];
        if (v[child] <= value) break;
        v[at] = v[child];
    }
    v[at] = value;
}

/* Sorts with heap sort, because qsort() may allocate memory. */
static void sort(double *v, size_t count) {
    for (size_t i = count / 2; i > 0; i--) sift_down(v, i - 1, count);
    for (size_t last = count; last > 1; last--) {
        double largest = v[0];
        v[0] = v[last - 1];
        sift_down(v, 0, last - 1);
        v[last - 1] = largest;
    }
}

/* Returns the median of sorted values; the mean of the two middle ones if their number is even. At least one value. */
static double median_of_sorted(const double *v, size_t count) {
    return count % 2 ? v[count / 2] : 0.5 * (v[count / 2 - 1] + v[count / 2]);
}

/* Returns the median of the sorted values without one of them that equals `left_out`, which must be there; count is at
 * least 2. */
static double median_without(const double *v, size_t count, double left_out) {
    const double *at = bsearch(&left_out, v, count, sizeof *v, compare_norms);
    size_t skip = (size_t)(at - v), middle = (count - 1) / 2;
    double upper = v[middle < skip ? middle : middle + 1];
    if (count % 2 == 0) return upper;
    return 0.5 * (v[middle - 1 < skip ? middle - 1 : middle] + upper);
}

/* ---- history ----------------------------------------------------------------------------------------------------- */

/* Returns the median of the levels of the last LEVEL_STEPS steps. */
static double recent_level(const track *t) {
    double levels[LEVEL_STEPS];
    size_t count = t->count < LEVEL_STEPS ? t->count : LEVEL_STEPS;
    for (size_t i = 0; i < count; i++) levels[i] = t->history[t->count - count + i].level;
    sort(levels, count);
    return median_of_sorted(levels, count);
}

/* Computes spread and wide from the largest deviations of the history, by the formulas above. */
static void measure_spread(track *t) {
    double largest[LS_OUTLIER_HISTORY], excess = 0;
    size_t half = t->count / 2;
    for (size_t i = 0; i < t->count; i++) largest[i] = t->history[i].largest;
    sort(largest, t->count);
    double m = median_of_sorted(largest, t->count);
    for (size_t i = t->count - half; i < t->count; i++) excess += largest[i] - m;
    double b = excess / (double)half;
    t->spread = b + m / t->threshold;
    if (t->spread < t->least) t->spread = t->least;
    t->wide = m + b;
}

/* Appends the step that was judged last to the history, once; drops the oldest one of a full history. */
static void track_remember(track *t) {
    if (!t->has_judged) return;
    if (t->count == LS_OUTLIER_HISTORY)
        memmove(t->history, t->history + 1, (LS_OUTLIER_HISTORY - 1) * sizeof *t->history);
    else
        t->count++;
    t->history[t->count - 1] = t->judged;
    t->has_judged = false;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* Sorts the values of the step into t->sorted, and counts them. */
static void sort_values(track *t) {
    t->usable = 0;
    for (size_t g = 0; g < t->groups; g++)
        if (!isnan(t->values[g])) t->sorted[t->usable++] = t->values[g];
    sort(t->sorted, t->usable);
}

/* Prepares the values of a step for judging: sorts them, and measures what is usual. */
static void track_look(track *t) {
    sort_values(t);
    t->is_few = t->usable <= PEERS_ENOUGH;
    t->is_warm = t->count >= LS_OUTLIER_WARMUP;
    t->level = t->count > 0 ? recent_level(t) : 0;
    t->spread = t->wide = (double)NAN;
    if (t->is_warm) measure_spread(t);
}

/* Returns how far a value of this step is above the median of its peers. With few peers, whose median is weak: the
 * smaller of 1.5 times that, and the distance to the level of recent steps. */
static double deviation_of(const track *t, double value) {
    double d = value - median_without(t->sorted, t->usable, value);
    if (!t->is_few || t->count == 0) return d;
    double from_level = value - t->level;
    d *= few_peers_factor;
    return d < from_level ? d : from_level;
}

/* Returns the deviation of a group, which must have a value. */
static double track_deviation(const track *t, size_t group) { return deviation_of(t, t->values[group]); }

/* Returns a group's deviation in spreads; 0 if it cannot be judged. */
static double track_score(const track *t, size_t group) {
    if (!t->is_warm || t->usable < 2 || isnan(t->values[group])) return 0;
    return track_deviation(t, group) / t->spread;
}

/* Returns the median of the other groups' values; NaN without peers. */
static double track_peers(const track *t, size_t group) {
    if (isnan(t->values[group])) return t->usable > 0 ? median_of_sorted(t->sorted, t->usable) : (double)NAN;
    return t->usable > 1 ? median_without(t->sorted, t->usable, t->values[group]) : (double)NAN;
}

/* Makes this step, without the groups left out, the one that track_remember() would add. */
static void track_keep(track *t, const bool *left_out) {
    for (size_t g = 0; g < t->groups; g++)
        if (left_out[g]) t->values[g] = (double)NAN;
    sort_values(t);
    t->has_judged = t->usable > 0 && t->groups > 1;
    if (!t->has_judged) return;
    /* The group with the largest value has the largest deviation. */
    double largest = t->usable > 1 ? deviation_of(t, t->sorted[t->usable - 1]) : 0;
    /* While nothing is judged, an outlier must not make the spread useless for a hundred steps. */
    double most = t->least * t->threshold;
    if (!t->is_warm && largest > most) largest = most;
    t->judged = (track_step){.level = median_of_sorted(t->sorted, t->usable), .largest = largest};
}

/* ---- the groups of a step ---------------------------------------------------------------------------------------- */

/* Natural logarithm of 2: a gradient that goes with a loss that stands out is at least twice as long as its peers'. */
static const double long_enough = 0.69314718055994531;
/* No logarithm of a ratio of doubles is as large; and no loss that is counted. */
static const double log_max = 3000, loss_max = 0x1p31;

struct ls_outlier {
    double threshold;
    track norms, losses;
    bool *left_out;  /* by group: not remembered */
    double memory[]; /* of the tracks, and of left_out */
};

/* Returns whether the group takes part in the step. */
static bool is_present(const ls_outlier_step *step, size_t g) { return step->tokens[g] > 0; }

/* Fills the values of both tracks, logarithms of norms per √tokens and losses, and prepares them for judging. */
static void judge_group_norms(ls_outlier *o, const ls_outlier_step *step) {
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
    track_look(&o->norms);
    track_look(&o->losses);
}

/* Returns whether the gradient of a group is long: at least twice that of its peers, and more than usual. A high loss
 * alone does not show that the group moves the weights more than others. */
static bool is_long(const track *norms, size_t g) {
    if (!norms->is_warm || norms->usable < 2 || isnan(norms->values[g])) return false;
    double d = track_deviation(norms, g);
    return d >= long_enough && d >= norms->wide;
}

/* Returns the finding for group g of the step that was judged. */
static ls_outlier_finding describe_outlier(const ls_outlier *o, const ls_outlier_step *step, size_t g) {
    bool finite = isfinite(step->squares[g]);
    ls_outlier_finding f = {.group = g,
                            .finite = finite,
                            .norm = finite ? sqrt(step->squares[g]) * step->scale : (double)NAN,
                            .median = (double)NAN,
                            .spread = o->norms.spread,
                            .score = finite ? track_score(&o->norms, g) : (double)INFINITY,
                            .loss = o->losses.values[g],
                            .loss_median = track_peers(&o->losses, g),
                            .loss_score = track_score(&o->losses, g)};
    double peers = track_peers(&o->norms, g);
    if (!isnan(peers)) f.median = ls_exp_f64(peers) * sqrt((double)step->tokens[g]);
    return f;
}

size_t ls_outlier_judge(ls_outlier *o, const ls_outlier_step *step, ls_outlier_finding *findings) {
    size_t found = 0;
    judge_group_norms(o, step);
    for (size_t g = 0; g < o->norms.groups; g++) {
        bool by_loss = track_score(&o->losses, g) >= o->threshold;
        bool is_outlier = is_present(step, g) && !isfinite(step->squares[g]);
        is_outlier = is_outlier || track_score(&o->norms, g) >= o->threshold || (by_loss && is_long(&o->norms, g));
        o->left_out[g] = is_outlier || by_loss;
        if (is_outlier) findings[found++] = describe_outlier(o, step, g);
    }
    track_keep(&o->norms, o->left_out);
    track_keep(&o->losses, o->left_out);
    return found;
}

void ls_outlier_remember(ls_outlier *o) {
    track_remember(&o->norms);
    track_remember(&o->losses);
}

/* ---- life and checkpoint ----------------------------------------------------------------------------------------- */

/* Writes the history of a track as words. */
static void track_save(const track *t, int64_t words[LS_TRACK_WORDS]) {
    memset(words, 0, LS_TRACK_WORDS * sizeof *words);
    words[0] = (int64_t)t->count;
    memcpy(&words[1], t->history, t->count * sizeof *t->history);
}

/* Restores a track from words; LS_ERR_INPUT, and no change, if they cannot be a history. `what` is for the message. */
static ls_status track_restore(track *t, const char *what, const int64_t words[LS_TRACK_WORDS]) {
    track_step read[LS_OUTLIER_HISTORY];
    if (words[0] < 0 || words[0] > LS_OUTLIER_HISTORY)
        return ls_fail(LS_ERR_INPUT,
                       "the saved %s of gradient groups are damaged: they cover %" PRId64
                       " steps, but 0 to %d are kept",
                       what, words[0], LS_OUTLIER_HISTORY);
    size_t count = (size_t)words[0];
    memcpy(read, &words[1], count * sizeof *read);
    for (size_t i = 0; i < count; i++) {
        if (fabs(read[i].level) <= t->range && fabs(read[i].largest) <= t->range) continue;
        return ls_fail(LS_ERR_INPUT,
                       "the saved %s of gradient groups are damaged: step %zu of %zu has the median %g and the largest "
                       "deviation %g; neither may be beyond ±%g",
                       what, i + 1, count, read[i].level, read[i].largest, t->range);
    }
    memcpy(t->history, read, count * sizeof *read);
    t->count = count;
    t->has_judged = false;
    return LS_OK;
}

/* Returns an empty track; `memory` has 2 · groups doubles. */
static track track_start(double *memory, size_t groups, double threshold, double least, double range) {
    return (track){.groups = groups,
                   .threshold = threshold,
                   .least = least,
                   .range = range,
                   .values = memory,
                   .sorted = memory + groups};
}

ls_status ls_outlier_create(size_t groups, double threshold, ls_outlier **out) {
    *out = NULL;
    if (groups < 1 || groups > LS_OUTLIER_GROUPS_MAX)
        return ls_fail(LS_ERR_INPUT, "%zu gradient groups; outliers are found among 1 to %d", groups,
                       LS_OUTLIER_GROUPS_MAX);
    if (!(threshold >= 1 && threshold <= 1000))
        return ls_fail(LS_ERR_INPUT, "the outlier threshold is %g; it must be between 1 and 1000", threshold);
    ls_outlier *o = calloc(1, sizeof *o + groups * (4 * sizeof(double) + sizeof(bool)));
    if (!o) return ls_fail(LS_ERR_RESOURCE, "out of memory for the norms of %zu gradient groups", groups);
    o->threshold = threshold;
    o->norms = track_start(o->memory, groups, threshold, LS_OUTLIER_SPREAD_MIN, log_max);
    o->losses = track_start(o->memory + 2 * groups, groups, threshold, LS_OUTLIER_LOSS_SPREAD_MIN, loss_max);
    o->left_out = (bool *)(o->memory + 4 * groups);
    *out = o;
    return LS_OK;
}

void ls_outlier_destroy(ls_outlier *o) { free(o); }

void ls_outlier_save(const ls_outlier *o, int64_t words[LS_OUTLIER_WORDS]) {
    track_save(&o->norms, words);
    track_save(&o->losses, words + LS_TRACK_WORDS);
}

ls_status ls_outlier_restore(ls_outlier *o, const int64_t words[LS_OUTLIER_WORDS]) {
    track losses = o->losses;
    LS_TRY(track_restore(&losses, "losses", words + LS_TRACK_WORDS));
    LS_TRY(track_restore(&o->norms, "norms", words));
    o->losses = losses;
    return LS_OK;
}
