/* explain.c: finds which sums of terms meet the measured times, and what they agree on.
 *
 * Misfit counts in units of the scatter: squares of relative errors over its square, each at most as three times the
 * scatter, so that one outlier does not decide. An explanation costs two for each term; those within four of the best
 * are as good as it. Where rows are too few to tell their scatter, it is assumed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/times/times.h"

static const double SCATTER_LEAST = .005, SCATTER_ASSUMED = .02, WITHIN = 4;

/* Added to the score for each term, so that among explanations that fit equally well the more common
 * reasons go first. */
static const double rarity[LS_TERMS] = {
    [LS_TERM_NODES] = .1, [LS_TERM_LATENCY] = .2, [LS_TERM_SERIAL] = .3, [LS_TERM_STRAGGLER] = .5, [LS_TERM_TP] = .05};

/* Estimates the relative scatter of the times, SCATTER_LEAST at least, from the best fit with at least two rows more
 * than terms. *assumed: there is no such fit, or there are fewer than 5 rows; the result is then SCATTER_ASSUMED. */
static double find_scatter(const ls_times_basis *basis, bool *assumed) {
    double least = 0, c[LS_FIT_TERMS_MAX];
    int rows = ls_fit_used(&basis->fit);
    for (unsigned s = 1; s <= basis->terms; s++) {
        if ((s & ~basis->terms) || !(s >> LS_TERM_COMPUTE & 1) || ls_fit_count(s) > rows - 2) continue;
        if (!ls_fit_solve_robust(&basis->fit, s, c)) continue;
        double scatter = ls_fit_scatter(&basis->fit, c, ls_fit_count(s));
        if (least == 0 || scatter < least) least = scatter;
    }
    *assumed = least == 0 || rows < 5;
    if (*assumed) return SCATTER_ASSUMED;
    return least > SCATTER_LEAST ? least : SCATTER_LEAST;
}

/* Writes the losses of a row as shares of its measured time. */
static void shares(const ls_times_basis *basis, const double *coefficient, int row, double *out) {
    ls_times_losses(basis, coefficient, row, out);
    for (int k = 0; k < LS_LOSSES; k++) out[k] /= basis->fit.y[row];
}

/* Fits the terms `s` and fills in one explanation; false if they cannot be fitted with positive coefficients. */
static bool explain(const ls_times *times, const ls_times_basis *basis, unsigned s, const ls_times_answer *answer,
                    ls_times_explanation *out) {
    const ls_fit *fit = &basis->fit;
    memset(out, 0, sizeof *out);
    if (!ls_fit_solve_robust(fit, s, out->coefficient)) return false;
    out->terms = s;
    out->error = sqrt(ls_fit_squares(fit, out->coefficient, 0) / ls_fit_used(fit));
    out->score = ls_fit_squares(fit, out->coefficient, 3 * answer->scatter) / (answer->scatter * answer->scatter);
    for (int t = 0; t < LS_TERMS; t++)
        if (s >> t & 1) out->score += 2 + rarity[t];
    shares(basis, out->coefficient, answer->largest, out->share);
    int chips = times->row[answer->largest].chips;
    out->twice = ls_times_elsewhere(times, basis, out->coefficient, answer->largest, 2 * chips);
    out->half = chips % 2 == 0 ? ls_times_elsewhere(times, basis, out->coefficient, answer->largest, chips / 2) : 0;
    return true;
}

/* Orders explanations by score, equal ones by their terms. */
static int by_score(const void *a, const void *b) {
    const ls_times_explanation *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    return x->terms < y->terms ? -1 : 1;
}

/* Returns the loss with the largest share of the time, without useful and unexplained time; LS_LOSS_SYNC if all shares
 * are 0. */
static ls_loss largest_loss(const double *share) {
    ls_loss worst = LS_LOSS_SYNC;
    for (int k = LS_LOSS_SYNC; k < LS_LOSS_UNEXPLAINED; k++)
        if (share[k] > share[worst]) worst = (ls_loss)k;
    return worst;
}

/* Estimates how far the shares of an explanation move if every time is off by the scatter: out[LS_LOSSES]. */
static void errors(const ls_times_basis *basis, const ls_times_explanation *best, double scatter, int row,
                   double *out) {
    double c[LS_FIT_TERMS_MAX], share[LS_LOSSES];
    ls_fit fit = basis->fit;
    for (int k = 0; k < LS_LOSSES; k++) out[k] = 0;
    fit.any_sign = best->terms;
    for (int r = 0; r < fit.rows; r++) {
        if (!(fit.weight[r] > 0)) continue;
        double measured = fit.y[r];
        fit.y[r] *= 1 + scatter;
        if (ls_fit_solve(&fit, best->terms, c)) {
            shares(basis, c, row, share);
            for (int k = 0; k < LS_LOSSES; k++) out[k] += (share[k] - best->share[k]) * (share[k] - best->share[k]);
        }
        fit.y[r] = measured;
    }
    for (int k = 0; k < LS_LOSSES; k++) out[k] = sqrt(out[k]);
}

/* Sets low, high, worst and decided: the range of each share over all explanations, and two standard errors of the
 * first. Without a layout in the rows a bubble may be as large as synchronisation or serial work. */
static void find_bands(const ls_times *times, const ls_times_basis *basis, const ls_times_explanation *all, int count,
                       ls_times_answer *out) {
    double error[LS_LOSSES];
    errors(basis, &all[0], out->scatter, out->largest, error);
    out->decided = true;
    for (int k = 0; k < LS_LOSSES; k++) {
        out->low[k] = all[0].share[k] - 2 * error[k];
        out->high[k] = all[0].share[k] + 2 * error[k];
        for (int i = 1; i < count; i++) {
            if (all[i].share[k] < out->low[k]) out->low[k] = all[i].share[k];
            if (all[i].share[k] > out->high[k]) out->high[k] = all[i].share[k];
        }
        if (k == LS_LOSS_UNEXPLAINED) continue;
        if (out->low[k] < 0) out->low[k] = 0;
        if (out->high[k] > 1) out->high[k] = 1;
    }
    /* Replicas that are added to a given batch leave fewer micro-batches: a bubble then is as constant as a ring. */
    double constant =
        out->high[LS_LOSS_SYNC] > out->high[LS_LOSS_SERIAL] ? out->high[LS_LOSS_SYNC] : out->high[LS_LOSS_SERIAL];
    if (!times->has_layout && !basis->predicted && constant > out->high[LS_LOSS_BUBBLE])
        out->high[LS_LOSS_BUBBLE] = constant;
    out->worst = largest_loss(all[0].share);
    for (int i = 1; i < count; i++) out->decided = out->decided && largest_loss(all[i].share) == out->worst;
}

/* Returns the fitted row with most chips; −1: no row is fitted. */
static int largest_row(const ls_times *times, const ls_fit *fit) {
    int best = -1;
    for (int i = 0; i < times->count; i++)
        if (fit->weight[i] > 0 && (best < 0 || times->row[i].chips > times->row[best].chips)) best = i;
    return best;
}

ls_status ls_times_explain(const ls_times *times, const ls_times_basis *basis, ls_times_answer *out) {
    memset(out, 0, sizeof *out);
    out->largest = largest_row(times, &basis->fit);
    if (ls_fit_used(&basis->fit) < 2) return ls_fail(LS_ERR_INPUT, "at least two rows are needed");
    out->scatter = find_scatter(basis, &out->scatter_assumed);
    ls_times_explanation *all = malloc((basis->terms + 1) * sizeof *all);
    if (!all) return ls_fail(LS_ERR_RESOURCE, "out of memory for explanations");
    int count = 0, good = 0;
    for (unsigned s = 1; s <= basis->terms; s++)
        if (!(s & ~basis->terms) && (s >> LS_TERM_COMPUTE & 1) && ls_fit_count(s) <= ls_fit_used(&basis->fit))
            count += explain(times, basis, s, out, &all[count]);
    if (count == 0) {
        free(all);
        return ls_fail(LS_ERR_INPUT, "these times do not fit any known combination of compute and overheads: are they "
                                     "of the same work at different sizes?");
    }
    qsort(all, (size_t)count, sizeof *all, by_score);
    while (good < count && all[good].score <= all[0].score + WITHIN) good++;
    out->misfit = all[0].error / out->scatter;
    find_bands(times, basis, all, good, out);
    out->count = good < LS_EXPLANATIONS_MAX ? good : LS_EXPLANATIONS_MAX;
    memcpy(out->explanation, all, (size_t)out->count * sizeof *all);
    free(all);
    return LS_OK;
}
