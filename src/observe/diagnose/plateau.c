/* plateau.c: a loss that stands still while the learning rate is near its peak.
 *
 * Where updates are too long, weights wander as fast as they learn: the loss comes down at first, stays where it is,
 * and falls again only when the rate has come down. A plateau alone says nothing: models learn in stages, and every run
 * flattens in the end. So it takes long updates as well (--numerics records them); where they are not known, a rate of
 * AdamW that is out of question, and a loss that has hardly begun to fall. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "observe/diagnose/parts.h"

static const double STILL = 0.97;      /* of the loss at its beginning: what falls below it is no plateau */
static const double NEAR_PEAK = 0.5;   /* of the learning rate */
static const double RATIO = 0.03;      /* update norm / weight norm at its longest, */
static const double RATIO_MID = 0.015; /* and in the middle */
static const double ADAMW_LR = 0.02;   /* AdamW moves each weight by about the rate, and weights have 0.02 to 0.2 */
static const double HIGH = 0.4;        /* of the first loss */
enum { LEAST = 40, SHARE = 8, SMOOTH = 9, BEGIN = 10 };

/* The first index behind `first` where the stretch that begins there is over. */
static size_t end_of(const ls_series *s, size_t first, double loss) {
    size_t at = first;
    while (at < s->count && s->lr[at] >= NEAR_PEAK * s->peak_lr && ls_series_before(s, at, SMOOTH) >= STILL * loss)
        at++;
    return at;
}

/* The longest stretch. Starts that lie an eighth of a stretch apart are enough, and take time that grows with n alone.
 */
static void find_longest(const ls_series *s, ls_plateau *out) {
    for (size_t i = BEGIN; i < s->count;) {
        double loss = ls_series_before(s, i, SMOOTH);
        size_t end = end_of(s, i, loss), length = end - i;
        if (length > out->steps)
            *out = (ls_plateau){.first = s->step[i], .last = s->step[end - 1], .steps = length, .loss = loss};
        i += 1 + length / 8;
    }
}

/* Measurements in it, and of the ten steps before it, that made it. */
static ls_status measure_ratio(const ls_case *c, ls_plateau *p, double *median) {
    const ls_points *points = &c->points;
    double *ratio = calloc(points->count + 1, sizeof *ratio);
    size_t n = 0;
    if (!ratio) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu measurements", points->count);
    for (size_t i = 0; i < points->count; i++) {
        const ls_point *point = &points->point[i];
        if (point->step <= BEGIN || point->step < p->first - BEGIN || point->step > p->last) continue;
        if (!isfinite(point->ratio)) continue;
        if (!(p->ratio >= point->ratio)) p->ratio = point->ratio;
        ratio[n++] = point->ratio;
    }
    *median = ls_median(ratio, n);
    free(ratio);
    return LS_OK;
}

static bool is_adamw(const ls_run_log *run) {
    const char *optimizer = ls_run_log_option_get(run, "optimizer");
    return optimizer && strcmp(optimizer, "adamw") == 0;
}

ls_status ls_plateau_find(const ls_case *c, ls_plateau *out) {
    const ls_series *s = &c->series;
    size_t least = s->count / SHARE > LEAST ? s->count / SHARE : LEAST;
    ls_plateau p = {0};
    double median;
    *out = (ls_plateau){0};
    find_longest(s, &p);
    if (p.steps < least) return LS_OK;
    p.ratio = (double)NAN;
    LS_TRY(measure_ratio(c, &p, &median));
    bool is_long = p.ratio >= RATIO && median >= RATIO_MID;
    bool is_wild = isnan(p.ratio) && is_adamw(c->run) && s->peak_lr >= ADAMW_LR && p.loss >= HIGH * s->loss[0];
    if (is_long || is_wild) *out = p;
    return LS_OK;
}
