/* put.c: writes the list of runs as HTML and as OpenMetrics. Every text of a run is escaped. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/live/shelf.h"
#include "report/numbers.h"

enum { TABLE_MAX = 2000 };

/* Writes a drop-down list of the form; chosen: index of the selected entry. */
static void put_select(FILE *out, const char *label, const char *name, const char *const *values,
                       const char *const *texts, int count, int chosen) {
    fprintf(out, "<label>%s <select name=\"%s\">", label, name);
    for (int i = 0; i < count; i++)
        fprintf(out, "<option value=\"%s\"%s>%s</option>", values[i], i == chosen ? " selected" : "", texts[i]);
    fputs("</select></label>\n", out);
}

void ls_shelf_put_choices(const ls_live_query *q, FILE *out) {
    static const char *const xs[] = {"step", "tokens", "time"}, *const smooths[] = {"0", "1", "2", "3"},
                             *const smooth_texts[] = {"none", "10 steps", "100 steps", "1,000 steps"},
                             *const scales[] = {"0", "1"}, *const scale_texts[] = {"linear", "logarithmic"};
    fputs("<form id=\"choices\" method=\"get\" action=\"/\">\n", out);
    put_select(out, "by", "x", xs, xs, 3, (int)q->x);
    put_select(out, "smooth", "smooth", smooths, smooth_texts, LS_VIEW_SMOOTHS, q->smooth);
    put_select(out, "x", "xlog", scales, scale_texts, 2, q->x_log);
    put_select(out, "y", "ylog", scales, scale_texts, 2, q->y_log);
    fputs("<label>runs named <input name=\"filter\" size=\"12\" maxlength=\"60\" value=\"", out);
    ls_svg_escape(out, q->filter);
    fputs("\"></label>\n", out);
    fprintf(out,
            "<input type=\"hidden\" name=\"sort\" value=\"%s\"><input type=\"hidden\" name=\"falls\" value=\"%d\">\n",
            ls_live_sort_names[q->sort], q->falls);
    for (int i = 0; i < q->runs; i++)
        fprintf(out, "<input type=\"hidden\" name=\"run\" value=\"%016llx\">\n", (unsigned long long)q->run[i]);
    fputs("<button>show</button>\n</form>\n", out);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Writes a link to the page with this query. */
static void put_link(FILE *out, const ls_live_query *q, const char *text) {
    char query[512];
    ls_live_query_text(q, query, sizeof query);
    fputs("<a href=\"/?", out);
    ls_svg_escape(out, query);
    fputs("\">", out);
    ls_svg_escape(out, text);
    fputs("</a>", out);
}

/* Writes the head of the table; each column's name is a link that sorts by it, or reverses the order. */
static void put_head(FILE *out, const ls_live_query *q) {
    static const char *const heads[LS_LIVE_SORTS] = {"run",        "state",    "step",   "training loss",
                                                     "validation", "tokens/s", "changed"};
    fputs("<thead><tr>", out);
    for (int i = 0; i < LS_LIVE_BY_CHANGE; i++) {
        ls_live_query other = *q;
        other.sort = (ls_live_sort)i;
        other.falls = q->sort == other.sort ? !q->falls : false;
        bool is_this = q->sort == other.sort;
        fprintf(out, "<th%s%s>", i >= LS_LIVE_BY_STEP ? " class=\"r\"" : "",
                !is_this   ? ""
                : q->falls ? " aria-sort=\"descending\""
                           : " aria-sort=\"ascending\"");
        put_link(out, &other, heads[i]);
        fputs("</th>", out);
    }
    fputs("<th>layout</th></tr></thead>\n", out);
}

/* Writes a cell with this many decimals, or with 0 as a whole number; a dash if the value is not finite. of: the
 * column's name, shown on phones. */
static void put_number(FILE *out, const char *of, int digits, double value) {
    fprintf(out, "<td class=\"r\" data-of=\"%s\">", of);
    if (isfinite(value) && digits > 0)
        fprintf(out, "%.*f", digits, value);
    else if (isfinite(value))
        fputs(LS_WHOLE(value), out);
    else
        fputs("–", out);
    fputs("</td>", out);
}

/* Writes the training loss: the mean of the last steps, by which the table sorts, and that of the last step in
 * brackets. */
static void put_train_loss(FILE *out, const ls_view_facts *f) {
    fputs("<td class=\"r\" data-of=\"training loss\"", out);
    if (f->train_window > 1)
        fprintf(out, " title=\"mean of the last %d steps; of the last step in brackets\"", f->train_window);
    if (isfinite(f->train_loss) && f->train_window > 1)
        fprintf(out, ">%.4f (%.4f)</td>", f->train_loss, f->last_loss);
    else if (f->step > 0)
        fprintf(out, ">%.4f</td>", f->last_loss);
    else
        fputs(">–</td>", out);
}

/* Returns the position of the run in the query; −1: it is not in it. */
static int place_of(const ls_live_query *q, uint64_t id) {
    for (int i = 0; i < q->runs; i++)
        if (q->run[i] == id) return i;
    return -1;
}

/* Writes the row of a run, with links that show it alone, add it to the page, or leave it out. */
static void put_row(FILE *out, const ls_live_query *q, const ls_shelf_run *run) {
    ls_live_query alone = *q, with = *q;
    int place = place_of(q, run->id);
    alone.runs = 1;
    alone.run[0] = run->id;
    fprintf(out, "<tr%s><td data-of=\"run\"><span>", place >= 0 ? " class=\"chosen\"" : "");
    put_link(out, &alone, run->name);
    fputs(" ", out);
    if (place >= 0) {
        with.runs--;
        for (int i = place; i < with.runs; i++) with.run[i] = with.run[i + 1];
        if (q->runs > 1) put_link(out, &with, "leave out");
    } else if (q->runs > 0 && q->runs < LS_RUN_PAGE_RUNS_MAX) {
        with.run[with.runs++] = run->id;
        put_link(out, &with, "add");
    }
    fputs("</span></td><td data-of=\"state\">", out);
    ls_svg_escape(out, run->facts.state ? run->facts.state : "");
    fputs("</td>", out);
    fprintf(out, "<td class=\"r\" data-of=\"step\">%s</td>", LS_WHOLE((double)run->facts.step));
    put_train_loss(out, &run->facts);
    put_number(out, "validation", 4, run->facts.loss);
    put_number(out, "tokens/s", 0, run->facts.speed);
    fputs("<td data-of=\"layout\">", out);
    ls_svg_escape(out, run->facts.layout);
    fputs("</td></tr>\n", out);
}

void ls_shelf_put_table(const ls_shelf *shelf, const ls_live_query *query, FILE *out) {
    const ls_shelf_run **list = malloc((size_t)(ls_shelf_count(shelf) + 1) * sizeof *list);
    if (!list) return;
    int count = ls_shelf_list(shelf, query, list, ls_shelf_count(shelf));
    ls_live_query q = *query;
    if (q.runs == 0 && count > 0) { /* the run that is shown then */
        ls_live_query newest;
        ls_live_query_init(&newest);
        const ls_shelf_run **all = malloc((size_t)(ls_shelf_count(shelf) + 1) * sizeof *all);
        if (all && ls_shelf_list(shelf, &newest, all, ls_shelf_count(shelf)) > 0) q.run[q.runs++] = all[0]->id;
        free(all);
    }
    fputs("<div class=\"wide\"><table class=\"many\">\n", out);
    put_head(out, &q);
    fputs("<tbody>\n", out);
    for (int i = 0; i < count && i < TABLE_MAX; i++) put_row(out, &q, list[i]);
    fputs("</tbody></table></div>\n", out);
    if (count > TABLE_MAX)
        fprintf(out, "<p>The first %d of %d runs; a filter finds the others.</p>\n", TABLE_MAX, count);
    free(list);
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

/* Writes the value of an OpenMetrics label, escaped. */
static void put_label(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\\' || *text == '"') fputc('\\', out);
        if (*text == '\n')
            fputs("\\n", out);
        else
            fputc(*text, out);
    }
}

/* Returns 1 while the run is training, else 0. This and the next functions return a run's figure for OpenMetrics; NaN:
 * not known, left out. */
static double up_of(const ls_shelf_run *r) { return r->facts.state && strcmp(r->facts.state, "training") == 0; }
static double step_of(const ls_shelf_run *r) { return (double)r->facts.step; }
/* Returns the number of steps that the run is to take; NaN if not known. */
static double planned_of(const ls_shelf_run *r) { return r->facts.steps > 0 ? (double)r->facts.steps : (double)NAN; }
/* Returns the training loss of the last step. */
static double loss_of(const ls_shelf_run *r) { return r->loss; }
/* Returns the loss of the last evaluation. */
static double validation_of(const ls_shelf_run *r) { return r->facts.loss; }
static double lr_of(const ls_shelf_run *r) { return r->lr; }
static double norm_of(const ls_shelf_run *r) { return r->norm; }
/* Returns tokens (or images) per second, the median of the last steps. */
static double speed_of(const ls_shelf_run *r) { return r->facts.speed; }
static double mfu_of(const ls_shelf_run *r) { return r->facts.mfu; }
/* Returns the seconds of a step, the median of the last steps. */
static double time_of(const ls_shelf_run *r) { return r->facts.step_s; }
/* Returns the last recorded memory of the workers of the first machine, in bytes. */
static double memory_of(const ls_shelf_run *r) { return r->memory; }
static double gpu_memory_of(const ls_shelf_run *r) { return r->gpu_memory; }

void ls_shelf_put_metrics(const ls_shelf *shelf, bool is_prometheus, FILE *out) {
    static const struct {
        const char *name, *unit, *help;
        double (*get)(const ls_shelf_run *run);
        bool counts; /* a counter: its sample is NAME_total, as in Prometheus the whole family; it restarts
                        when the run goes back to a checkpoint */
    } families[] = {
        {"lockstep_training", "", "1 while a process is at work in the run.", up_of, false},
        {"lockstep_step", "", "Number of the last step.", step_of, false},
        {"lockstep_steps", "", "Steps done.", step_of, true},
        {"lockstep_planned_steps", "", "Steps that the run is to make.", planned_of, false},
        {"lockstep_loss", "", "Training loss of the last step.", loss_of, false},
        {"lockstep_validation_loss", "", "Loss of the last evaluation.", validation_of, false},
        {"lockstep_learning_rate", "", "Learning rate of the last step.", lr_of, false},
        {"lockstep_gradient_norm", "", "Norm of the gradient of the last step.", norm_of, false},
        {"lockstep_tokens_per_second", "", "Median of the last steps; images where the model is of images.", speed_of,
         false},
        {"lockstep_mfu_ratio", "ratio", "Model FLOPs utilisation, median of the last steps.", mfu_of, false},
        {"lockstep_step_seconds", "seconds", "Time of a step, median of the last steps.", time_of, false},
        {"lockstep_memory_bytes", "bytes", "What the workers of the first machine have in memory.", memory_of, false},
        {"lockstep_gpu_memory_bytes", "bytes", "What is in use on the first worker's GPU.", gpu_memory_of, false},
    };
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        const char *total = families[f].counts ? "_total" : "", *end = is_prometheus ? total : "";
        fprintf(out, "# TYPE %s%s %s\n", families[f].name, end, families[f].counts ? "counter" : "gauge");
        if (*families[f].unit && !is_prometheus) fprintf(out, "# UNIT %s %s\n", families[f].name, families[f].unit);
        fprintf(out, "# HELP %s%s %s\n", families[f].name, end, families[f].help);
        for (int i = 0; i < ls_shelf_count(shelf); i++) {
            const ls_shelf_run *run = ls_shelf_at(shelf, i);
            double value = families[f].get(run);
            if (!run->is_there || isnan(value)) continue;
            fprintf(out, "%s%s{run=\"", families[f].name, total);
            put_label(out, run->name);
            fprintf(out, "\",id=\"%016llx\"} ", (unsigned long long)run->id);
            if (isinf(value))
                fputs(value > 0 ? "+Inf\n" : "-Inf\n", out);
            else
                fprintf(out, "%.17g\n", value);
        }
    }
    if (!is_prometheus) fputs("# EOF\n", out);
}
