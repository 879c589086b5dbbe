/* validate.c: `lockstep plan --validate FILE`: predictions beside the measured runs of a file, as text. */
#include "cli/plan/validate.h"

#include <stdio.h>
#include <string.h>

#include "cli/plan/command.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

static bool is_memory(const ls_validate_row *r) { return r->row->metric == LS_ROW_MEMORY; }

static void layout_text(const ls_validate_row *r, char *out, size_t room) {
    const ls_knobs *l = &r->layout;
    int n = snprintf(out, room, "dp %d × tp %d × pp %d", l->dp, l->tp, l->pp);
    if (l->virtual_stages > 1 && n > 0 && (size_t)n < room)
        n += snprintf(out + n, room - (size_t)n, " × v %d", l->virtual_stages);
    if (l->context > 1 && n > 0 && (size_t)n < room) n += snprintf(out + n, room - (size_t)n, " × cp %d", l->context);
    if (n > 0 && (size_t)n < room)
        snprintf(out + n, room - (size_t)n, ", micro %zu, %s", l->micro, ls_recompute_name(l->recompute));
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

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

static void print_left_out(const ls_validation *v) {
    if (v->modelled == v->rows) return;
    printf("\n%zu rows cannot be modelled:\n", v->rows - v->modelled);
    for (size_t i = 0; i < v->rows; i++)
        if (!v->row[i].modelled) printf("  %s: %s\n", v->row[i].row->id, v->row[i].row->reason);
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static void print_score(const ls_validate_score *s) {
    if (s->rows)
        printf("%6zu %6.1f %% %+6.1f %%", s->rows, 100 * s->mae, 100 * s->bias);
    else
        printf("%6s %8s %8s", "-", "-", "-");
}

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

static void print_figure(const char *name, size_t rows, double share) {
    if (rows)
        printf(" %s=%.1f%%", name, 100 * share);
    else
        printf(" %s=-", name);
}

static void print_last(const ls_validation *v) {
    const ls_validate_line *all = &v->line[v->lines - 1];
    printf("\nvalidate: rows=%zu modelled=%zu", v->rows, v->modelled);
    print_figure("mae", all->time.rows, all->time.mae);
    print_figure("bias", all->time.rows, all->time.bias);
    print_figure("mae_memory", all->memory.rows, all->memory.mae);
    print_figure("regret", all->tasks, all->regret);
    printf("\n");
}

ls_status ls_plan_validate_command(const ls_options *options) {
    ls_rows rows;
    ls_validation v;
    LS_TRY(ls_rows_read(options->validate, &rows));
    ls_status status = ls_validate(&rows, options->calibrate, &v);
    if (status == LS_OK) {
        if (options->json) {
            status = ls_plan_validate_json(&v);
        } else {
            print_rows(&v);
            print_left_out(&v);
            print_lines(&v);
            print_regrets(&v);
            print_clusters(&v);
            print_last(&v);
        }
        ls_validation_free(&v);
    }
    ls_rows_free(&rows);
    return status;
}
