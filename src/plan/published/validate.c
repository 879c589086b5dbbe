/* validate.c: predicts every published run, fits one factor for each cluster if asked to, and sums errors and regrets.
 */
#include "plan/published/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIT_LEAST = 4, FIT_ROUNDS = 50 };

/* Two clusters of equal chips were measured 2 to 6.5 % apart with the same layouts. */
static const double CLUSTER_SPREAD = .05;
/* Spread of a row around the others of its cluster; a row that is off by more than 1.5 of them counts less (Huber). */
static const double ROW_SPREAD = .05, STANDS_OUT = 1.5;

/* Returns whether the row measured time, not memory. */
static bool is_time(const ls_validate_row *r) { return r->row->metric != LS_ROW_MEMORY; }

/* ---- sources and clusters ---------------------------------------------------------------------------------------- */

/* Returns the number of the source, adding it if it is new; its name ends at the first ";" or "(". */
static int source_of(ls_validation *v, const char *text) {
    char name[LS_VALIDATE_NAME_MAX];
    size_t length = strcspn(text, ";(");
    if (length > sizeof name - 1) length = sizeof name - 1;
    while (length > 0 && text[length - 1] == ' ') length--;
    memcpy(name, text, length);
    name[length] = '\0';
    for (int i = v->sources - 1; i >= 0; i--)
        if (strcmp(v->source[i], name) == 0) return i;
    memcpy(v->source[v->sources], name, sizeof name);
    return v->sources++;
}

/* Returns the number of the cluster, a source and a chip, adding it if it is new. `chip` is borrowed. */
static int cluster_of(ls_validation *v, int source, const char *chip) {
    for (size_t i = v->clusters; i-- > 0;)
        if (v->cluster[i].source == source && strcmp(v->cluster[i].chip, chip) == 0) return (int)i;
    v->cluster[v->clusters] = (ls_validate_cluster){.source = source, .chip = chip, .factor = 1};
    return (int)v->clusters++;
}

/* Fills in a row: its source and cluster and, if it can be predicted, layout, prediction and measured value. */
static ls_status predict_row(ls_validation *v, const ls_row *row, ls_validate_row *out) {
    ls_prediction p;
    *out = (ls_validate_row){.row = row};
    out->source = source_of(v, row->source);
    out->cluster = cluster_of(v, out->source, row->task.cluster.site[0].chip.name);
    if (row->reason[0]) return LS_OK;
    LS_TRY(ls_row_predict(row, &out->layout, &p));
    out->modelled = true;
    out->judged = row->value > 0;
    out->predicted = ls_row_predicted(row, &p);
    out->measured = row->value > 0 ? ls_row_measured(row) : 0;
    v->modelled++;
    if (out->judged && is_time(out)) v->cluster[out->cluster].rows++;
    return LS_OK;
}

/* ---- one number for a cluster ------------------------------------------------------------------------------------ */

/* Returns how many of a cluster's rows are fitted: a quarter, FIT_LEAST at least, half at most. */
static size_t rows_to_fit(size_t rows) {
    size_t fit = rows / 4;
    if (fit < FIT_LEAST) fit = FIT_LEAST;
    return fit < rows / 2 ? fit : rows / 2;
}

/* Returns the next estimate of the factor, with rows weighted by their errors at `factor`. */
static double next_factor(const ls_validation *v, int number, double factor) {
    double prior = ROW_SPREAD * ROW_SPREAD / (CLUSTER_SPREAD * CLUSTER_SPREAD), above = prior, below = prior;
    for (size_t i = 0; i < v->rows; i++) {
        const ls_validate_row *r = &v->row[i];
        if (r->cluster != number || !r->fitted) continue;
        double x = r->predicted / r->measured, error = factor * x - 1, limit = STANDS_OUT * ROW_SPREAD;
        if (error < 0) error = -error;
        double weight = error > limit ? limit / error : 1;
        above += weight * x;
        below += weight * x * x;
    }
    return above / below;
}

/* Fits the cluster's factor to its first time rows, which are then not judged, and applies it to all of them. With too
 * few rows, none of them is judged and the factor stays 1. */
static void fit(ls_validation *v, int number) {
    ls_validate_cluster *cluster = &v->cluster[number];
    size_t want = rows_to_fit(cluster->rows), n = 0;
    for (size_t i = 0; i < v->rows; i++) {
        ls_validate_row *r = &v->row[i];
        if (r->cluster != number || !r->judged || !is_time(r)) continue;
        if (want > 0 && n == want) break;
        r->judged = false;
        r->fitted = want > 0;
        n += r->fitted;
    }
    cluster->fitted = n;
    if (n == 0) return;
    for (int round = 0; round < FIT_ROUNDS; round++) cluster->factor = next_factor(v, number, cluster->factor);
    for (size_t i = 0; i < v->rows; i++)
        if (v->row[i].cluster == number && is_time(&v->row[i])) v->row[i].predicted *= cluster->factor;
}

/* Returns the share of the 16-bit peak that the row reached, recomputation counted. */
static double efficiency(const ls_validate_row *r) {
    const ls_plan_task *task = &r->row->task;
    const ls_chip *chip = &task->cluster.site[0].chip;
    double flops = ls_plan_model_flops(&task->shape, (double)task->seq, (double)task->global_batch);
    double head = 6.0 * (double)task->seq * (double)task->global_batch * (double)task->shape.V * (double)task->shape.C;
    if (r->layout.recompute == LS_RECOMPUTE_FULL) flops = (flops - head) * 4 / 3 + head;
    return flops / (r->measured * chip->peak_flops[LS_PLAN_FP16] * ls_cluster_chips(&task->cluster));
}

/* Sets the cluster's mean efficiency and the errors of its judged rows if every row reached that. */
static void fit_baseline(ls_validation *v, int number) {
    ls_validate_cluster *cluster = &v->cluster[number];
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < v->rows; i++) {
        const ls_validate_row *r = &v->row[i];
        if (r->cluster != number || !is_time(r) || !(v->calibrated ? r->fitted : r->judged)) continue;
        sum += efficiency(r);
        n++;
    }
    cluster->baseline_efficiency = n ? sum / (double)n : 0;
    for (size_t i = 0; n > 0 && i < v->rows; i++) {
        ls_validate_row *r = &v->row[i];
        if (r->cluster == number && is_time(r) && r->judged)
            r->baseline_error = efficiency(r) / cluster->baseline_efficiency - 1;
    }
}

enum { REGRET_LAYOUTS_LEAST = 3 };

/* ---- regret ------------------------------------------------------------------------------------------------------ */

/* Compares the fields of the shape that a row has. */
static bool same_shape(const ls_shape *a, const ls_shape *b) {
    return a->L == b->L && a->C == b->C && a->H == b->H && a->kv_heads == b->kv_heads && a->hidden == b->hidden &&
           a->V == b->V;
}

/* Returns whether two sites have the same chip, in the same number, in nodes of the same size. */
static bool same_site(const ls_site *a, const ls_site *b) {
    return strcmp(a->chip.name, b->chip.name) == 0 && a->chips == b->chips && a->node == b->node;
}

/* Returns whether model, batch, chips and program are the same, so that only the layout differs. */
static bool same_task(const ls_validate_row *a, const ls_validate_row *b) {
    const ls_plan_task *x = &a->row->task, *y = &b->row->task;
    return a->source == b->source && strcmp(a->row->model, b->row->model) == 0 && same_shape(&x->shape, &y->shape) &&
           x->seq == y->seq && x->global_batch == y->global_batch &&
           same_site(&x->cluster.site[0], &y->cluster.site[0]) && strcmp(x->stack.name, y->stack.name) == 0;
}

/* Returns whether the row is ranked; fitted rows are too, because one factor for all changes no rank. */
static bool counts(const ls_validate_row *r) {
    return r->modelled && r->row->value > 0 && r->row->metric != LS_ROW_MEMORY;
}

/* Adds the regret of the task of row `first`, unless an earlier row has the same task or fewer than
 * REGRET_LAYOUTS_LEAST layouts were measured. */
static void add_regret(ls_validation *v, size_t first) {
    const ls_validate_row *lead = &v->row[first], *chosen = lead, *best = lead;
    size_t layouts = 1;
    if (!counts(lead)) return;
    for (size_t i = 0; i < first; i++)
        if (counts(&v->row[i]) && same_task(&v->row[i], lead)) return;
    for (size_t i = first + 1; i < v->rows; i++) {
        const ls_validate_row *r = &v->row[i];
        if (!counts(r) || !same_task(r, lead)) continue;
        bool seen = false;
        for (size_t j = first; j < i && !seen; j++)
            seen = counts(&v->row[j]) && same_task(&v->row[j], lead) && ls_knobs_equal(&v->row[j].layout, &r->layout);
        layouts += !seen;
        if (r->predicted < chosen->predicted) chosen = r;
        if (r->measured < best->measured) best = r;
    }
    if (layouts < REGRET_LAYOUTS_LEAST) return;
    v->regret[v->regrets++] =
        (ls_validate_regret){lead->source, layouts, chosen, best, chosen->measured / best->measured - 1};
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Which rows a line of the result is about. */
typedef struct choice {
    int source;        /* −1: all */
    const char *group; /* NULL: all */
    bool inside;       /* only rows whose tensor parallelism stays inside nodes */
} choice;

/* Returns whether the row's TP groups fit into a node. */
static bool is_inside(const ls_validate_row *r) { return r->row->layout.tp <= r->row->task.cluster.site[0].node; }

/* Returns whether a line with this choice is about the row. */
static bool is_chosen(const choice *c, const ls_validate_row *r) {
    if (c->source >= 0 && r->source != c->source) return false;
    return (!c->inside || is_inside(r)) && (!c->group || strcmp(r->row->group, c->group) == 0);
}

/* Adds an error to the sums, from which divide_by_rows() makes means. */
static void add_error(ls_validate_score *s, double error) {
    s->rows++;
    s->mae += error < 0 ? -error : error;
    s->bias += error;
}

/* Makes means of the sums of errors; 0 without rows. */
static void divide_by_rows(ls_validate_score *s) {
    if (s->rows == 0) return;
    s->mae /= (double)s->rows;
    s->bias /= (double)s->rows;
}

/* Appends the line of the chosen rows, without a name, and returns it. */
static ls_validate_line *add_line(ls_validation *v, const choice *c) {
    ls_validate_line *line = &v->line[v->lines++];
    memset(line, 0, sizeof *line);
    for (size_t i = 0; i < v->rows; i++) {
        const ls_validate_row *r = &v->row[i];
        if (!r->judged || !is_chosen(c, r)) continue;
        add_error(r->row->metric == LS_ROW_MEMORY ? &line->memory : &line->time, r->error);
        if (r->row->metric != LS_ROW_MEMORY) add_error(&line->baseline, r->baseline_error);
    }
    divide_by_rows(&line->time);
    divide_by_rows(&line->memory);
    divide_by_rows(&line->baseline);
    for (size_t i = 0; i < v->regrets && !c->inside; i++) {
        const ls_validate_regret *g = &v->regret[i];
        if (!is_chosen(c, g->best)) continue;
        line->tasks++;
        line->regret += g->regret;
        if (g->regret > line->worst_regret) line->worst_regret = g->regret;
    }
    if (line->tasks) line->regret /= (double)line->tasks;
    return line;
}

/* Adds the line of a source and, if it differs, a second one for its rows with tensor parallelism inside nodes. */
static void add_source(ls_validation *v, int source) {
    choice c = {.source = source};
    ls_validate_line *line = add_line(v, &c);
    snprintf(line->name, sizeof line->name, "%s", v->source[source]);
    c.inside = true;
    ls_validate_line *part = add_line(v, &c);
    part->is_part = true;
    snprintf(part->name, sizeof part->name, "tp inside a node");
    if (part->time.rows == line->time.rows || part->time.rows == 0) v->lines--;
}

/* Adds a line for a source_group that has several sources; called for each source, it acts at the group's last one. */
static void add_group(ls_validation *v, int source) {
    const char *group = "";
    bool several = false;
    for (size_t i = 0; i < v->rows && !*group; i++)
        if (v->row[i].source == source) group = v->row[i].row->group;
    for (size_t i = 0; i < v->rows; i++) {
        if (strcmp(v->row[i].row->group, group) != 0) continue;
        if (v->row[i].source > source) return;
        several |= v->row[i].source < source;
    }
    if (!*group || !several) return;
    ls_validate_line *line = add_line(v, &(choice){.source = -1, .group = group});
    snprintf(line->name, sizeof line->name, "%.70s, all", group);
}

/* Fills in regrets and lines. */
static ls_status summarize(ls_validation *v) {
    v->regret = calloc(v->rows + 1, sizeof *v->regret);
    v->line = calloc(3 * (size_t)v->sources + 1, sizeof *v->line);
    if (!v->regret || !v->line)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the figures of %d sources", v->sources);
    for (size_t i = 0; i < v->rows; i++) add_regret(v, i);
    for (int s = 0; s < v->sources; s++) {
        add_source(v, s);
        add_group(v, s);
    }
    snprintf(add_line(v, &(choice){.source = -1})->name, LS_VALIDATE_NAME_MAX, "all rows");
    return LS_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Allocates the arrays of rows, clusters and sources, each with room for one per row. */
static ls_status allocate(ls_validation *v, size_t rows) {
    v->row = calloc(rows + 1, sizeof *v->row);
    v->cluster = calloc(rows + 1, sizeof *v->cluster);
    v->source = calloc(rows + 1, sizeof *v->source);
    if (!v->row || !v->cluster || !v->source)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the predictions of %zu rows", rows);
    return LS_OK;
}

ls_status ls_validate(const ls_rows *rows, bool calibrate, ls_validation *out) {
    ls_status status;
    *out = (ls_validation){.calibrated = calibrate};
    LS_TRY_OUT(allocate(out, rows->count));
    for (; out->rows < rows->count; out->rows++)
        LS_TRY_OUT(predict_row(out, &rows->row[out->rows], &out->row[out->rows]));
    for (size_t c = 0; c < out->clusters; c++) {
        if (calibrate) fit(out, (int)c);
        fit_baseline(out, (int)c);
    }
    for (size_t i = 0; i < out->rows; i++) {
        ls_validate_row *r = &out->row[i];
        if (r->judged) r->error = r->predicted / r->measured - 1;
    }
    LS_TRY_OUT(summarize(out));
out:
    if (status != LS_OK) ls_validation_free(out);
    return status;
}

void ls_validation_free(ls_validation *v) {
    free(v->row);
    free(v->cluster);
    free(v->line);
    free(v->regret);
    free(v->source);
    memset(v, 0, sizeof *v);
}
