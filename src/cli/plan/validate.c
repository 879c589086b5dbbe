/* validate.c: `lockstep plan --validate FILE`: prints predictions beside the measured runs of a file. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/print.h"
#include "plan/published/validate.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

/* Returns whether the row measured memory (bytes) and not the time of a step (seconds). */
static bool is_memory(const ls_validate_row *r) { return r->row->metric == LS_ROW_MEMORY; }

/* Writes the row's layout, cut to the room. */
static void layout_text(const ls_validate_row *r, char *out, size_t room) {
    const ls_knobs *l = &r->layout;
    int n = snprintf(out, room, "dp %d × tp %d × pp %d", l->dp, l->tp, l->pp);
    if (l->virtual_stages > 1 && n > 0 && (size_t)n < room)
        n += snprintf(out + n, room - (size_t)n, " × v %d", l->virtual_stages);
    if (l->context > 1 && n > 0 && (size_t)n < room) n += snprintf(out + n, room - (size_t)n, " × cp %d", l->context);
    if (n > 0 && (size_t)n < room)
        snprintf(out + n, room - (size_t)n, ", micro %zu, %s", l->micro, ls_recompute_name(l->recompute));
}

/* Prints prediction, measurement and error of each row that can be modelled. */
static void print_rows(const ls_validation *v) {
    printf("%-34s %12s %12s %8s  %s\n", "row", "predicted", "measured", "error", "layout");
    for (size_t i = 0; i < v->rows; i++) {
        const ls_validate_row *r = &v->row[i];
        char layout[128];
        if (!r->modelled) continue;
        double scale = is_memory(r) ? GIB : 1;
        const char *unit = is_memory(r) ? "GiB" : "s";
        layout_text(r, layout, sizeof layout);
        printf("%-34.34s %8.3f %-3s %8.3f %-3s ", r->row->id, r->predicted / scale, unit, r->measured / scale, unit);
        if (r->judged)
            printf("%+6.1f %%", 100 * r->error);
        else
            printf("%8s", r->fitted ? "fitted" : "-");
        printf("  %s\n", layout);
    }
}

/* Prints the rows that cannot be modelled, with the reason; nothing if there are none. */
static void print_left_out(const ls_validation *v) {
    if (v->modelled == v->rows) return;
    printf("\n%zu rows cannot be modelled:\n", v->rows - v->modelled);
    for (size_t i = 0; i < v->rows; i++)
        if (!v->row[i].modelled) printf("  %s: %s\n", v->row[i].row->id, v->row[i].row->reason);
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

/* Prints the number of rows, their mean absolute error and bias; dashes without rows. */
static void print_score(const ls_validate_score *s) {
    if (s->rows)
        printf("%6zu %6.1f %% %+6.1f %%", s->rows, 100 * s->mae, 100 * s->bias);
    else
        printf("%6s %8s %8s", "-", "-", "-");
}

/* Prints the errors by source, beside those of a constant MFU; with --calibrate only over rows that were held out. */
static void print_lines(const ls_validation *v) {
    printf("\n%-66s %24s %10s %24s %18s\n", v->calibrated ? "source (held-out rows)" : "source",
           "time: rows, mae, bias", "const. MFU", "memory: rows, mae, bias", "regret: mean, worst");
    for (size_t i = 0; i < v->lines; i++) {
        const ls_validate_line *line = &v->line[i];
        printf("%s%-*.*s ", line->is_part ? "  " : "", line->is_part ? 64 : 66, line->is_part ? 64 : 66, line->name);
        print_score(&line->time);
        if (line->baseline.rows)
            printf("   %6.1f %%", 100 * line->baseline.mae);
        else
            printf("   %8s", "-");
        printf(" ");
        print_score(&line->memory);
        if (line->tasks)
            printf(" %6.1f %% %6.1f %%\n", 100 * line->regret, 100 * line->worst_regret);
        else
            printf(" %8s %8s\n", "-", "-");
    }
}

/* Prints how much slower the layout that the planner would choose is than the best one, for each task with several
 * measured layouts. */
static void print_regrets(const ls_validation *v) {
    if (v->regrets == 0) return;
    printf("\nregret: measured time of the layout predicted to be fastest, relative to the best measured\n");
    printf("%-34s %8s %8s  %s\n", "task", "layouts", "regret", "chosen; best");
    for (size_t i = 0; i < v->regrets; i++) {
        const ls_validate_regret *g = &v->regret[i];
        char chosen[128], best[128], task[64];
        layout_text(g->chosen, chosen, sizeof chosen);
        layout_text(g->best, best, sizeof best);
        snprintf(task, sizeof task, "%.20s, %d chips", g->best->row->model,
                 ls_cluster_chips(&g->best->row->task.cluster));
        printf("%-34s %8zu %6.1f %%  %s", task, g->layouts, 100 * g->regret, chosen);
        printf("%s%s\n", g->regret > 0 ? "; " : "", g->regret > 0 ? best : "");
    }
}

/* Prints the efficiency factor of each cluster, and the MFU of the baseline. */
static void print_clusters(const ls_validation *v) {
    printf("\nOne efficiency per cluster (a source and a chip). Baseline: a constant MFU for all its rows, the mean "
           "over %s.\n",
           v->calibrated ? "the fitted rows" : "all its rows");
    if (v->calibrated)
        printf("Calibration: a time factor from the first quarter of its rows (at least 4, at most half), which are "
               "left out above; few or contradictory rows change it little.\n");
    printf("%-66s %-24s %6s %6s %8s %10s\n", "source", "chip", "rows", "fitted", "factor", "baseline");
    for (size_t i = 0; i < v->clusters; i++) {
        const ls_validate_cluster *c = &v->cluster[i];
        printf("%-66.66s %-24s %6zu %6zu %8.3f %8.1f %%\n", v->source[c->source], c->chip, c->rows, c->fitted,
               c->factor, 100 * c->baseline_efficiency);
    }
}

/* Prints " name=1.2%", or " name=-" without rows. */
static void print_figure(const char *name, size_t rows, double share) {
    if (rows)
        printf(" %s=%.1f%%", name, 100 * share);
    else
        printf(" %s=-", name);
}

/* Prints the last line, a summary over all rows for scripts. */
static void print_summary_line(const ls_validation *v) {
    const ls_validate_line *all = &v->line[v->lines - 1];
    printf("\nvalidate: rows=%zu modelled=%zu", v->rows, v->modelled);
    print_figure("mae", all->time.rows, all->time.mae);
    print_figure("bias", all->time.rows, all->time.bias);
    print_figure("mae_memory", all->memory.rows, all->memory.mae);
    print_figure("regret", all->tasks, all->regret);
    printf("\n");
}

/* ---- JSON: times in seconds, memory in bytes, errors as shares of what was measured ------------------------------ */

/* Returns a new object for a layout. */
static json_t *layout_json(const ls_knobs *l) {
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:I, s:i, s:s, s:b, s:s}", "dp", l->dp, "tp", l->tp, "pp", l->pp,
                     "virtual_stages", l->virtual_stages, "context", l->context, "micro", (json_int_t)l->micro, "zero",
                     l->zero, "recompute", ls_recompute_name(l->recompute), "sequence_parallel", l->sequence_parallel,
                     "precision", ls_plan_type_name(l->type));
}

/* Returns a new object for a row; one that cannot be modelled has the reason instead of figures. */
static json_t *make_validation_row_json(const ls_validation *v, const ls_validate_row *r) {
    const ls_row *row = r->row;
    if (!r->modelled)
        return json_pack("{s:s, s:s, s:s, s:b, s:s}", "id", row->id, "source", v->source[r->source], "model",
                         row->model, "modelled", 0, "reason", row->reason);
    json_t *json = json_pack("{s:s, s:s, s:s, s:b, s:s, s:f, s:f, s:b, s:o}", "id", row->id, "source",
                             v->source[r->source], "model", row->model, "modelled", 1, "kind",
                             row->metric == LS_ROW_MEMORY ? "memory_bytes" : "seconds", "predicted", r->predicted,
                             "measured", r->measured, "fitted", r->fitted, "layout", layout_json(&r->layout));
    if (json && r->judged) json_object_set_new(json, "error", json_real(r->error));
    if (json && r->judged && row->metric != LS_ROW_MEMORY)
        json_object_set_new(json, "baseline_error", json_real(r->baseline_error));
    return json;
}

/* Returns a new object for a score. */
static json_t *score_json(const ls_validate_score *s) {
    return json_pack("{s:I, s:f, s:f}", "rows", (json_int_t)s->rows, "mae", s->mae, "bias", s->bias);
}

/* Returns a new object for the errors of a source or a part of one. */
static json_t *line_json(const ls_validate_line *line) {
    return json_pack("{s:s, s:b, s:o, s:o, s:o, s:{s:I, s:f, s:f}}", "name", line->name, "part", line->is_part, "time",
                     score_json(&line->time), "constant_mfu", score_json(&line->baseline), "memory",
                     score_json(&line->memory), "regret", "tasks", (json_int_t)line->tasks, "mean", line->regret,
                     "worst", line->worst_regret);
}

/* Returns a new object for the regret of a task. */
static json_t *regret_json(const ls_validation *v, const ls_validate_regret *g) {
    return json_pack("{s:s, s:s, s:i, s:I, s:s, s:s, s:f}", "source", v->source[g->source], "model",
                     g->best->row->model, "chips", ls_cluster_chips(&g->best->row->task.cluster), "layouts",
                     (json_int_t)g->layouts, "chosen", g->chosen->row->id, "best", g->best->row->id, "regret",
                     g->regret);
}

/* Returns a new object for a cluster. */
static json_t *cluster_json(const ls_validation *v, const ls_validate_cluster *c) {
    return json_pack("{s:s, s:s, s:I, s:I, s:f, s:f}", "source", v->source[c->source], "chip", c->chip, "rows",
                     (json_int_t)c->rows, "fitted", (json_int_t)c->fitted, "factor", c->factor, "baseline_efficiency",
                     c->baseline_efficiency);
}

/* Prints all results as JSON. */
static ls_status print_validation_json(const ls_validation *v) {
    json_t *rows = json_array(), *lines = json_array(), *regrets = json_array(), *clusters = json_array();
    for (size_t i = 0; i < v->rows; i++) json_array_append_new(rows, make_validation_row_json(v, &v->row[i]));
    for (size_t i = 0; i < v->lines; i++) json_array_append_new(lines, line_json(&v->line[i]));
    for (size_t i = 0; i < v->regrets; i++) json_array_append_new(regrets, regret_json(v, &v->regret[i]));
    for (size_t i = 0; i < v->clusters; i++) json_array_append_new(clusters, cluster_json(v, &v->cluster[i]));
    const ls_validate_line *all = &v->line[v->lines - 1];
    return ls_cli_print_json_lines(json_pack("{s:b, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o}", "calibrated",
                                             v->calibrated, "rows_read", (json_int_t)v->rows, "modelled",
                                             (json_int_t)v->modelled, "mae", all->time.mae, "bias", all->time.bias,
                                             "mae_memory", all->memory.mae, "regret", all->regret, "rows", rows,
                                             "sources", lines, "regrets", regrets, "clusters", clusters));
}

ls_status ls_cmd_plan_validate(const ls_options *options) {
    ls_rows rows;
    ls_validation v;
    LS_TRY(ls_rows_read(options->validate, &rows));
    ls_status status = ls_validate(&rows, options->calibrate, &v);
    if (status == LS_OK) {
        if (options->json) {
            status = print_validation_json(&v);
        } else {
            print_rows(&v);
            print_left_out(&v);
            print_lines(&v);
            print_regrets(&v);
            print_clusters(&v);
            print_summary_line(&v);
        }
        ls_validation_free(&v);
    }
    ls_rows_free(&rows);
    return status;
}
