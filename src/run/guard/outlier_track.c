/* outlier_track.c: what is usual among groups, and how far one is from it. */
#include "run/guard/outlier_track.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps whose level a group is compared with where peers are few: so few that a level which falls fast is followed. */
enum { LEVEL_STEPS = 5, PEERS_ENOUGH = 3 };
static const double few_peers_factor = 1.5;

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

static double recent_level(const ls_track *t) {
    double levels[LEVEL_STEPS];
    size_t count = t->count < LEVEL_STEPS ? t->count : LEVEL_STEPS;
    for (size_t i = 0; i < count; i++) levels[i] = t->history[t->count - count + i].level;
    sort(levels, count);
    return median_of_sorted(levels, count);
}

static void measure_spread(ls_track *t) {
    double largest[LS_TRACK_HISTORY], excess = 0;
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

void ls_track_remember(ls_track *t) {
    if (!t->has_judged) return;
    if (t->count == LS_TRACK_HISTORY)
        memmove(t->history, t->history + 1, (LS_TRACK_HISTORY - 1) * sizeof *t->history);
    else
        t->count++;
    t->history[t->count - 1] = t->judged;
    t->has_judged = false;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static void sort_values(ls_track *t) {
    t->usable = 0;
    for (size_t g = 0; g < t->groups; g++)
        if (!isnan(t->values[g])) t->sorted[t->usable++] = t->values[g];
    sort(t->sorted, t->usable);
}

void ls_track_look(ls_track *t) {
    sort_values(t);
    t->is_few = t->usable <= PEERS_ENOUGH;
    t->is_warm = t->count >= LS_TRACK_WARMUP;
    t->level = t->count > 0 ? recent_level(t) : 0;
    t->spread = t->wide = (double)NAN;
    if (t->is_warm) measure_spread(t);
}

static double deviation_of(const ls_track *t, double value) {
    double d = value - median_without(t->sorted, t->usable, value);
    if (!t->is_few || t->count == 0) return d;
    double from_level = value - t->level;
    d *= few_peers_factor;
    return d < from_level ? d : from_level;
}

double ls_track_deviation(const ls_track *t, size_t group) { return deviation_of(t, t->values[group]); }

double ls_track_score(const ls_track *t, size_t group) {
    if (!t->is_warm || t->usable < 2 || isnan(t->values[group])) return 0;
    return ls_track_deviation(t, group) / t->spread;
}

double ls_track_peers(const ls_track *t, size_t group) {
    if (isnan(t->values[group])) return t->usable > 0 ? median_of_sorted(t->sorted, t->usable) : (double)NAN;
    return t->usable > 1 ? median_without(t->sorted, t->usable, t->values[group]) : (double)NAN;
}

void ls_track_keep(ls_track *t, const bool *left_out) {
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
    t->judged = (ls_track_step){.level = median_of_sorted(t->sorted, t->usable), .largest = largest};
}

/* ---- life and checkpoint ----------------------------------------------------------------------------------------- */

ls_status ls_track_open(ls_track *t, size_t groups, double threshold, double least, double range) {
    *t = (ls_track){.groups = groups, .threshold = threshold, .least = least, .range = range};
    t->values = calloc(2 * groups, sizeof *t->values);
    if (!t->values) return ls_fail(LS_ERR_RESOURCE, "out of memory for the statistics of %zu gradient groups", groups);
    t->sorted = t->values + groups;
    return LS_OK;
}

void ls_track_close(ls_track *t) {
    free(t->values);
    *t = (ls_track){0};
}

void ls_track_save(const ls_track *t, int64_t words[LS_TRACK_WORDS]) {
    memset(words, 0, LS_TRACK_WORDS * sizeof *words);
    words[0] = (int64_t)t->count;
    for (size_t i = 0; i < t->count; i++) {
        memcpy(&words[1 + 2 * i], &t->history[i].level, sizeof(double));
        memcpy(&words[2 + 2 * i], &t->history[i].largest, sizeof(double));
    }
}

ls_status ls_track_restore(ls_track *t, const char *what, const int64_t words[LS_TRACK_WORDS]) {
    ls_track_step read[LS_TRACK_HISTORY];
    if (words[0] < 0 || words[0] > LS_TRACK_HISTORY)
        return ls_fail(LS_ERR_INPUT, "the saved %s of gradient groups are damaged: %" PRId64 " steps of at most %d",
                       what, words[0], LS_TRACK_HISTORY);
    size_t count = (size_t)words[0];
    for (size_t i = 0; i < count; i++) {
        memcpy(&read[i].level, &words[1 + 2 * i], sizeof(double));
        memcpy(&read[i].largest, &words[2 + 2 * i], sizeof(double));
        if (fabs(read[i].level) <= t->range && fabs(read[i].largest) <= t->range) continue;
        return ls_fail(LS_ERR_INPUT, "the saved %s of gradient groups are damaged: step %zu has level %g, largest %g",
                       what, i, read[i].level, read[i].largest);
    }
    memcpy(t->history, read, count * sizeof *read);
    t->count = count;
    t->has_judged = false;
    return LS_OK;
}
