/* terms.c: how each part of a step's time changes with the number of chips.
 *
 * n chips, w the work of a step against that of the first row, node chips in a node, D = dp (n where no layout is
 * given)
 *
 *   compute    w/n · (1 + bubble + uneven)   bubble (pp − 1)/m and uneven shares as the layout makes them
 *   ring       (D − 1)/D / (tp·pp)           an all-reduce sends twice that of the gradients through every chip
 *   nodes      (nodes − 1)/nodes / (tp·pp)   the same between nodes
 *   latency    (D − 1) / node                hops of a ring, starts of collectives
 *   tp         (tp − 1)/tp · w/(dp·pp)       activations
 *   serial     1                             input, host, logging: what all chips wait for
 *   bubble     (pp − 1)·dp/n                 where m is not given: m is the batch over dp
 *   straggler  w/n · log2(n)                 the slowest of n */
#include <string.h>

#include "plan/times/times.h"

static const struct {
    const char *name;
    ls_loss loss;
} terms[LS_TERMS] = {
    [LS_TERM_COMPUTE] = {"computing", LS_LOSS_NONE},
    [LS_TERM_RING] = {"synchronisation, the same bytes at any size", LS_LOSS_SYNC},
    [LS_TERM_NODES] = {"synchronisation between nodes", LS_LOSS_SYNC},
    [LS_TERM_LATENCY] = {"synchronisation that grows with the number of chips", LS_LOSS_SYNC},
    [LS_TERM_TP] = {"tensor-parallel exchange", LS_LOSS_SYNC},
    [LS_TERM_SERIAL] = {"work that is not divided", LS_LOSS_SERIAL},
    [LS_TERM_BUBBLE] = {"pipeline bubble", LS_LOSS_BUBBLE},
    [LS_TERM_STRAGGLER] = {"waiting for the slowest", LS_LOSS_IMBALANCE},
    [LS_TERM_PREDICTED] = {"synchronisation as predicted", LS_LOSS_SYNC},
};

static const char *const loss_names[LS_LOSSES] = {"computing", "synchronisation", "bubble",
                                                  "imbalance", "not divided",     "unexplained"};

const char *ls_times_term_name(ls_times_term term) { return terms[term].name; }
const char *ls_loss_name(ls_loss loss) { return loss_names[loss]; }
ls_loss ls_times_term_loss(ls_times_term term) { return terms[term].loss; }

/* Returns log2(n), interpolated linearly between powers of two. */
static double log_2(double n) {
    double whole = 0;
    for (; n >= 2; n /= 2) whole++;
    return whole + n - 1;
}

/* Returns the micro-batches of a replica; 0 if the row lacks what they follow from. */
static int micros_of(const ls_times_row *row) {
    if (!row->dp || !row->micro || !row->batch) return 0;
    size_t whole = (size_t)row->dp * row->micro;
    return (int)((row->batch + whole - 1) / whole);
}

/* Computes bubble and imbalance of the row's layout as multiples of its useful computing. */
static void add_of_layout(const ls_times_row *row, double *bubble, double *imbalance) {
    int m = micros_of(row);
    *bubble = *imbalance = 0;
    if (m == 0) return;
    *imbalance = (double)m * (double)row->dp * (double)row->micro / (double)row->batch - 1;
    *bubble = (1 + *imbalance) * (row->pp - 1) / m;
}

/* Writes x[LS_TERMS] by the formulas at the top; `work` is relative to the first row, `node` is in chips. */
static void fill_terms(const ls_times_row *row, double work, int node, double bubble, double imbalance, double *x) {
    double n = row->chips, D = row->dp ? row->dp : n, split = row->dp ? (double)row->tp * row->pp : 1;
    double nodes = (double)((row->chips + node - 1) / node);
    x[LS_TERM_COMPUTE] = work / n * (1 + bubble + imbalance);
    x[LS_TERM_RING] = (D - 1) / D / split;
    x[LS_TERM_NODES] = (nodes - 1) / nodes / split;
    x[LS_TERM_LATENCY] = (D - 1) / node;
    x[LS_TERM_TP] = row->dp ? (double)(row->tp - 1) / row->tp * work / ((double)row->dp * row->pp) : 0;
    x[LS_TERM_SERIAL] = 1;
    x[LS_TERM_BUBBLE] = row->dp && micros_of(row) == 0 ? (row->pp - 1) * (double)row->dp / n : 0;
    x[LS_TERM_STRAGGLER] = work / n * log_2(n);
    x[LS_TERM_PREDICTED] = 0;
}

/* Returns the row's work relative to that of the first row: their global batches. */
static double relative_work(const ls_times *times, const ls_times_row *row) {
    return times->has_batch ? (double)row->batch / (double)times->row[0].batch : 1;
}

/* Clears the basis and sets its measured times; every row counts. */
static void begin_basis(const ls_times *times, ls_times_basis *out) {
    memset(out, 0, sizeof *out);
    out->fit.rows = times->count;
    out->fit.terms = LS_TERMS;
    for (int i = 0; i < times->count; i++) {
        out->fit.y[i] = times->row[i].time;
        out->fit.weight[i] = 1;
    }
}

/* Returns the bits of the terms that some row has, and that the rows can tell from the others. */
static unsigned terms_of(const ls_times *times, const ls_times_basis *basis) {
    unsigned out = 1u << LS_TERM_COMPUTE | 1u << LS_TERM_RING | 1u << LS_TERM_LATENCY | 1u << LS_TERM_SERIAL;
    bool in_one = false, in_more = false, tp = false, bubble = false;
    for (int i = 0; i < times->count; i++) {
        (times->row[i].chips <= basis->node ? &in_one : &in_more)[0] = true;
        tp = tp || basis->fit.x[i][LS_TERM_TP] > 0;
        bubble = bubble || basis->fit.x[i][LS_TERM_BUBBLE] > 0;
    }
    if (in_one && in_more) out |= 1u << LS_TERM_NODES;
    if (tp) out |= 1u << LS_TERM_TP;
    if (bubble) out |= 1u << LS_TERM_BUBBLE;
    if (times->count >= (times->labels == 2 ? 10 : 5)) out |= 1u << LS_TERM_STRAGGLER;
    return out;
}

void ls_times_basis_make(const ls_times *times, int node, ls_times_basis *out) {
    begin_basis(times, out);
    out->node = node > 0 ? node : 8;
    for (int i = 0; i < times->count; i++) {
        const ls_times_row *row = &times->row[i];
        add_of_layout(row, &out->bubble[i], &out->imbalance[i]);
        fill_terms(row, relative_work(times, row), out->node, out->bubble[i], out->imbalance[i], out->fit.x[i]);
    }
    out->terms = terms_of(times, out);
}

double ls_times_elsewhere(const ls_times *times, const ls_times_basis *basis, const double *coefficient, int like,
                          int chips) {
    ls_times_row row = times->row[like];
    double x[LS_FIT_TERMS_MAX] = {0}, sum = 0, bubble, imbalance;
    if (basis->predicted || (row.dp > 0 && chips % (row.tp * row.pp) != 0)) return 0;
    row.chips = chips;
    if (row.dp > 0) row.dp = chips / (row.tp * row.pp);
    if (row.batch && row.micro && row.dp && row.batch < row.micro * (size_t)row.dp) return 0;
    add_of_layout(&row, &bubble, &imbalance);
    fill_terms(&row, relative_work(times, &row), basis->node, bubble, imbalance, x);
    for (int t = 0; t < LS_TERMS; t++) sum += coefficient[t] * x[t];
    return sum;
}

void ls_times_losses(const ls_times_basis *basis, const double *coefficient, int row, double *out) {
    const ls_fit *fit = &basis->fit;
    for (int k = 0; k < LS_LOSSES; k++) out[k] = 0;
    for (int t = 0; t < LS_TERMS; t++) out[terms[t].loss] += coefficient[t] * fit->x[row][t];
    double part = out[LS_LOSS_NONE] / (1 + basis->bubble[row] + basis->imbalance[row]);
    out[LS_LOSS_NONE] = part;
    out[LS_LOSS_BUBBLE] += part * basis->bubble[row];
    out[LS_LOSS_IMBALANCE] += part * basis->imbalance[row];
    out[LS_LOSS_UNEXPLAINED] = fit->y[row] - ls_fit_value(fit, coefficient, row);
}

ls_status ls_times_predict_row(const ls_times_row *row, const ls_times_model *model, ls_prediction *out) {
    ls_plan_task task = model->task;
    ls_knobs layout = model->layout;
    layout.dp = row->dp ? row->dp : row->chips;
    layout.tp = row->dp ? row->tp : 1;
    layout.pp = row->dp ? row->pp : 1;
    layout.virtual_stages = layout.context = 1;
    layout.micro = row->micro ? row->micro : 1;
    layout.schedule = LS_SCHEDULE_1F1B;
    layout.sequence_parallel = layout.sequence_parallel && layout.tp > 1;
    task.cluster.site[0].chips = row->chips;
    task.global_batch = row->batch ? row->batch : model->global_batch;
    if (task.global_batch == 0)
        return ls_fail(LS_ERR_INPUT, "predictions need the global_batch of each row, or --global-batch");
    LS_TRY(ls_plan_check(&task, &layout));
    return ls_plan_predict(&task, &layout, out);
}

ls_status ls_times_basis_predict(const ls_times *times, const ls_times_model *model, ls_times_basis *out) {
    if (times->metric != LS_TIMES_SECONDS)
        return ls_fail(LS_ERR_INPUT, "with --model, times must be seconds per step (column seconds or ms), not %s",
                       times->column);
    begin_basis(times, out);
    out->node = model->task.cluster.site[0].node;
    out->predicted = true;
    out->terms = 1u << LS_TERM_COMPUTE | 1u << LS_TERM_PREDICTED | 1u << LS_TERM_SERIAL;
    for (int i = 0; i < times->count; i++) {
        ls_prediction p;
        LS_TRY(ls_times_predict_row(&times->row[i], model, &p));
        double sync = p.time[LS_TIME_TP] + p.time[LS_TIME_GATHER] + p.time[LS_TIME_P2P] + p.time[LS_TIME_DP];
        double compute = p.seconds - sync - p.time[LS_TIME_BUBBLE];
        out->fit.x[i][LS_TERM_COMPUTE] = compute + p.time[LS_TIME_BUBBLE];
        out->fit.x[i][LS_TERM_PREDICTED] = sync;
        out->fit.x[i][LS_TERM_SERIAL] = 1;
        out->bubble[i] = p.time[LS_TIME_BUBBLE] / compute;
    }
    return LS_OK;
}
