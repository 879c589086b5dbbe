/* validate_lines.c: from errors of rows to figures of sources, and regret. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/published/validate.h"

enum { REGRET_LAYOUTS_LEAST = 3 };

/* ---- regret ------------------------------------------------------------------------------------------------------ */

static bool same_shape(const ls_shape *a, const ls_shape *b) {
    return a->L == b->L && a->C == b->C && a->H == b->H && a->kv_heads == b->kv_heads && a->hidden == b->hidden &&
           a->V == b->V;
}

static bool same_site(const ls_site *a, const ls_site *b) {
    return strcmp(a->chip.name, b->chip.name) == 0 && a->chips == b->chips && a->node == b->node;
}

/* Model, batch, chips and program are the same: what differs is the layout. */
static bool same_task(const ls_validate_row *a, const ls_validate_row *b) {
    const ls_plan_task *x = &a->row->task, *y = &b->row->task;
    return a->source == b->source && strcmp(a->row->model, b->row->model) == 0 && same_shape(&x->shape, &y->shape) &&
           x->seq == y->seq && x->global_batch == y->global_batch &&
           same_site(&x->cluster.site[0], &y->cluster.site[0]) && strcmp(x->stack.name, y->stack.name) == 0;
}

/* Rows that were fitted are ranked too: one factor for all of them changes no rank. */
static bool counts(const ls_validate_row *r) {
    return r->modelled && r->row->value > 0 && r->row->metric != LS_ROW_MEMORY;
}

/* Begins with row `first`, unless an earlier row has the same task. */
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
            seen = counts(&v->row[j]) && same_task(&v->row[j], lead) &&
                   ls_plan_layout_equal(&v->row[j].layout, &r->layout);
        layouts += !seen;
        if (r->predicted < chosen->predicted) chosen = r;
        if (r->measured < best->measured) best = r;
    }
    if (layouts < REGRET_LAYOUTS_LEAST) return;
    v->regret[v->regrets++] =
        (ls_validate_regret){lead->source, layouts, chosen, best, chosen->measured / best->measured - 1};
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Which rows a line is about. */
typedef struct choice {
    int source;        /* −1: all */
    const char *group; /* NULL: all */
    bool inside;       /* tensor parallelism inside nodes alone */
} choice;

static bool is_inside(const ls_validate_row *r) { return r->row->layout.tp <= r->row->task.cluster.site[0].node; }

static bool has(const choice *c, const ls_validate_row *r) {
    if (c->source >= 0 && r->source != c->source) return false;
    return (!c->inside || is_inside(r)) && (!c->group || strcmp(r->row->group, c->group) == 0);
}

static void add(ls_validate_score *s, double error) {
    s->rows++;
    s->mae += error < 0 ? -error : error;
    s->bias += error;
}

static void divide(ls_validate_score *s) {
    if (s->rows == 0) return;
    s->mae /= (double)s->rows;
    s->bias /= (double)s->rows;
}

static ls_validate_line *add_line(ls_validation *v, const choice *c) {
    ls_validate_line *line = &v->line[v->lines++];
    memset(line, 0, sizeof *line);
    for (size_t i = 0; i < v->rows; i++) {
        const ls_validate_row *r = &v->row[i];
        if (!r->judged || !has(c, r)) continue;
        add(r->row->metric == LS_ROW_MEMORY ? &line->memory : &line->time, r->error);
        if (r->row->metric != LS_ROW_MEMORY) add(&line->baseline, r->baseline_error);
    }
    divide(&line->time);
    divide(&line->memory);
    divide(&line->baseline);
    for (size_t i = 0; i < v->regrets && !c->inside; i++) {
        const ls_validate_regret *g = &v->regret[i];
        if (!has(c, g->best)) continue;
        line->tasks++;
        line->regret += g->regret;
        if (g->regret > line->worst_regret) line->worst_regret = g->regret;
    }
    if (line->tasks) line->regret /= (double)line->tasks;
    return line;
}

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

/* Of the group of this source, where it is the last of several. */
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

ls_status ls_validate_summarize(ls_validation *v) {
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
