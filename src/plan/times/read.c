/* read.c: a table of measured times, checked and brought to one unit: the time of a step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/published/csv.h"
#include "plan/times/times.h"

typedef struct metric_name {
    const char *name;
    ls_times_metric metric;
    double seconds; /* seconds of one unit, for times of a step; else unused */
    const char *unit;
} metric_name;

static const metric_name metrics[] = {
    {"seconds", LS_TIMES_SECONDS, 1, "s"},
    {"step_seconds", LS_TIMES_SECONDS, 1, "s"},
    {"iteration_seconds", LS_TIMES_SECONDS, 1, "s"},
    {"ms", LS_TIMES_SECONDS, 1e-3, "s"},
    {"hours", LS_TIMES_LONG, 1, "hours"},
    {"days", LS_TIMES_LONG, 1, "days"},
    {"throughput", LS_TIMES_THROUGHPUT, 1, ""},
    {"tokens_per_second", LS_TIMES_THROUGHPUT, 1, ""},
    {"samples_per_second", LS_TIMES_THROUGHPUT, 1, ""},
    {"speedup", LS_TIMES_SPEEDUP, 1, ""},
};
static const char *const chip_names[] = {"gpus", "workers", "chips", "n_gpus"};

enum { METRICS = sizeof metrics / sizeof metrics[0], CHIP_NAMES = sizeof chip_names / sizeof chip_names[0] };

typedef struct table {
    ls_csv csv;
    const char *chips; /* the name of its column */
    const metric_name *metric;
} table;

/* Finds the columns of chips and times, the first of each list that the file has. */
static ls_status find_columns(table *t) {
    for (int i = 0; i < CHIP_NAMES && !t->chips; i++)
        if (ls_csv_has(&t->csv, chip_names[i])) t->chips = chip_names[i];
    for (int i = 0; i < METRICS && !t->metric; i++)
        if (ls_csv_has(&t->csv, metrics[i].name)) t->metric = &metrics[i];
    if (!t->chips)
        return ls_fail(LS_ERR_INPUT, "%s has no column \"gpus\" (or workers, chips): the number of GPUs of each row",
                       t->csv.name);
    if (t->metric) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s has no time column: \"seconds\" per step, or ms, hours, days, throughput, speedup",
                   t->csv.name);
}

/* Reads a whole number from 1 to `most`; 0 if the column is missing or the field empty. */
static ls_status whole(const table *t, size_t row, const char *column, long long most, long long *out) {
    const char *text = ls_csv_field(&t->csv, row, column);
    char *end;
    *out = 0;
    if (!*text) return LS_OK;
    *out = strtoll(text, &end, 10);
    if (end == text || *end || *out < 1 || *out > most)
        return ls_csv_refuse(&t->csv, row, column, "it must be a whole number of 1 or more");
    return LS_OK;
}

/* Reads dp, tp, pp and batch sizes of a row, and completes and checks them; a row without dp, tp and pp has
 * no layout. */
static ls_status read_layout(const table *t, size_t i, ls_times_row *row) {
    long long dp, tp, pp, micro, batch;
    bool has_batch = ls_csv_has(&t->csv, "global_batch");
    LS_TRY(whole(t, i, "dp", 1 << 24, &dp));
    LS_TRY(whole(t, i, "tp", 1 << 16, &tp));
    LS_TRY(whole(t, i, "pp", 1 << 16, &pp));
    LS_TRY(whole(t, i, "micro_batch", 1 << 24, &micro));
    LS_TRY(whole(t, i, has_batch ? "global_batch" : "global_batch_seqs", 1LL << 40, &batch));
    row->micro = (size_t)micro;
    row->batch = (size_t)batch;
    if (dp || tp || pp) { /* what is not said is 1, or what the others leave */
        if (!tp) tp = 1;
        if (!pp) pp = 1;
        if (!dp) dp = row->chips / (tp * pp);
        if (dp * tp * pp != row->chips)
            return ls_fail(LS_ERR_INPUT, "%s, line %zu: dp %lld × tp %lld × pp %lld is %lld, not %d", t->csv.name,
                           t->csv.line[i], dp, tp, pp, dp * tp * pp, row->chips);
        row->dp = (int)dp, row->tp = (int)tp, row->pp = (int)pp;
    }
    if (row->batch && row->micro && row->dp && row->batch < row->micro * (size_t)row->dp)
        return ls_fail(LS_ERR_INPUT,
                       "%s, line %zu: dp %d with micro-batches of %zu needs a global_batch of at least %zu",
                       t->csv.name, t->csv.line[i], row->dp, row->micro, row->micro * (size_t)row->dp);
    return LS_OK;
}

/* Sets row->label, adding the label to out->label if it is new; a third one is LS_ERR_INPUT. */
static ls_status read_label(const table *t, size_t i, ls_times *out, ls_times_row *row) {
    const char *text = ls_csv_field(&t->csv, i, "label");
    if (!ls_csv_has(&t->csv, "label")) return LS_OK;
    for (row->label = 0; row->label < out->labels; row->label++)
        if (strncmp(out->label[row->label], text, LS_TIMES_LABEL_MAX - 1) == 0) return LS_OK;
    if (out->labels == 2)
        return ls_csv_refuse(&t->csv, i, "label",
                             "only two labels can be compared, e.g. before and after; this is a third");
    snprintf(out->label[out->labels++], LS_TIMES_LABEL_MAX, "%s", text);
    return LS_OK;
}

/* Appends a row, with its measured value not yet converted. */
static ls_status read_row(const table *t, size_t i, ls_times *out) {
    const char *text = ls_csv_field(&t->csv, i, t->metric->name);
    char *end;
    long long chips;
    if (out->count == LS_FIT_ROWS_MAX - 1)
        return ls_fail(LS_ERR_INPUT, "%s has more than %d rows", t->csv.name, LS_FIT_ROWS_MAX - 1);
    ls_times_row *row = &out->row[out->count++];
    LS_TRY(whole(t, i, t->chips, 1 << 24, &chips));
    if (chips == 0) return ls_csv_refuse(&t->csv, i, t->chips, "it must be a whole number of 1 or more");
    row->chips = (int)chips;
    row->measured = strtod(text, &end);
    if (end == text || *end || !(row->measured > 0) || !isfinite(row->measured))
        return ls_csv_refuse(&t->csv, i, t->metric->name, "it must be a number above 0");
    LS_TRY(read_layout(t, i, row));
    return read_label(t, i, out, row);
}

/* Adds the implied row of one chip, to which speed-ups are relative, unless the smallest row has 1 chip. */
static void add_base(ls_times *times) {
    int least = 0;
    for (int i = 1; i < times->count; i++)
        if (times->row[i].chips < times->row[least].chips) least = i;
    const ls_times_row *small = &times->row[least];
    if (times->metric != LS_TIMES_SPEEDUP || times->labels == 2 || small->chips == 1 || small->measured <= 1.0001)
        return;
    if (small->dp > 0 && small->tp * small->pp > 1) return;
    ls_times_row one = {.chips = 1, .measured = 1, .implied = true, .batch = small->batch};
    if (small->dp > 0) one.dp = one.tp = one.pp = 1, one.micro = small->micro;
    times->row[times->count++] = one;
}

/* Converts measured values to comparable times, row->time, and sets has_layout and has_batch. `unit`: seconds of
 * one unit. */
static void convert_to_steps(ls_times *times, double unit) {
    times->has_layout = times->has_batch = true;
    for (int i = 0; i < times->count; i++) {
        times->has_layout = times->has_layout && times->row[i].dp > 0;
        times->has_batch = times->has_batch && times->row[i].batch > 0;
    }
    for (int i = 0; i < times->count; i++) {
        ls_times_row *row = &times->row[i];
        /* Whole jobs and rates are for the same work; a step with a larger batch does more of it. */
        double work = times->has_batch ? (double)row->batch / (double)times->row[0].batch : 1;
        switch (times->metric) {
        case LS_TIMES_SECONDS: row->time = row->measured * unit; break;
        case LS_TIMES_LONG: row->time = row->measured * work; break;
        default: row->time = work / row->measured; break;
        }
    }
}

ls_status ls_times_read(const char *path, ls_times *out) {
    table t = {.chips = NULL};
    memset(out, 0, sizeof *out);
    LS_TRY(ls_csv_read(path, &t.csv));
    ls_status status = find_columns(&t);
    for (size_t i = 1; status == LS_OK && i < t.csv.rows; i++) status = read_row(&t, i, out);
    if (status == LS_OK && out->count < 2)
        status =
            ls_fail(LS_ERR_INPUT, "%s has one row; at least two sizes are needed to see how the times change", path);
    if (status == LS_OK) {
        out->metric = t.metric->metric;
        snprintf(out->column, sizeof out->column, "%s", t.metric->name);
        snprintf(out->unit, sizeof out->unit, "%s", t.metric->unit);
        add_base(out);
        convert_to_steps(out, t.metric->seconds);
    }
    ls_csv_free(&t.csv);
    return status;
}
