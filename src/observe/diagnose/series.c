/* series.c: the course of the loss: how far each step lies from those before it, and what stands out.
 *
 * The level of a step is the median of the WINDOW normal steps before it, its scatter 1.4826 times the median distance
 * from that. Where the loss falls, the fall is no scatter: distances are from the line through the medians of the
 * window's halves, and the level is that of its newest steps, carried on a little less than they fell.
 * While an episode lasts, level and scatter stay as they were when it began. Its steps are judged by the steps after
 * it, too: where a fall ends, the level before is carried on too far down, and steps look high that are normal from
 * then on.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "observe/diagnose/rules.h"

enum {
    WINDOW = 32,
    NEWEST = 8,        /* of them, for the level of a falling loss */
    LEAST = 24,        /* normal steps before anything is judged */
    EPISODE_MAX = 200, /* steps; what lasts longer is the new normal */
    EDGE = 2,          /* steps at either end of a sharp one that may be lower */
    SMOOTH = 9,
    NOISE_STEPS = 64,
    NOISE_LEAST = 24
};

static const double UP = 5, BACK = 3; /* scores at which an episode begins, and ends */
static const double FALLS = 1.1;  /* scatters from one half of the window to the next; a line without noise has 1.35 */
static const double AHEAD = 0.4;  /* of the fall from 8 steps to the next 8; to the step after them 0.56 */
static const double SHARP = 0.35; /* of the peak, near both ends */
static const double RISE_SCATTER = 4;        /* of a lasting rise: in standard deviations of single steps, */
static const double RISE_OF_LOSS = 0.05;     /* as a part of the loss, */
static const double RISE_OF_PROGRESS = 0.15; /* and as a part of what had been gained */

/* ---- small things ------------------------------------------------------------------------------------------------ */

bool ls_series_find(const ls_series *s, long long step, size_t *at) {
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->at[middle].step <= step)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return false;
    *at = low - 1;
    return true;
}

/* Returns the median of the first NOISE_STEPS numbers of x at most; unlike ls_median() leaves x as it is. */
static double median_of(const double *x, size_t n) {
    double copy[NOISE_STEPS];
    if (n > NOISE_STEPS) n = NOISE_STEPS;
    memcpy(copy, x, n * sizeof *x);
    return ls_median(copy, n);
}

double ls_series_before(const ls_series *s, size_t at, size_t n) {
    double copy[NOISE_STEPS];
    if (s->count == 0) return (double)NAN;
    if (n > at + 1) n = at + 1;
    if (n > NOISE_STEPS) n = NOISE_STEPS;
    for (size_t i = 0; i < n; i++) copy[i] = s->at[at + 1 - n + i].loss;
    return ls_median(copy, n);
}

/* ---- levels and episodes ----------------------------------------------------------------------------------------- */

/* The ring of the last normal losses, their median (carried on where the loss falls) and their scatter. */
typedef struct level {
    double last[WINDOW];
    size_t seen; /* losses pushed so far; the ring has the last WINDOW of them */
    double median, scatter;
} level;

/* Copies the ring in the order of steps; returns how many losses it has. */
static size_t unroll_window(const level *l, double out[WINDOW]) {
    size_t n = l->seen < WINDOW ? l->seen : WINDOW;
    for (size_t i = 0; i < n; i++) out[i] = l->last[(l->seen - n + i) % WINDOW];
    return n;
}

/* Replaces level and scatter if x falls by more than it scatters: the scatter is then that around the line through
 * the medians of its halves, and the level is carried on from the newest steps. */
static void measure_fall(level *l, const double *x, size_t n) {
    double rest[WINDOW];
    size_t half = n / 2;
    double slope = (median_of(x + n - half, half) - median_of(x, half)) / (double)(n - half);
    if (n < LEAST || !(-slope * (double)half > FALLS * l->scatter)) return;
    for (size_t i = 0; i < n; i++) rest[i] = x[i] - slope * (double)i;
    double middle = median_of(rest, n);
    for (size_t i = 0; i < n; i++) rest[i] = fabs(rest[i] - middle);
    double newest = median_of(x + n - NEWEST, NEWEST), fall = median_of(x + n - 2 * NEWEST, NEWEST) - newest;
    l->median = newest - (fall > 0 ? AHEAD * fall : 0);
    l->scatter = 1.4826 * ls_median(rest, n);
}

/* Computes level and scatter from the ring; the scatter is at least a thousandth of the level. */
static void measure_level(level *l) {
    double x[WINDOW], copy[WINDOW];
    size_t n = unroll_window(l, x);
    l->median = median_of(x, n);
    for (size_t i = 0; i < n; i++) copy[i] = fabs(x[i] - l->median);
    l->scatter = 1.4826 * ls_median(copy, n);
    measure_fall(l, x, n);
    double least = 1e-3 * fabs(l->median);
    if (l->scatter < least) l->scatter = least;
}

/* Adds a normal loss to the ring; the oldest one leaves it. */
static void push_loss(level *l, double loss) { l->last[l->seen++ % WINDOW] = loss; }

/* Returns the distance of the loss from the level in scatters, at most ±1e6. */
static float score_of(const level *l, double loss) {
    double score = (loss - l->median) / (l->scatter > 0 ? l->scatter : 1);
    return score > 1e6 ? 1e6F : score < -1e6 ? -1e6F : (float)score;
}

/* Measures the level (median of the nearest steps) and the scatter around a slope of the steps from index `from` on.
 * Returns false if they are too few. */
static bool measure_after(const ls_series *s, size_t from, level *l) {
    double x[WINDOW], rest[WINDOW];
    size_t n = s->count - from < WINDOW ? s->count - from : WINDOW, half = n / 2;
    if (n < NEWEST) return false;
    for (size_t i = 0; i < n; i++) x[i] = s->at[from + i].loss;
    double slope = (median_of(x + n - half, half) - median_of(x, half)) / (double)(n - half);
    for (size_t i = 0; i < n; i++) rest[i] = x[i] - slope * (double)i;
    double middle = median_of(rest, n), least = 1e-3 * fabs(middle);
    for (size_t i = 0; i < n; i++) rest[i] = fabs(rest[i] - middle);
    l->median = median_of(x, NEWEST);
    l->scatter = 1.4826 * ls_median(rest, n);
    if (l->scatter < least) l->scatter = least;
    return true;
}

/* Lowers the scores of an episode to those against the steps after it: a jump stands out from both sides. */
static void rescore_by_later_steps(ls_series *s, ls_episode *e) {
    level after;
    if (!e->recovered || !measure_after(s, e->last + 1, &after)) return;
    for (size_t i = e->first; i <= e->last; i++) {
        float score = score_of(&after, s->at[i].loss);
        if (score < s->at[i].score) s->at[i].score = score;
    }
    double score = (double)score_of(&after, e->peak);
    if (score < e->score) e->score = score;
}

/* Returns whether the loss of the episode is near its peak from one of its first steps to one of its last: at most
 * EDGE steps at either end are lower. */
static bool is_high_throughout(const ls_series *s, const ls_episode *e) {
    size_t up = e->first, down = e->last;
    while (up < down && (double)s->at[up].score < SHARP * e->score) up++;
    while (down > up && (double)s->at[down].score < SHARP * e->score) down--;
    return up - e->first <= EDGE && e->last - down <= EDGE;
}

/* Measures the episode that begins at `first`, and scores its steps. It ends before two steps in a row below BACK and
 * has then recovered; it has not if it lasts until the end of the run, or for EPISODE_MAX steps. */
static ls_episode measure_episode(ls_series *s, const level *l, size_t first) {
    ls_episode e = {.first = first, .last = first, .level = l->median, .peak = s->at[first].loss};
    size_t below = 0, at = first;
    for (; at < s->count && at - first < EPISODE_MAX && below < 2; at++) {
        s->at[at].score = score_of(l, s->at[at].loss);
        if ((double)s->at[at].score < BACK) {
            below++;
            continue;
        }
        below = 0;
        e.last = at;
        if (s->at[at].loss > e.peak) e.peak = s->at[at].loss;
    }
    e.score = (double)score_of(l, e.peak);
    e.recovered = below == 2 || (below == 1 && at == s->count);
    rescore_by_later_steps(s, &e);
    e.sharp = e.recovered && e.score > UP && is_high_throughout(s, &e);
    for (size_t i = e.first; i <= e.last; i++) e.high += (double)s->at[i].score >= SHARP * e.score;
    return e;
}

/* Adds the episode, and marks its steps as bad data if it is sharp. Beyond LS_EPISODES_MAX it only marks the steps. */
static ls_status add_episode(ls_series *s, const ls_episode *e) {
    if (e->sharp)
        for (size_t i = e->first; i <= e->last; i++) s->at[i].in_data = true;
    if (s->episode_count == LS_EPISODES_MAX) return LS_OK;
    if (!s->episode) {
        s->episode = calloc(LS_EPISODES_MAX, sizeof *s->episode);
        if (!s->episode) return ls_fail(LS_ERR_RESOURCE, "out of memory for a loss history");
    }
    s->episode[s->episode_count++] = *e;
    return LS_OK;
}

/* Scores every step and finds the episodes, from the first step to the last. An episode's steps do not change the
 * level unless the loss stays up. */
static ls_status find_episodes(ls_series *s) {
    level l = {.seen = 0};
    for (size_t i = 0; i < s->count;) {
        measure_level(&l);
        s->at[i].score = l.seen < LEAST ? 0 : score_of(&l, s->at[i].loss);
        if (i > 0 && (double)s->at[i - 1].score < -UP && (double)s->at[i].score > -BACK) s->jumps_down++;
        if ((double)s->at[i].score <= UP) {
            push_loss(&l, s->at[i++].loss);
            continue;
        }
        ls_episode e = measure_episode(s, &l, i);
        LS_TRY(add_episode(s, &e));
        i = e.last + 1;
        /* What stays up is what the next steps are measured by. */
        if (!e.recovered)
            for (size_t k = e.first; k <= e.last; k++) push_loss(&l, s->at[k].loss);
    }
    return LS_OK;
}

/* ---- making it --------------------------------------------------------------------------------------------------- */

/* Copies the steps with a finite loss, and finds the peak learning rate and the first step that is not finite. */
static void fill_loss_series(const ls_run_log *run, ls_series *s) {
    s->first_bad = LS_RUN_NONE;
    for (size_t i = 0; i < run->step_count; i++) {
        const ls_run_log_step *step = &run->steps[i];
        bool bad = !isfinite(step->loss) || (step->has_norm && !isfinite(step->norm));
        if (bad && !step->skipped && s->first_bad == LS_RUN_NONE) s->first_bad = step->step;
        if (step->lr > s->peak_lr && isfinite(step->lr)) s->peak_lr = step->lr;
        if (!isfinite(step->loss)) continue;
        s->at[s->count++] =
            (ls_series_step){.step = step->step, .loss = step->loss, .norm = step->norm, .lr = step->lr};
    }
}

ls_status ls_series_make(const ls_run_log *run, ls_series *out) {
    *out = (ls_series){.at = calloc(run->step_count + 1, sizeof *out->at)};
    if (!out->at) return ls_fail(LS_ERR_RESOURCE, "out of memory for a history of %zu steps", run->step_count);
    fill_loss_series(run, out);
    ls_status status = find_episodes(out);
    if (status != LS_OK) ls_series_free(out);
    return status;
}

void ls_series_free(ls_series *s) {
    free(s->at);
    free(s->episode);
    *s = (ls_series){0};
}

/* ---- a lasting rise ---------------------------------------------------------------------------------------------- */

/* Uses the differences of neighbours: a slope hardly counts, and of a normal distribution a quarter of the
 * differences is below 0.45 of its deviation. Near the beginning it uses the first steps instead. */
double ls_series_noise(const ls_series *s, size_t end) {
    double difference[NOISE_STEPS];
    size_t n = 0;
    if (end < NOISE_LEAST) end = s->count - 1 < NOISE_LEAST ? s->count - 1 : NOISE_LEAST;
    for (size_t i = end; i > 0 && n < NOISE_STEPS; i--)
        if (!s->at[i].in_data && !s->at[i - 1].in_data) difference[n++] = fabs(s->at[i].loss - s->at[i - 1].loss);
    (void)ls_median(difference, n); /* sorts */
    return n == 0 ? 0 : difference[n / 4] / 0.4506;
}

/* The smoothed loss, to look for a lasting rise. */
typedef struct riser {
    const ls_series *s;
    size_t *at;     /* indices of steps outside of sharp episodes */
    double *smooth; /* median of the last SMOOTH of them */
    size_t count;
} riser;

/* Lists the steps outside of sharp episodes, and smooths their losses. */
static void smooth_losses(riser *r) {
    double window[SMOOTH];
    for (size_t i = 0; i < r->s->count; i++)
        if (!r->s->at[i].in_data) r->at[r->count++] = i;
    for (size_t k = 0; k < r->count; k++) {
        size_t n = k + 1 < SMOOTH ? k + 1 : SMOOTH;
        for (size_t j = 0; j < n; j++) window[j] = r->s->at[r->at[k - j]].loss;
        r->smooth[k] = ls_median(window, n);
    }
}

/* Returns by how much the smoothed loss must rise above its value at `low` to count. */
static double least_rise(const riser *r, size_t low) {
    double loss = r->smooth[low], rise = RISE_OF_LOSS * fabs(loss);
    double gained = RISE_OF_PROGRESS * (r->s->at[0].loss - loss),
           scatter = RISE_SCATTER * ls_series_noise(r->s, r->at[low]);
    if (gained > rise) rise = gained;
    return scatter > rise ? scatter : rise;
}

/* Finds the first rise that lasts `least` smoothed steps, and how long and how far it goes. */
static void search_rise(const riser *r, size_t least, ls_rise *out) {
    size_t low = SMOOTH / 2, length = 0;
    double needed = (double)NAN;
    for (size_t k = low; k < r->count; k++) {
        double rise = r->smooth[k] - r->smooth[low];
        if (rise <= 0) {
            low = k;
            needed = (double)NAN;
        } else if (isnan(needed) && rise > RISE_OF_LOSS * fabs(r->smooth[low])) {
            needed = least_rise(r, low);
        }
        length = rise > needed ? length + 1 : 0; /* false while `needed` is not known */
        if (length < least) continue;
        if (!out->found)
            *out =
                (ls_rise){.found = true, .low = r->at[low], .first = r->at[k + 1 - least], .low_loss = r->smooth[low]};
        out->steps += length == least ? least : 1;
        if (r->smooth[k] > out->top_loss || out->top == 0) {
            out->top = r->at[k];
            out->top_loss = r->smooth[k];
        }
    }
}

ls_status ls_series_rise(const ls_series *series, size_t least, ls_rise *out) {
    riser r = {.s = series};
    *out = (ls_rise){0};
    r.at = calloc(series->count + 1, sizeof *r.at);
    r.smooth = calloc(series->count + 1, sizeof *r.smooth);
    ls_status status = LS_OK;
    if (r.at && r.smooth) {
        smooth_losses(&r);
        search_rise(&r, least, out);
    } else {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a history of %zu steps", series->count);
    }
    free(r.at);
    free(r.smooth);
    return status;
}
