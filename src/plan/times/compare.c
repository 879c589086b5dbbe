/* compare.c: times before and after a change: which single term of the step's time moved.
 *
 * One fit for both, in which one term has another coefficient after the change; for each term in turn, and for none.
 * The term that leaves the least misfit moved; where two leave about the same, the rows cannot tell. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/times/times.h"

/* Assumed relative scatter of times; scores closer than WITHIN cannot be told apart. */
static const double SCATTER = .01, WITHIN = 4;
enum { NONE = -1, MOVED = LS_TERMS /* column of the moved term */ };

_Static_assert((int)MOVED < (int)LS_FIT_TERMS_MAX, "a column for the term that moved");

/* Returns the value of a term for a row. The bubble of the layout, part of computing elsewhere, is a term of its own
 * here so that it can change alone. */
static double column(const ls_times_basis *basis, int row, int term) {
    if (term != LS_TERM_BUBBLE || basis->fit.x[row][term] > 0) return basis->fit.x[row][term];
    return basis->fit.x[row][LS_TERM_COMPUTE] * basis->bubble[row] / (1 + basis->bubble[row] + basis->imbalance[row]);
}

/* Returns whether the rows can show a change of this term. */
static bool can_move(const ls_times_basis *basis, int term) {
    for (int r = 0; r < basis->fit.rows; r++)
        if (column(basis, r, term) > 0) return basis->terms >> term & 1 || term == LS_TERM_BUBBLE;
    return false;
}

/* Returns Akaike's score, lower is better; an error counts as five times the scatter at most. */
static double score_of(const ls_fit *fit, const double *c, unsigned terms) {
    return ls_fit_squares(fit, c, 5 * SCATTER) / (SCATTER * SCATTER) + 2 * ls_fit_count(terms);
}

/* Fits every subset of terms with this one (NONE: no term) changed between the labels, and writes the best; false if
 * none fits. `row`: the one whose change of time is reported. */
static bool try_term(const ls_times *times, const ls_times_basis *basis, int term, ls_fit *fit, int row,
                     ls_times_move *out) {
    bool any = false;
    for (int r = 0; r < fit->rows; r++)
        fit->x[r][MOVED] = term == NONE || times->row[r].label == 0 ? 0 : column(basis, r, term);
    for (unsigned s = 1; s <= basis->terms; s++) {
        unsigned with = term == NONE ? s : s | 1u << MOVED;
        double c[LS_FIT_TERMS_MAX];
        if ((s & ~basis->terms) || !(s >> LS_TERM_COMPUTE & 1) || ls_fit_count(with) > fit->rows) continue;
        if (!ls_fit_solve(fit, with, c)) continue;
        /* A bubble that the layout makes is carried by computing, and cannot fall below nothing either. */
        double had = term == NONE ? 0 : term == LS_TERM_BUBBLE && c[term] == 0 ? c[LS_TERM_COMPUTE] : c[term];
        if (term != NONE && had + c[MOVED] < 0) continue;
        double score = score_of(fit, c, with);
        if (any && score >= out->score) continue;
        any = true;
        *out = (ls_times_move){.term = term, .score = score, .before = had, .after = had + c[MOVED]};
        out->error = sqrt(ls_fit_squares(fit, c, 0) / fit->rows);
        out->change = c[MOVED] * (term == NONE ? 0 : fit->x[row][MOVED]);
    }
    return any;
}

/* Orders moves by score, equal ones by their terms, for qsort(). */
static int by_score(const void *a, const void *b) {
    const ls_times_move *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    return x->term - y->term;
}

/* Returns whether two rows are the same job, so that their times may be divided. */
static bool is_same_layout(const ls_times_row *a, const ls_times_row *b) {
    return a->chips == b->chips && a->dp == b->dp && a->tp == b->tp && a->pp == b->pp && a->micro == b->micro &&
           a->batch == b->batch;
}

/* Returns the mean of time after / time before over all pairs of equal layouts; 0: there are none. */
static double mean_ratio(const ls_times *times) {
    double sum = 0;
    int pairs = 0;
    for (int i = 0; i < times->count; i++)
        for (int k = 0; k < times->count; k++)
            if (times->row[i].label == 0 && times->row[k].label == 1 &&
                is_same_layout(&times->row[i], &times->row[k])) {
                sum += times->row[k].time / times->row[i].time;
                pairs++;
            }
    return pairs ? sum / pairs : 0;
}

ls_status ls_times_compare(const ls_times *times, const ls_times_basis *basis, ls_times_comparison *out) {
    memset(out, 0, sizeof *out);
    if (times->labels != 2) return ls_fail(LS_ERR_INPUT, "a comparison needs two labels, before and after");
    for (int i = 0, found = 0; i < times->count; i++)
        if (times->row[i].label == 1 && (!found || times->row[i].chips > times->row[out->largest].chips))
            out->largest = i, found = 1;
    ls_fit fit = basis->fit;
    fit.terms = MOVED + 1;
    fit.any_sign = 1u << MOVED;
    for (int t = NONE; t < LS_TERMS; t++)
        if (t == NONE || can_move(basis, t))
            out->count += try_term(times, basis, t, &fit, out->largest, &out->move[out->count]);
    if (out->count == 0) return ls_fail(LS_ERR_INPUT, "too few times to compare: each label needs at least two sizes");
    qsort(out->move, (size_t)out->count, sizeof out->move[0], by_score);
    out->slowdown = mean_ratio(times);
    out->changed = out->move[0].term != NONE;
    out->decided = out->count == 1 || out->move[1].score > out->move[0].score + WITHIN;
    return LS_OK;
}
