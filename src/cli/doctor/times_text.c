/* times_text.c: prints the explanation of measured times: verdict, table, possible explanations, and what to change. */
#include <stdio.h>
#include <string.h>

#include "cli/doctor/times.h"

static const double NOTHING = .05; /* a loss below this share of the time needs no change */

/* Returns the row with the most chips, for which the answer holds. */
static const ls_times_row *largest(const ls_times_case *c) { return &c->times.row[c->answer.largest]; }

/* Returns the share of the time that is lost in known ways: all but compute and what is unexplained. */
static double loss_of(const double *share) {
    double sum = 0;
    for (int k = LS_LOSS_SYNC; k < LS_LOSS_UNEXPLAINED; k++) sum += share[k];
    return sum;
}

/* Returns x, or 0 if it would print as −0.0 or 0.0. */
static double clean(double x) { return x > -.05 && x < .05 ? 0 : x; }

/* Returns whether the best explanation contains the term. */
static bool has_term(const ls_times_case *c, ls_times_term term) { return c->answer.explanation[0].terms >> term & 1; }

/* ---- advice ------------------------------------------------------------------------------------------------------ */

/* Returns the synchronisation term that takes most of the time of the largest row. */
static ls_times_term worst_sync(const ls_times_case *c) {
    const ls_times_explanation *best = &c->answer.explanation[0];
    ls_times_term worst = LS_TERM_RING;
    double most = -1;
    for (int t = 0; t < LS_TERMS; t++) {
        double part = best->coefficient[t] * c->basis.fit.x[c->answer.largest][t];
        if (ls_times_term_loss((ls_times_term)t) == LS_LOSS_SYNC && part > most) most = part, worst = (ls_times_term)t;
    }
    return worst;
}

/* Writes the advice against synchronisation, by the kind of synchronisation that takes most; share: that it takes of
 * the time. */
static void sync_advice(const ls_times_case *c, double share, char *text, size_t capacity) {
    double gain = 50 * share;
    ls_times_term term = worst_sync(c);
    if (term == LS_TERM_PREDICTED && c->answer.explanation[0].coefficient[term] < 1.1) term = LS_TERM_RING;
    switch (term) {
    case LS_TERM_NODES:
        snprintf(
            text, capacity,
            "the link between nodes: doubling its bandwidth, halving the bytes of gradients, or doubling the global "
            "batch saves about %.0f %% of the time for the same work; keep tensor parallelism inside a node",
            gain);
        break;
    case LS_TERM_LATENCY:
        snprintf(text, capacity,
                 "the number of replicas: half as many (with tensor or pipeline parallelism inside a node instead), "
                 "fewer and larger buckets, or a tree instead of a ring all-reduce saves about %.0f %% of the time",
                 gain);
        break;
    case LS_TERM_TP:
        snprintf(text, capacity,
                 "tensor parallelism: half the degree, or links twice as fast, saves up to %.0f %% of the time; keep "
                 "each tensor-parallel group inside a node",
                 gain);
        break;
    case LS_TERM_PREDICTED:
        snprintf(text, capacity,
                 "synchronisation takes %.2f times as long as the planner predicts for these links: look for "
                 "reductions that do not overlap with compute, a slow network adapter or a busy network; the predicted "
                 "time would save %.0f %%",
                 c->answer.explanation[0].coefficient[LS_TERM_PREDICTED],
                 100 * share * (1 - 1 / c->answer.explanation[0].coefficient[LS_TERM_PREDICTED]));
        break;
    default:
        snprintf(text, capacity,
                 "the frequency of gradient reductions: doubling the global batch (accumulated in micro-batches) saves "
                 "about %.0f %% of the time for the same work; so does halving the bytes of gradients, or overlapping "
                 "the reduction with the backward pass",
                 gain);
    }
}

/* Writes the advice against a pipeline bubble that takes `share` of the time. */
static void bubble_advice(const ls_times_row *row, double share, char *text, size_t capacity) {
    if (row->micro > 1)
        snprintf(
            text, capacity,
            "the number of micro-batches: micro_batch %zu instead of %zu, or two virtual stages, halves the bubble "
            "and saves about %.0f %% of the time",
            row->micro / 2, row->micro, 50 * share);
    else
        snprintf(
            text, capacity,
            "the pipeline: two virtual stages (--schedule interleaved) or twice the global batch halves the bubble "
            "and saves about %.0f %% of the time for the same work",
            50 * share);
}

void ls_doctor_times_advice(const ls_times_case *c, char *text, size_t capacity) {
    const ls_times_explanation *best = &c->answer.explanation[0];
    double share = best->share[c->answer.worst];
    if (loss_of(best->share) < NOTHING) {
        snprintf(text, capacity, "nothing about scaling: %.0f %% of the time is compute; speed up the compute",
                 100 * best->share[LS_LOSS_NONE]);
        return;
    }
    switch (c->answer.worst) {
    case LS_LOSS_SYNC: sync_advice(c, share, text, capacity); break;
    case LS_LOSS_BUBBLE: bubble_advice(largest(c), share, text, capacity); break;
    case LS_LOSS_IMBALANCE:
        if (has_term(c, LS_TERM_STRAGGLER))
            snprintf(text, capacity,
                     "the slowest worker, which the others wait for: record a trace (lockstep train --trace run) and "
                     "run lockstep doctor RUN to find it; saves up to %.0f %% of the time",
                     100 * share);
        else
            snprintf(text, capacity,
                     "the global batch: with a multiple of dp × micro_batch all workers have the same load; saves %.0f "
                     "%% of the time",
                     100 * share);
        break;
    default:
        snprintf(text, capacity,
                 "work that does not scale (input, logging, checkpoints, host code, an optimizer that is not sharded): "
                 "record a trace and look between the steps; saves up to %.0f %% of the time",
                 100 * share);
    }
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* Prints the file, its metric and, if predictions were made, their model. */
static void print_head(const char *path, const ls_times_case *c) {
    const ls_times *t = &c->times;
    int rows = t->count;
    for (int i = 0; i < t->count; i++) rows -= t->row[i].implied;
    printf("%s: %d rows of %s", path, rows, t->column);
    if (!t->has_batch) printf(", assuming the same work at every size");
    if (c->model[0]) printf("; %s", c->model);
    printf("\n\n");
}

/* Returns the work of a row's step relative to that of the first row; 1 without batch sizes. */
static double work_ratio(const ls_times *t, const ls_times_row *row) {
    return t->has_batch ? (double)row->batch / (double)t->row[0].batch : 1;
}

/* Returns whether a term that these rows allow could have shown the loss. */
static bool is_tested(const ls_times_case *c, ls_loss loss) {
    const ls_times_basis *b = &c->basis;
    if (c->answer.explanation[0].share[loss] != 0 || c->answer.high[loss] > 0) return true;
    for (int t = 0; t < LS_TERMS; t++)
        if (b->terms >> t & 1 && ls_times_term_loss((ls_times_term)t) == loss) return true;
    for (int i = 0; i < c->times.count; i++)
        if ((loss == LS_LOSS_BUBBLE && b->bubble[i] > 0) || (loss == LS_LOSS_IMBALANCE && b->imbalance[i] > 0))
            return true;
    return false;
}

/* Returns what the table would need to test a loss. */
static const char *not_tested_why(ls_loss loss) {
    return loss == LS_LOSS_BUBBLE      ? "needs rows with pp above 1"
           : loss == LS_LOSS_IMBALANCE ? "needs 5 rows without --model, or a layout that divides unevenly"
                                       : "needs rows of other sizes";
}

/* If the best explanation attributes nothing to this loss, and an equally good one attributes much, the share is
 * unknown, and not 0. Without a layout a pipeline bubble cannot be told from other losses. */
ls_times_standing ls_doctor_times_standing(const ls_times_case *c, ls_loss loss) {
    const ls_times_answer *a = &c->answer;
    bool no_layout = loss == LS_LOSS_BUBBLE && !c->times.has_layout && !c->basis.predicted;
    if (loss == LS_LOSS_UNEXPLAINED) return LS_TIMES_KNOWN;
    if (!is_tested(c, loss)) return LS_TIMES_NOT_TESTED;
    if (no_layout && a->high[loss] > 0) return LS_TIMES_NO_LAYOUT;
    return a->explanation[0].share[loss] <= 0 && a->high[loss] > NOTHING ? LS_TIMES_ALIKE : LS_TIMES_KNOWN;
}

/* Returns whether row a is printed before row b: by label, then number of chips, then position in the file. */
static bool comes_before(const ls_times *t, int a, int b) {
    const ls_times_row *x = &t->row[a], *y = &t->row[b];
    if (t->labels == 2 && x->label != y->label) return x->label < y->label;
    return x->chips != y->chips ? x->chips < y->chips : a < b;
}

/* Returns the row that is printed after row `after`; the first one for −1. Returns −1 if there is none. */
static int next_row(const ls_times *t, int after) {
    int next = -1;
    for (int i = 0; i < t->count; i++)
        if ((after < 0 || comes_before(t, after, i)) && (next < 0 || comes_before(t, i, next))) next = i;
    return next;
}

/* Prints the rows with speed-up, efficiency, and the share of each loss where it is known. */
static void print_table(const ls_times_case *c) {
    const ls_times *t = &c->times;
    const ls_times_row *base = &t->row[0];
    for (int i = 1; i < t->count; i++)
        if (t->row[i].chips < base->chips) base = &t->row[i];
    printf("  %6s %12s %10s %10s", "gpus", t->column, "speed-up", "efficiency");
    for (int k = 0; k < LS_LOSSES; k++) printf(" %*s", k == LS_LOSS_SYNC ? 15 : 11, ls_loss_name((ls_loss)k));
    printf("%s\n", t->labels == 2 ? "  label" : "");
    for (int i = next_row(t, -1); i >= 0; i = next_row(t, i)) {
        const ls_times_row *row = &t->row[i];
        double part[LS_LOSSES];
        double speed = base->time / work_ratio(t, base) / (row->time / work_ratio(t, row));
        printf("  %6d %12.6g %10.2f %8.0f %%", row->chips, row->measured, speed,
               100 * speed * base->chips / row->chips);
        ls_times_losses(&c->basis, c->answer.explanation[0].coefficient, i, part);
        for (int k = 0; k < LS_LOSSES; k++) {
            if (c->basis.fit.weight[i] > 0 && ls_doctor_times_standing(c, (ls_loss)k) == LS_TIMES_KNOWN)
                printf(" %*.1f %%", k == LS_LOSS_SYNC ? 13 : 9, clean(100 * part[k] / row->time));
            else
                printf(" %*s", k == LS_LOSS_SYNC ? 15 : 11, "-");
        }
        printf("%s%s%s\n", t->labels == 2 ? "  " : "", t->labels == 2 ? t->label[row->label] : "",
               row->implied ? "  (the reference)" : "");
    }
}

/* Prints how much of the largest row's time is lost, and to what. */
static void print_verdict(const ls_times_case *c) {
    const ls_times_answer *a = &c->answer;
    const double *share = a->explanation[0].share;
    double loss = loss_of(share);
    if (loss < NOTHING && a->low[LS_LOSS_NONE] > 1 - 2 * NOTHING) {
        printf("verdict: scales well: at %d GPUs %.0f %% of the time is compute\n", largest(c)->chips,
               100 * share[LS_LOSS_NONE]);
    } else if (a->decided) {
        printf("verdict: at %d GPUs %.0f %% of the time is lost, most of it to %s: %.0f %% of the time (%.0f to %.0f "
               "%%)\n",
               largest(c)->chips, 100 * loss,
               a->worst == LS_LOSS_SERIAL ? "work that is not divided" : ls_loss_name(a->worst), 100 * share[a->worst],
               100 * a->low[a->worst], 100 * a->high[a->worst]);
    } else {
        printf("verdict: at %d GPUs %.0f to %.0f %% of the time is lost; these times have more than one explanation, "
               "the likeliest is %s\n",
               largest(c)->chips, 100 - 100 * a->high[LS_LOSS_NONE], 100 - 100 * a->low[LS_LOSS_NONE],
               a->worst == LS_LOSS_SERIAL ? "work that is not divided" : ls_loss_name(a->worst));
    }
    if (a->misfit > 3)
        printf("  the model does not fit these times well (%.1f %% error): some of the time is unexplained\n",
               100 * a->explanation[0].error);
}

/* Prints each loss's share of the largest row's time with its range, or why it is not known. */
static void print_shares(const ls_times_case *c) {
    const ls_times_answer *a = &c->answer;
    printf("\nbreakdown of the time at %d GPUs\n  %-18s %8s   %s\n", largest(c)->chips, "", "best", "range");
    for (int k = 0; k < LS_LOSSES; k++) {
        if (k == LS_LOSS_UNEXPLAINED) {
            printf("  %-18s %6.1f %%   ± %.1f %% of the time is noise%s\n", ls_loss_name((ls_loss)k),
                   clean(100 * a->explanation[0].share[k]), 100 * a->scatter, a->scatter_assumed ? ", as assumed" : "");
            continue;
        }
        ls_times_standing standing = ls_doctor_times_standing(c, (ls_loss)k);
        if (standing == LS_TIMES_NOT_TESTED)
            printf("  %-18s %8s   not tested: %s\n", ls_loss_name((ls_loss)k), "-", not_tested_why((ls_loss)k));
        else if (standing == LS_TIMES_KNOWN)
            printf("  %-18s %6.1f %%   %.0f to %.0f %%\n", ls_loss_name((ls_loss)k), 100 * a->explanation[0].share[k],
                   100 * a->low[k], 100 * a->high[k]);
        else
            printf("  %-18s %8s   %.0f to %.0f %%, instead of the others: %s\n", ls_loss_name((ls_loss)k), "-",
                   100 * a->low[k], 100 * a->high[k],
                   standing == LS_TIMES_NO_LAYOUT ? "the layout is unknown" : "these rows cannot tell them apart");
    }
}

/* Prints how much faster another number of chips would be; nothing if `time` is not positive. */
static void print_elsewhere(const ls_times_case *c, double time, int chips) {
    const ls_times_row *row = largest(c);
    if (!(time > 0)) return;
    printf("; at %d GPUs %.2f times as fast as at %d", chips, row->time / time, row->chips);
}

/* Prints the six best explanations, each with the shares of its terms. */
static void print_explanations(const ls_times_case *c) {
    int shown = c->answer.count < 6 ? c->answer.count : 6;
    printf("\npossible explanations%s\n", c->answer.count > shown ? " (the six best)" : "");
    for (int i = 0; i < shown; i++) {
        const ls_times_explanation *e = &c->answer.explanation[i];
        const char *between = "";
        printf("  - ");
        for (int t = 0; t < LS_TERMS; t++) {
            if (!(e->terms >> t & 1)) continue;
            double part = e->coefficient[t] * c->basis.fit.x[c->answer.largest][t] / largest(c)->time;
            printf("%s%s %.0f %%", between, ls_times_term_name((ls_times_term)t), 100 * part);
            between = " + ";
        }
        print_elsewhere(c, e->twice, 2 * largest(c)->chips);
        printf("\n");
    }
}

/* Prints what the times do not determine, and which measurement would. A bubble looks the same as a ring all-reduce,
 * for example, when replicas are added to a fixed batch. */
static void print_unknown(const ls_times_case *c) {
    const ls_times_answer *a = &c->answer;
    const double *share = a->explanation[0].share;
    double constant = share[LS_LOSS_SYNC] + share[LS_LOSS_SERIAL], low = 0, high = 0;
    printf("\nunknown\n");
    if (!c->times.has_layout && constant > NOTHING && share[LS_LOSS_NONE] > 0)
        printf("  - the layout: a pipeline bubble would look the same; (pp − 1) / micro-batches would be %.2f at %d "
               "GPUs. Add columns dp, tp, pp, micro_batch and global_batch to tell them apart\n",
               constant / share[LS_LOSS_NONE], largest(c)->chips);
    if (!c->times.has_batch)
        printf("  - the batch: if the batch per GPU was constant, add column global_batch; the rows are then not the "
               "same work\n");
    if (c->node_assumed) printf("  - the nodes: 8 GPUs per node are assumed; set --gpus-per-node\n");
    for (int i = 0; i < a->count; i++) {
        double time = a->explanation[i].twice;
        if (i == 0 || time < low) low = time;
        if (i == 0 || time > high) high = time;
    }
    if (!a->decided && low > 0 && high > 1.05 * low)
        printf("  - which explanation is right: a measurement at %d GPUs would tell; they predict %.2f to %.2f times "
               "the speed of %d\n",
               2 * largest(c)->chips, largest(c)->time / high, largest(c)->time / low, largest(c)->chips);
}

/* Prints the size of a deviation, such as "takes 1.40 times as long" or "has 0.50 of the bandwidth". */
static void print_factor(const ls_times_deviation *d) {
    switch (d->thing) {
    case LS_THING_LINK: printf(" has %.2f of the bandwidth", d->factor); break;
    case LS_THING_STRAGGLER: printf(": each doubling of the GPUs adds %.1f %% to computing", 100 * d->factor); break;
    case LS_THING_SERIAL: printf(": %.4g s of every step", d->factor); break;
    default: printf(" takes %.2f times as long", d->factor);
    }
}

/* Prints how the times differ from their prediction, and which single deviation would explain it; nothing without
 * predictions. */
static void print_predicted(const ls_times_case *c) {
    const ls_times_deviations *all = &c->deviations;
    const ls_times_deviation *first = &all->thing[0];
    if (!c->model[0]) return;
    printf("\ncompared with the prediction\n");
    if (first->thing == LS_THING_NONE) {
        printf("  - the times are as predicted, within %.1f %%; no single change explains the rest\n",
               100 * first->error);
    } else {
        printf("  - %s: %s", all->decided ? "one thing explains it" : "one thing that would explain it, likeliest",
               ls_times_thing_name(first->thing));
        print_factor(first);
        printf(", %+.0f %% of the time at %d GPUs\n    then the times are matched within %.1f %%; as predicted: ",
               100 * first->share, c->times.row[all->largest].chips, 100 * first->error);
        for (int i = 0; i < LS_THINGS; i++)
            if (all->thing[i].thing == LS_THING_NONE) printf("%.1f %%\n", 100 * all->thing[i].error);
    }
    for (int i = 1; i < LS_THINGS; i++) {
        const ls_times_deviation *d = &all->thing[i];
        if (d->thing == LS_THING_NONE) continue;
        if (d->tested)
            printf("  - were it %s: %.1f %%\n", ls_times_thing_name(d->thing), 100 * d->error);
        else
            printf("  - not tested: %s, which %s\n", ls_times_thing_name(d->thing), d->why_not);
    }
    if (c->without_error > 0)
        printf("  - the shares above are without the model: they match the times within %.1f %%, with it %.1f %%\n",
               100 * c->without_error, 100 * c->with_error);
}

/* Returns the name of what changed; a negative term means that only the layout did. */
static const char *move_name(int term) {
    return term < 0 ? "only the layout" : ls_times_term_name((ls_times_term)term);
}

/* Prints what changed between the two labels; nothing without two. */
static void print_comparison(const ls_times_case *c) {
    const ls_times_comparison *m = &c->comparison;
    const ls_times_move *first = &m->move[0];
    if (c->times.labels != 2) return;
    printf("from %s to %s", c->times.label[0], c->times.label[1]);
    if (m->slowdown > 0) printf(": %.2f times as long, mean of equal rows", m->slowdown);
    printf("\n  %s: %s", m->decided ? "what changed" : "what changed, as far as these times show",
           move_name(first->term));
    if (first->term >= 0) {
        printf(", by %+.4g %s of %.4g at %d GPUs", first->change, c->times.unit, c->times.row[m->largest].time,
               c->times.row[m->largest].chips);
        if (first->before > 0) printf(" (%.2f times its previous value)", first->after / first->before);
    }
    printf("\n  if only that changed, the times are matched within %.1f %%", 100 * first->error);
    for (int i = 1; i < m->count && i < 4; i++)
        printf("%s %s: %.1f %%", i == 1 ? "; if it were" : ",", move_name(m->move[i].term), 100 * m->move[i].error);
    printf("\n\n");
}

void ls_doctor_times_print(const char *path, const ls_times_case *c) {
    char advice[512];
    print_head(path, c);
    print_comparison(c);
    print_verdict(c);
    printf("\n");
    print_table(c);
    print_shares(c);
    print_explanations(c);
    print_predicted(c);
    ls_doctor_times_advice(c, advice, sizeof advice);
    printf("\nwhat to change\n  %s\n", advice);
    if (!c->basis.predicted) print_unknown(c);
}
