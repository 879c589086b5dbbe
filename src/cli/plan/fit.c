/* fit.c: `lockstep plan --validate FILE --leave-out`: measures by cross-validation how far predictions are from runs to
 * which their constants were not fitted; `--fit DIR`: fits the constants to these runs and writes them as C sources. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "plan/published/fit.h"

/* ---- for people -------------------------------------------------------------------------------------------------- */

/* Returns the largest relative change of a constant when a group of runs was left out. */
static double moved(const ls_fit *fit, int constant) {
    double most = 0;
    for (int g = 0; g < fit->groups; g++) {
        double by = fit->group[g].values[constant] / fit->values[constant] - 1;
        if (by < 0) by = -by;
        if (by > most) most = by;
    }
    return most;
}

/* Prints the fitted constants and those taken from a source. without: errors as weigh() measures them, or NULL;
 * left_out: groups were left out. */
static void print_constants(const ls_fit *fit, const double *without, bool left_out) {
    printf("%d constants are fitted:\n%-18s %9s %9s %9s %9s %11s  %s\n", LS_FITTED_COUNT, "constant", "now", "fitted",
           "usual", left_out ? "moves by" : "", without ? "left out, without it" : "", "meaning");
    for (int j = 0; j < LS_FITTED_COUNT; j++) {
        const ls_fitted_row *row = ls_fitted_row_get((ls_fitted)j);
        printf("%-18s %9.3f %9.3f %9.3f ", row->name, ls_fitted_values()[j], fit->values[j], row->usual);
        if (left_out)
            printf("%7.1f %%", 100 * moved(fit, j));
        else
            printf("%9s", "");
        if (without)
            printf(" %18.1f %%", 100 * without[j]);
        else
            printf(" %11s", "");
        printf("  %s\n", row->meaning);
    }
    printf("\n%d are taken from a source; fitting them gained nothing on groups left out:\n",
           LS_FITTED_ALL - LS_FITTED_COUNT);
    for (int j = LS_FITTED_COUNT; j < LS_FITTED_ALL; j++) {
        const ls_fitted_row *row = ls_fitted_row_get((ls_fitted)j);
        printf("%-18s %9.3f  %s (%s)\n", row->name, row->usual, row->meaning, row->source);
    }
}

/* Prints the errors of each group of runs. */
static void print_groups(const ls_fit *fit) {
    printf("\n%-28s %6s %10s %10s %10s\n", "source_group", "rows", "within", "left out", "bias");
    for (int g = 0; g < fit->groups; g++) {
        const ls_fit_group *group = &fit->group[g];
        printf("%-28s %6zu %8.1f %% %8.1f %% %+8.1f %%\n", group->name, group->rows, 100 * group->within,
               100 * group->out, 100 * group->out_bias);
    }
    printf("\nwithin: constants fitted to all rows; left out: fitted without the rows of that group, then judged on "
           "them.\n");
}

/* Prints how many rows of the file cannot be modelled. */
static void print_skipped(const ls_rows *rows) {
    size_t skipped = 0;
    for (size_t i = 0; i < rows->count; i++) skipped += rows->row[i].reason[0] != '\0';
    if (skipped > 0) printf("%zu rows cannot be modelled (without --leave-out they are named)\n", skipped);
}

/* Prints the last line, a summary for scripts. */
static void print_last(const ls_fit *fit, bool left_out) {
    printf("\nfit: rows=%zu groups=%d constants=%d within=%.1f%% within_groups=%.1f%%", fit->rows, fit->groups,
           LS_FITTED_COUNT, 100 * fit->within, 100 * fit->groups_within);
    if (left_out) printf(" left_out=%.1f%% left_out_groups=%.1f%%", 100 * fit->out, 100 * fit->groups_out);
    printf("\n");
}

/* Returns a new object of all constants by name. */
static json_t *constants_json(const double *values) {
    json_t *object = json_object();
    for (int j = 0; j < LS_FITTED_ALL; j++)
        json_object_set_new(object, ls_fitted_row_get((ls_fitted)j)->name, json_real(values[j]));
    return object;
}

/* Prints the fit as JSON; without left_out it has no errors of groups left out. */
static ls_status print_fit_json(const ls_fit *fit, bool left_out) {
    json_t *groups = json_array();
    for (int g = 0; g < fit->groups; g++) {
        const ls_fit_group *group = &fit->group[g];
        json_t *one = json_pack("{s:s, s:I, s:f}", "group", group->name, "rows", (json_int_t)group->rows, "within",
                                group->within);
        if (left_out) {
            json_object_set_new(one, "left_out", json_real(group->out));
            json_object_set_new(one, "left_out_bias", json_real(group->out_bias));
            json_object_set_new(one, "constants", constants_json(group->values));
        }
        json_array_append_new(groups, one);
    }
    json_t *all =
        json_pack("{s:I, s:o, s:f, s:f, s:o}", "rows", (json_int_t)fit->rows, "constants", constants_json(fit->values),
                  "within", fit->within, "within_groups", fit->groups_within, "groups", groups);
    if (left_out) {
        json_object_set_new(all, "left_out", json_real(fit->out));
        json_object_set_new(all, "left_out_groups", json_real(fit->groups_out));
    }
    return ls_cli_print_json_lines(all);
}

/* ---- files of the program ---------------------------------------------------------------------------------------- */

/* A file that is composed in memory. */
typedef struct text {
    char *data;
    size_t bytes;
    FILE *to;
} text;

/* Opens a buffer in memory as the stream t->to. */
static ls_status begin_text_buffer(text *t) {
    *t = (text){0};
    t->to = open_memstream(&t->data, &t->bytes);
    return t->to ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a file");
}

/* Writes the buffer to folder/name, replacing the file atomically, and frees it. */
static ls_status end_text_buffer(text *t, const char *folder, const char *name) {
    bool bad = fclose(t->to) != 0;
    ls_status status = bad ? ls_fail(LS_ERR_RESOURCE, "out of memory for a file")
                           : ls_file_write_atomic(ls_path_in(folder, name).text, t->data, t->bytes);
    free(t->data);
    return status;
}

/* Writes the name of constant j's enum value, such as "LS_FITTED_LATENCY"; returns `id`. */
static const char *constant_id(int j, char id[64]) {
    snprintf(id, 64, "LS_FITTED_%s", ls_fitted_row_get((ls_fitted)j)->name);
    for (char *at = id; *at; at++)
        if (*at >= 'a' && *at <= 'z') *at = (char)(*at - 'a' + 'A');
    return id;
}

/* Writes constants.inc, the fitted values for plan/fitted. */
static ls_status write_constants(const ls_fit *fit, const char *folder) {
    text t;
    char id[64];
    LS_TRY(begin_text_buffer(&t));
    for (int j = 0; j < LS_FITTED_ALL; j++) fprintf(t.to, "[%s] = %.4g,\n", constant_id(j, id), fit->values[j]);
    return end_text_buffer(&t, folder, "constants.inc");
}

/* Returns the name of the row's chip, that of the first site. */
static const char *chip_of(const ls_row *row) { return row->task.cluster.site[0].chip.name; }

/* Returns the group of runs to which the row belongs; its source if it names none. */
static const char *group_of(const ls_row *row) { return *row->group ? row->group : row->source; }

/* Returns whether no earlier row that was used (its error is not 0) has the same chip and the same type, or without
 * `with_type` the same group. */
static bool is_first(const ls_rows *rows, const ls_fit *fit, size_t i, bool with_type) {
    const ls_row *row = &rows->row[i];
    for (size_t k = 0; k < i; k++) {
        const ls_row *other = &rows->row[k];
        if (fit->error[k] == 0 || strcmp(chip_of(row), chip_of(other)) != 0) continue;
        if (with_type ? row->layout.type == other->layout.type : strcmp(group_of(row), group_of(other)) == 0)
            return false;
    }
    return true;
}

/* Writes error_bands.inc: for each group and chip the number of rows and the mean and signed error, from which plans
 * take their error range. */
static ls_status write_bands(const ls_rows *rows, const ls_fit *fit, const char *folder) {
    text t;
    LS_TRY(begin_text_buffer(&t));
    for (size_t i = 0; i < rows->count; i++) {
        const ls_row *row = &rows->row[i];
        double mean = 0, bias = 0;
        int count = 0;
        if (fit->error[i] == 0 || !is_first(rows, fit, i, false)) continue;
        for (size_t k = i; k < rows->count; k++) {
            const ls_row *other = &rows->row[k];
            if (fit->error[k] == 0 || strcmp(chip_of(row), chip_of(other)) != 0 ||
                strcmp(group_of(row), group_of(other)) != 0)
                continue;
            mean += fit->error[k] < 0 ? -fit->error[k] : fit->error[k];
            bias += fit->error[k];
            count++;
        }
        fprintf(t.to, "{\"%s\", \"%s\", %d, %.3f, %.3f},\n", group_of(row), chip_of(row), count, mean / count,
                bias / count);
    }
    return end_text_buffer(&t, folder, "error_bands.inc");
}

/* Returns the MFU that the row measured. */
static double mfu_of(const ls_row *row) {
    const ls_plan_task *task = &row->task;
    const ls_chip *chip = &task->cluster.site[0].chip;
    double flops = ls_plan_model_flops(&task->shape, (double)task->seq, (double)task->global_batch);
    return flops / (ls_row_measured(row) * ls_chip_peak(chip, row->layout.type) * ls_cluster_chips(&task->cluster));
}

/* Returns the name of a type's enum value. */
static const char *type_id(ls_plan_type type) {
    static const char *const ids[] = {[LS_PLAN_FP32] = "LS_PLAN_FP32",
                                      [LS_PLAN_FP16] = "LS_PLAN_FP16",
                                      [LS_PLAN_BF16] = "LS_PLAN_BF16",
                                      [LS_PLAN_FP8] = "LS_PLAN_FP8",
                                      [LS_PLAN_MXFP8] = "LS_PLAN_MXFP8"};
    return ids[type];
}

/* Writes best_mfu.inc: the best measured MFU for each chip and type. */
static ls_status write_best(const ls_rows *rows, const ls_fit *fit, const char *folder) {
    text t;
    LS_TRY(begin_text_buffer(&t));
    for (size_t i = 0; i < rows->count; i++) {
        const ls_row *row = &rows->row[i];
        double best = 0;
        if (fit->error[i] == 0 || !is_first(rows, fit, i, true)) continue;
        for (size_t k = i; k < rows->count; k++) {
            const ls_row *other = &rows->row[k];
            if (fit->error[k] == 0 || strcmp(chip_of(row), chip_of(other)) != 0 ||
                row->layout.type != other->layout.type)
                continue;
            if (mfu_of(other) > best) best = mfu_of(other);
        }
        fprintf(t.to, "{\"%s\", %s, %.3f},\n", chip_of(row), type_id(row->layout.type), best);
    }
    return end_text_buffer(&t, folder, "best_mfu.inc");
}

/* Writes the three files into `folder`, which it creates. */
static ls_status write_files(const ls_rows *rows, const ls_fit *fit, const char *folder) {
    LS_TRY(ls_dir_make(folder));
    LS_TRY(write_constants(fit, folder));
    LS_TRY(write_bands(rows, fit, folder));
    return write_best(rows, fit, folder);
}

/* Sets without[j], for each constant, to the error on groups left out if constant j keeps its usual value instead of
 * being fitted. */
static ls_status weigh(const ls_rows *rows, double *without) {
    for (int j = 0; j < LS_FITTED_COUNT; j++) {
        ls_fit fit;
        LS_TRY(ls_fit_find(rows, 1u << j, true, &fit));
        without[j] = fit.groups_out;
        ls_fit_free(&fit);
    }
    return LS_OK;
}

ls_status ls_cmd_plan_fit(const ls_options *options) {
    ls_rows rows;
    ls_fit fit = {0};
    double without[LS_FITTED_COUNT];
    bool left_out = options->leave_out || options->fit; /* bands are of runs that were not seen */
    LS_TRY(ls_rows_read(options->validate, &rows));
    ls_status status = ls_fit_find(&rows, 0, left_out, &fit);
    if (status == LS_OK && options->fit) status = weigh(&rows, without);
    if (status == LS_OK && options->fit) status = write_files(&rows, &fit, options->fit);
    if (status == LS_OK && options->json) {
        status = print_fit_json(&fit, left_out);
    } else if (status == LS_OK) {
        print_constants(&fit, options->fit ? without : NULL, left_out);
        print_groups(&fit);
        print_skipped(&rows);
        print_last(&fit, left_out);
    }
    ls_fit_free(&fit);
    ls_rows_free(&rows);
    return status;
}
