/* contribution.c: compares the contributions of workers, as "groups" of the judge of outliers (outlier.h). */
#include "run/guard/contribution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/choose.h"
#include "numerics/elementary.h"
#include "run/guard/watch.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

bool ls_contribution_is_watched(const ls_settings *s, const ls_layout *layout) {
    return s->options.on_outlier != LS_OUTLIER_OFF && ls_layout_workers(layout) > 1;
}

/* A quarter of what groups may cost: a fourth of the elements tells as much of a whole worker. */
enum { SPARING = 4 };

double ls_contribution_share(const ls_settings *s, const ls_layout *layout) {
    /* Squaring reads every element once, beside 6 FLOPs per element and token. With ZeRO 2 and 3 it is done for each
     * group, otherwise once for all groups of a replica; the replica with the fewest groups limits the share. */
    int groups = layout->share[0];
    for (int d = 1; d < layout->dp; d++)
        if (layout->share[d] < groups) groups = layout->share[d];
    if (layout->zero >= 2 && layout->dp > 1) groups = 1;
    double tokens = (double)groups * (double)s->B / s->groups * (double)s->T;
    double share = tokens / (SPARING * (double)ls_watch_least_tokens(s));
    return share < 1 ? share : 1;
}

/* Fails with LS_ERR_RESOURCE: out of memory. */
static ls_status fail_contribution_memory(void) {
    return ls_fail(LS_ERR_RESOURCE, "out of memory for the norms of workers");
}

ls_status ls_contribution_open(ls_contribution *c, const ls_settings *s, const ls_layout *layout) {
    *c = (ls_contribution){.layout = *layout};
    if (!ls_contribution_is_watched(s, layout)) return LS_OK;
    c->workers = ls_layout_workers(layout);
    c->share = ls_contribution_share(s, layout);
    c->peers = layout->dp > 1 ? layout->dp : c->workers;
    c->sets = c->workers / c->peers;
    size_t workers = (size_t)c->workers, peers = (size_t)c->peers;
    c->squares = calloc((2 + LS_CONTRIBUTION_LEVELS) * workers + peers, sizeof *c->squares);
    c->set_tokens = calloc(peers, sizeof *c->set_tokens);
    c->judges = calloc((size_t)c->sets, sizeof *c->judges);
    c->found = calloc(peers, sizeof *c->found);
    c->of = calloc(workers, sizeof *c->of);
    c->deviations = calloc(workers, sizeof *c->deviations);
    c->longest = calloc((size_t)c->sets, sizeof *c->longest);
    if (!c->squares || !c->set_tokens || !c->judges || !c->found || !c->of || !c->deviations || !c->longest)
        return fail_contribution_memory();
    c->now = c->squares + workers;
    c->levels = c->now + workers;
    c->set_squares = c->levels + LS_CONTRIBUTION_LEVELS * workers;
    for (int i = 0; i < c->sets; i++) LS_TRY(ls_outlier_create(peers, s->options.outlier_threshold, &c->judges[i]));
    return LS_OK;
}

void ls_contribution_close(ls_contribution *c) {
    for (int i = 0; c->judges && i < c->sets; i++) ls_outlier_destroy(c->judges[i]);
    free(c->judges);
    free(c->squares);
    free(c->set_tokens);
    free(c->found);
    free(c->of);
    free(c->deviations);
    free(c->longest);
    *c = (ls_contribution){0};
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

void ls_contribution_give(const ls_contribution *c, int rank, double squares, int64_t *words) {
    memset(words, 0, (size_t)c->workers * sizeof *words);
    if (!isfinite(squares)) squares = 0;
    memcpy(&words[rank], &squares, sizeof squares);
}

void ls_contribution_take(ls_contribution *c, const int64_t *words) {
    memcpy(c->squares, words, (size_t)c->workers * sizeof *c->squares);
}

/* Returns the rank of peer `i` in a set: the same place in replica i; with one replica, worker i. */
static int rank_of(const ls_contribution *c, int set, int i) {
    int tp = c->layout.tp;
    if (c->layout.dp == 1) return i;
    return ls_layout_rank(&c->layout, (ls_place_in_layout){.dp = i, .tp = set % tp, .pp = set / tp});
}

/* Returns the median logarithm of a worker's norm in its last steps; that of this step if there are none. */
static double level_of(const ls_contribution *c, int worker) {
    double sorted[LS_CONTRIBUTION_LEVELS];
    const double *levels = c->levels + (size_t)worker * LS_CONTRIBUTION_LEVELS;
    int count = 0;
    for (int i = 0; i < c->level_count; i++) {
        int at = count;
        if (isnan(levels[i])) continue;
        for (; at > 0 && sorted[at - 1] > levels[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = levels[i];
        count++;
    }
    return count > 0 ? 0.5 * (sorted[(count - 1) / 2] + sorted[count / 2]) : c->now[worker];
}

/* Returns the divisor of a norm before comparison: with one replica the worker's own usual norm, else 1. */
static double usual_of(const ls_contribution *c, int worker) {
    return c->layout.dp > 1 || isnan(c->now[worker]) ? 1 : ls_exp_f64(level_of(c, worker));
}

/* Returns the step of one set as the judge of outliers takes it; it borrows c->set_squares and c->set_tokens. */
static ls_outlier_step fill_set(const ls_contribution *c, int set, double scale) {
    for (int i = 0; i < c->peers; i++) {
        int rank = rank_of(c, set, i);
        double norm = sqrt(c->squares[rank]) * scale / usual_of(c, rank);
        c->set_squares[i] = norm * norm;
        c->set_tokens[i] = c->layout.dp > 1 ? c->layout.share[i] : 1;
    }
    return (ls_outlier_step){.squares = c->set_squares, .tokens = c->set_tokens, .scale = 1};
}

/* Returns the norm of a peer of the present set as it is compared: per √tokens and, with one replica, relative to its
 * own usual norm. */
static double length_of(const ls_contribution *c, size_t peer) {
    return sqrt(c->set_squares[peer] / (double)c->set_tokens[peer]);
}

/* Records a deviation of a peer, and returns whether it counts: it is at least the LS_CONTRIBUTION_TIMESth in 8 steps,
 * or its norm is larger than all earlier ones of the set that did not stand out. */
static bool is_confirmed(ls_contribution *c, int set, size_t peer) {
    int worker = rank_of(c, set, (int)peer);
    int times = 0;
    c->deviations[worker] |= 1;
    for (unsigned bits = c->deviations[worker]; bits; bits &= bits - 1) times++;
    return times >= LS_CONTRIBUTION_TIMES || length_of(c, peer) > c->longest[set];
}

/* Updates the longest norm of a set, without the `found` peers that stood out in this step. */
static void note_longest(ls_contribution *c, int set, size_t found) {
    for (size_t i = 0, next = 0; i < (size_t)c->peers; i++) {
        if (next < found && c->found[next].group == i)
            next++;
        else if (length_of(c, i) > c->longest[set])
            c->longest[set] = length_of(c, i);
    }
}

size_t ls_contribution_judge(ls_contribution *c, double scale) {
    size_t count = 0;
    for (int w = 0; w < c->workers; w++)
        c->now[w] = c->squares[w] > 0 ? 0.5 * ls_log_f64(c->squares[w]) + ls_log_f64(scale) : (double)NAN;
    for (int set = 0; set < c->sets; set++) {
        ls_outlier_step step = fill_set(c, set, scale);
        size_t found = ls_outlier_judge(c->judges[set], &step, c->found);
        for (size_t i = 0; i < found; i++) {
            if (!is_confirmed(c, set, c->found[i].group)) continue;
            ls_contribution_finding *f = &c->of[count++];
            f->worker = rank_of(c, set, (int)c->found[i].group);
            f->of = c->found[i];
            f->of.norm *= usual_of(c, f->worker);
            f->of.median *= usual_of(c, f->worker);
        }
        note_longest(c, set, found);
    }
    return count;
}

void ls_contribution_remember(ls_contribution *c) {
    for (int i = 0; i < c->sets; i++) ls_outlier_remember(c->judges[i]);
    bool is_full = c->level_count == LS_CONTRIBUTION_LEVELS;
    for (int w = 0; w < c->workers; w++) {
        double *levels = c->levels + (size_t)w * LS_CONTRIBUTION_LEVELS;
        c->deviations[w] = (uint8_t)(c->deviations[w] << 1);
        if (is_full) memmove(levels, levels + 1, (LS_CONTRIBUTION_LEVELS - 1) * sizeof *levels);
        levels[is_full ? LS_CONTRIBUTION_LEVELS - 1 : c->level_count] = c->now[w];
    }
    c->level_count += !is_full;
}
