/* outlier.c: gradient groups whose norm stands out. */
#include "train/outlier.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/elementary.h"

/* Steps whose level a group is compared with where peers are few: so few that a level which falls fast is followed. */
enum { LEVEL_STEPS = 5, PEERS_ENOUGH = 3 };
static const double few_peers_factor = 1.5;
/* No logarithm of a ratio of doubles is as large. */
static const double log_max = 3000;

typedef struct remembered {
    double level;   /* median of l over the groups */
    double largest; /* deviation */
} remembered;

struct ls_outlier {
    size_t groups;
    double threshold;
    size_t count;
    remembered history[LS_OUTLIER_HISTORY]; /* oldest first */
    remembered judged;
    bool has_judged;
    double *logs, *sorted; /* `groups` each; of the step being judged */
};

/* ---- order statistics -------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sift_down(double *v, size_t at, size_t count) {
    double value = v[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && v[child] < v[child + 1];
        if (v[child] <= value) break;
        v[at] = v[child];
    }
    v[at] = value;
}

/* A heap sort, because qsort may allocate. */
static void sort(double *v, size_t count) {
    for (size_t i = count / 2; i > 0; i--) sift_down(v, i - 1, count);
    for (size_t last = count; last > 1; last--) {
        double largest = v[0];
        v[0] = v[last - 1];
        sift_down(v, 0, last - 1);
        v[last - 1] = largest;
    }
}

static double median_of_sorted(const double *v, size_t count) {
    return count % 2 ? v[count / 2] : 0.5 * (v[count / 2 - 1] + v[count / 2]);
}

/* The median of all but one of the values, which is `left_out`. */
static double median_without(const double *v, size_t count, double left_out) {
    const double *at = bsearch(&left_out, v, count, sizeof *v, compare);
    size_t skip = (size_t)(at - v), middle = (count - 1) / 2;
    double upper = v[middle < skip ? middle : middle + 1];
    if (count % 2 == 0) return upper;
    return 0.5 * (v[middle - 1 < skip ? middle - 1 : middle] + upper);
}

/* ---- history ----------------------------------------------------------------------------------------------------- */

static double recent_level(const ls_outlier *o) {
    double levels[LEVEL_STEPS];
    size_t count = o->count < LEVEL_STEPS ? o->count : LEVEL_STEPS;
    for (size_t i = 0; i < count; i++) levels[i] = o->history[o->count - count + i].level;
    sort(levels, count);
    return median_of_sorted(levels, count);
}

static double spread_now(const ls_outlier *o) {
    double largest[LS_OUTLIER_HISTORY], excess = 0;
    size_t half = o->count / 2;
    for (size_t i = 0; i < o->count; i++) largest[i] = o->history[i].largest;
    sort(largest, o->count);
    double m = median_of_sorted(largest, o->count);
    for (size_t i = o->count - half; i < o->count; i++) excess += largest[i] - m;
    double spread = excess / (double)half + m / o->threshold;
    return spread > LS_OUTLIER_SPREAD_MIN ? spread : LS_OUTLIER_SPREAD_MIN;
}

void ls_outlier_remember(ls_outlier *o) {
    if (!o->has_judged) return;
    if (o->count == LS_OUTLIER_HISTORY)
        memmove(o->history, o->history + 1, (LS_OUTLIER_HISTORY - 1) * sizeof *o->history);
    else
        o->count++;
    o->history[o->count - 1] = o->judged;
    o->has_judged = false;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

typedef struct judgement {
    ls_outlier *o;
    const ls_outlier_step *step;
    size_t usable;        /* groups with a norm that is finite and not 0; sorted */
    bool is_warm, is_few; /* enough history; few peers */
    double level, spread;
} judgement;

static bool is_present(const ls_outlier_step *step, size_t g) { return step->tokens[g] > 0; }

/* A norm of 0 (nothing to learn in the group) stands out from nothing, and is no peer. */
static bool is_usable(const ls_outlier_step *step, size_t g) {
    return is_present(step, g) && isfinite(step->squares[g]) && step->squares[g] > 0;
}

static judgement look(ls_outlier *o, const ls_outlier_step *step) {
    judgement j = {.o = o, .step = step, .is_warm = o->count >= LS_OUTLIER_WARMUP};
    assert(step->scale > 0);
    double scale = ls_log_f64(step->scale);
    for (size_t g = 0; g < o->groups; g++) {
        if (!is_usable(step, g)) continue;
        o->logs[g] = 0.5 * (ls_log_f64(step->squares[g]) - ls_log_f64((double)step->tokens[g])) + scale;
        o->sorted[j.usable++] = o->logs[g];
    }
    sort(o->sorted, j.usable);
    j.is_few = j.usable <= PEERS_ENOUGH;
    if (o->count > 0) j.level = recent_level(o);
    j.spread = j.is_warm ? spread_now(o) : (double)NAN;
    return j;
}

/* Of l from the others among `count` sorted ones, it being one of them. */
static double deviation(const judgement *j, double l, const double *sorted, size_t count) {
    double d = l - median_without(sorted, count, l);
    if (!j->is_few || j->o->count == 0) return d;
    double from_level = l - j->level;
    d *= few_peers_factor;
    return d < from_level ? d : from_level;
}

static ls_outlier_finding describe(const judgement *j, size_t g, double score) {
    const ls_outlier_step *step = j->step;
    bool finite = isfinite(step->squares[g]);
    ls_outlier_finding f = {.group = g,
                            .finite = finite,
                            .norm = finite ? sqrt(step->squares[g]) * step->scale : (double)NAN,
                            .median = (double)NAN,
                            .spread = j->spread,
                            .score = score};
    if (j->usable > (finite ? 1 : 0)) {
        double peers =
            finite ? median_without(j->o->sorted, j->usable, j->o->logs[g]) : median_of_sorted(j->o->sorted, j->usable);
        f.median = ls_exp_f64(peers) * sqrt((double)step->tokens[g]);
    }
    return f;
}

/* What remains without the outliers is what the step is remembered by. */
static void keep_judged(const judgement *j, const ls_outlier_finding *findings, size_t found) {
    ls_outlier *o = j->o;
    size_t kept = 0, next = 0;
    for (size_t g = 0; g < o->groups; g++) {
        bool is_outlier = next < found && findings[next].group == g;
        next += is_outlier;
        if (!is_outlier && is_usable(j->step, g)) o->sorted[kept++] = o->logs[g];
    }
    o->has_judged = kept > 0 && o->groups > 1;
    if (!o->has_judged) return;
    sort(o->sorted, kept);
    /* The group with the largest norm has the largest deviation. */
    double largest = kept > 1 ? deviation(j, o->sorted[kept - 1], o->sorted, kept) : 0;
    /* While nothing is judged, an outlier must not make the spread useless for a hundred steps. */
    double most = LS_OUTLIER_SPREAD_MIN * o->threshold;
    if (!j->is_warm && largest > most) largest = most;
    o->judged = (remembered){.level = median_of_sorted(o->sorted, kept), .largest = largest};
}

size_t ls_outlier_judge(ls_outlier *o, const ls_outlier_step *step, ls_outlier_finding *findings) {
    judgement j = look(o, step);
    size_t found = 0;
    for (size_t g = 0; g < o->groups; g++) {
        if (is_present(step, g) && !isfinite(step->squares[g])) {
            findings[found++] = describe(&j, g, (double)INFINITY);
            continue;
        }
        if (!j.is_warm || j.usable < 2 || !is_usable(step, g)) continue;
        double score = deviation(&j, o->logs[g], o->sorted, j.usable) / j.spread;
        if (score >= o->threshold) findings[found++] = describe(&j, g, score);
    }
    keep_judged(&j, findings, found);
    return found;
}

/* ---- life and checkpoint ----------------------------------------------------------------------------------------- */

ls_status ls_outlier_create(size_t groups, double threshold, ls_outlier **out) {
    *out = NULL;
    if (groups < 1 || groups > LS_OUTLIER_GROUPS_MAX)
        return ls_fail(LS_ERR_INPUT, "%zu gradient groups; there may be 1 to %d", groups, LS_OUTLIER_GROUPS_MAX);
    if (!(threshold >= 1 && threshold <= 1000))
        return ls_fail(LS_ERR_INPUT, "the threshold of outliers is %g; it must lie between 1 and 1000", threshold);
    ls_outlier *o = calloc(1, sizeof *o);
    double *values = calloc(2 * groups, sizeof *values);
    if (!o || !values) {
        free(o);
        free(values);
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the norms of %zu gradient groups", groups);
    }
    o->groups = groups;
    o->threshold = threshold;
    o->logs = values;
    o->sorted = values + groups;
    *out = o;
    return LS_OK;
}

void ls_outlier_destroy(ls_outlier *o) {
    if (!o) return;
    free(o->logs);
    free(o);
}

void ls_outlier_save(const ls_outlier *o, int64_t words[LS_OUTLIER_WORDS]) {
    memset(words, 0, LS_OUTLIER_WORDS * sizeof *words);
    words[0] = (int64_t)o->count;
    for (size_t i = 0; i < o->count; i++) {
        memcpy(&words[1 + 2 * i], &o->history[i].level, sizeof(double));
        memcpy(&words[2 + 2 * i], &o->history[i].largest, sizeof(double));
    }
}

ls_status ls_outlier_restore(ls_outlier *o, const int64_t words[LS_OUTLIER_WORDS]) {
    remembered read[LS_OUTLIER_HISTORY];
    if (words[0] < 0 || words[0] > LS_OUTLIER_HISTORY)
        return ls_fail(LS_ERR_INPUT, "the saved norms of gradient groups are damaged: %" PRId64 " steps of at most %d",
                       words[0], LS_OUTLIER_HISTORY);
    size_t count = (size_t)words[0];
    for (size_t i = 0; i < count; i++) {
        memcpy(&read[i].level, &words[1 + 2 * i], sizeof(double));
        memcpy(&read[i].largest, &words[2 + 2 * i], sizeof(double));
        if (fabs(read[i].level) <= log_max && fabs(read[i].largest) <= log_max) continue;
        return ls_fail(LS_ERR_INPUT,
                       "the saved norms of gradient groups are damaged: step %zu has level %g, largest %g", i,
                       read[i].level, read[i].largest);
    }
    memcpy(o->history, read, count * sizeof *read);
    o->count = count;
    o->has_judged = false;
    return LS_OK;
}
