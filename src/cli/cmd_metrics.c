/* cmd_metrics.c: `lockstep metrics RUN`: the series of a run as a table, as JSON, or as event files for TensorBoard. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "observe/series.h"
#include "observe/tensorboard/board.h"

enum { COLUMNS_MAX = 32, SHOWN = 80, NUMBER_MAX = 40, UPDATE_MS = 1000 };

typedef struct table {
    const ls_run_log *log;
    const ls_series_column *columns[COLUMNS_MAX]; /* to print, after the step */
    size_t count;
    long long every; /* prints every so many steps */
} table;

/* Adds the column called `name`, once; "step" is always printed and adds nothing. Fails for an unknown name. */
static ls_status add_column(table *t, const ls_options *o, const char *name) {
    const ls_series_column *column = ls_series_column_find(name);
    if (strcmp(name, "step") == 0) return LS_OK; /* it is always there */
    if (!column) {
        char names[512] = "";
        for (size_t i = 0, used = 0; i < ls_series_column_count && used < sizeof names; i++)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", ls_series_columns[i].name);
        return ls_options_fail(o, LS_OPT_columns, "there is no column '%.*s'; available columns: step, %s", SHOWN, name,
                               names);
    }
    for (size_t i = 0; i < t->count; i++)
        if (t->columns[i] == column) return LS_OK;
    if (t->count < COLUMNS_MAX) t->columns[t->count++] = column;
    return LS_OK;
}

/* Chooses the columns of --columns or, without it, all that the run recorded. */
static ls_status choose_columns(table *t, const ls_options *o) {
    if (!o->columns) {
        for (size_t i = 0; i < ls_series_column_count && t->count < COLUMNS_MAX; i++)
            if (ls_series_has_column(t->log, &ls_series_columns[i])) t->columns[t->count++] = &ls_series_columns[i];
        return LS_OK;
    }
    char *list = strdup(o->columns), *rest = list;
    if (!list) return ls_fail(LS_ERR_RESOURCE, "out of memory for the columns");
    ls_status status = LS_OK;
    for (char *name; status == LS_OK && (name = strsep(&rest, ",")) != NULL;)
        if (*name) status = add_column(t, o, name);
    free(list);
    return status;
}

/* Returns a number with the fewest digits, from 9 on, that read back to the same bits: in `text`, or a static "nan",
 * "inf" or "-inf". */
static const char *number_text(double value, char text[NUMBER_MAX]) {
    if (isnan(value)) return "nan";
    if (isinf(value)) return value > 0 ? "inf" : "-inf";
    for (int digits = 9; digits <= 17; digits++) {
        snprintf(text, NUMBER_MAX, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    if (fabs(value) < 9e15 && value == floor(value)) snprintf(text, NUMBER_MAX, "%.0f", value);
    return text;
}

/* Returns whether record i has a value in this column: a number, or a NaN that was itself recorded. */
static bool is_recorded(const ls_series_column *column, const ls_run_log *log, size_t i) {
    return !isnan(column->get(log, i)) || (column->is_told && column->is_told(log, i));
}

/* Prints a row. at_step, at_validation: indices of the step's record and of the evaluation after it; NULL: there is
 * none, its columns stay empty. */
static void print_step_row(const table *t, long long step, const size_t *at_step, const size_t *at_validation) {
    char text[NUMBER_MAX];
    printf("%lld", step);
    for (size_t c = 0; c < t->count; c++) {
        const ls_series_column *column = t->columns[c];
        const size_t *at = column->of_validation ? at_validation : at_step;
        putchar(',');
        if (at && is_recorded(column, t->log, *at)) fputs(number_text(column->get(t->log, *at), text), stdout);
    }
    putchar('\n');
}

/* Prints the table as CSV: every --every-th step, each step with an evaluation, and the last. */
static void print_csv(const table *t) {
    const ls_run_log *log = t->log;
    printf("step");
    for (size_t c = 0; c < t->count; c++) printf(",%s", t->columns[c]->name);
    putchar('\n');
    for (size_t i = 0, v = 0; i < log->step_count || v < log->validation_count;) {
        long long step = i < log->step_count ? log->steps[i].step : log->validations[v].step;
        if (v < log->validation_count && log->validations[v].step < step) step = log->validations[v].step;
        bool has_step = i < log->step_count && log->steps[i].step == step;
        /* Where an evaluation was repeated after a resume, the later one. */
        bool has_validation = false;
        size_t validation = v;
        for (; v < log->validation_count && log->validations[v].step <= step; v++) {
            has_validation = true;
            validation = v;
        }
        bool is_last = i + 1 >= log->step_count;
        if (step % t->every == 0 || has_validation || is_last)
            print_step_row(t, step, has_step ? &i : NULL, has_validation ? &validation : NULL);
        i += has_step;
    }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Prints a number as JSON; NaN and infinities as texts, as metrics.jsonl does. */
static void print_json_number(double value) {
    char text[NUMBER_MAX];
    if (isfinite(value))
        fputs(number_text(value, text), stdout);
    else
        printf("\"%s\"", number_text(value, text));
}

/* Returns whether entry i of `count` is printed: every --every-th step, and the last entry. */
static bool is_shown(const table *t, long long step, size_t i, size_t count) {
    return step % t->every == 0 || i + 1 == count;
}

/* Prints "steps":{"step":[…],"loss":[…]}, or the same for evaluations, with null for what was not recorded and a text
 * for what is not finite. */
static void print_json_lists(const table *t, bool of_validation) {
    const ls_run_log *log = t->log;
    size_t count = of_validation ? log->validation_count : log->step_count;
    printf("\"%s\":{\"step\":[", of_validation ? "validations" : "steps");
    for (int c = -1; c < (int)t->count; c++) {
        const ls_series_column *column = c < 0 ? NULL : t->columns[c];
        const char *before = "";
        if (column && column->of_validation != of_validation) continue;
        if (column) printf("],\"%s\":[", column->name);
        for (size_t i = 0; i < count; i++) {
            long long step = of_validation ? log->validations[i].step : log->steps[i].step;
            if (!of_validation && !is_shown(t, step, i, count)) continue;
            fputs(before, stdout);
            before = ",";
            if (!column)
                printf("%lld", step);
            else if (is_recorded(column, log, i))
                print_json_number(column->get(log, i));
            else
                printf("null");
        }
    }
    printf("]}");
}

/* Prints a value without a newline and releases it; NULL fails with LS_ERR_RESOURCE. */
static ls_status print_json_text(json_t *json) {
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(json);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for JSON");
    fputs(text, stdout);
    free(text);
    return LS_OK;
}

/* Prints the run as one JSON object: columns, starts, events and text samples. */
static ls_status print_metrics_json(const table *t, const char *run) {
    const ls_run_log *log = t->log;
    printf("{\"run\":");
    LS_TRY(print_json_text(ls_cli_json_path(run)));
    printf(",\"is_open\":%s,", log->is_open ? "true" : "false");
    print_json_lists(t, false);
    putchar(',');
    print_json_lists(t, true);
    printf(",\"starts\":[");
    for (size_t i = 0; i < log->start_count; i++) {
        const ls_run_log_start *s = &log->starts[i];
        if (i > 0) putchar(',');
        LS_TRY(print_json_text(json_pack("{s:I, s:i, s:s, s:o*}", "step", (json_int_t)s->step, "restart", s->restart,
                                         "version", s->version, "unix_ms",
                                         s->unix_ms >= 0 ? json_integer(s->unix_ms) : NULL)));
    }
    printf("],\"events\":[");
    for (size_t i = 0; i < log->event_count; i++) {
        const ls_run_log_event *e = &log->events[i];
        if (i > 0) putchar(',');
        LS_TRY(print_json_text(json_pack("{s:I, s:s, s:o*, s:o*}", "step", (json_int_t)e->step, "event",
                                         ls_run_log_event_name(e->kind), "worker",
                                         e->worker >= 0 ? json_integer(e->worker) : NULL, "what",
                                         ls_cli_json_text_if(e->what[0] ? e->what : NULL))));
    }
    printf("],\"samples\":[");
    for (size_t i = 0; i < log->sample_count; i++) {
        if (i > 0) putchar(',');
        LS_TRY(print_json_text(
            json_pack("{s:I, s:s}", "step", (json_int_t)log->samples[i].step, "text", log->samples[i].text)));
    }
    printf("]}\n");
    return LS_OK;
}

/* Prints the run, with the steps of the runs it was forked from, as CSV or JSON. */
static ls_status print_table(const ls_options *o) {
    ls_series *series;
    LS_TRY(ls_series_open(o->run, LS_SERIES_PARENTS, &series));
    table t = {.log = ls_series_log(series), .every = o->every};
    ls_status status = choose_columns(&t, o);
    if (status == LS_OK && o->json)
        status = print_metrics_json(&t, o->run);
    else if (status == LS_OK)
        print_csv(&t);
    ls_series_close(series);
    return status;
}

/* ---- TensorBoard ------------------------------------------------------------------------------------------------- */

/* Waits for at most `wait_ms`; returns whether standard input, a pipe that the run's processes hold, has been
 * closed. */
static bool has_ended(int wait_ms) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char rest[64];
    if (poll(&input, 1, wait_ms) <= 0) return false;
    return (input.revents & (POLLHUP | POLLERR | POLLNVAL)) || read(STDIN_FILENO, rest, sizeof rest) <= 0;
}

/* Ignores the signals that end the run, because a terminal sends them to this process too: it ends when the run
 * does. */
static void leave_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) (void)signal(signals[i], SIG_IGN);
}

/* Writes event files for TensorBoard every second until the run ends. `train --tensorboard` starts this process with a
 * pipe as its standard input; with a terminal there, the run ends when no process has its folder open. */
static ls_status follow(const ls_options *o, const char *folder) {
    ls_board *board = NULL;
    ls_status status = LS_OK;
    bool is_pipe = !isatty(STDIN_FILENO), ended = false;
    if (is_pipe) leave_signals();
    /* A new run has no folder yet, and a run that goes on may be about to be cut back: wait for what it does first. */
    while (status == LS_OK && !ended) {
        ended = is_pipe ? has_ended(UPDATE_MS) : (usleep(UPDATE_MS * 1000), !ls_run_folder_is_open(o->run));
        if (!board) {
            ls_path metrics = ls_path_in(o->run, "metrics.jsonl");
            if (!ls_file_exists(metrics.text)) continue;
            status = ls_board_open(o->run, folder, &board);
        } else {
            status = ls_board_update(board);
        }
    }
    ls_board_close(board);
    return status;
}

/* Writes the run as event files for TensorBoard, once or (--follow) while it trains. */
static ls_status write_board(const ls_options *o) {
    ls_board *board;
    bool in_run = strcmp(o->tensorboard, "run") == 0;
    ls_path folder = in_run ? ls_path_in(o->run, "tensorboard") : ls_path_format("%s", o->tensorboard);
    if (o->follow) return follow(o, folder.text);
    LS_TRY(ls_board_open(o->run, folder.text, &board));
    const ls_run_log *log = ls_board_log(board);
    printf("wrote %zu steps, %zu evaluations and %zu samples to %s; view them with: tensorboard --logdir %s\n",
           log->step_count, log->validation_count, log->sample_count, folder.text, folder.text);
    ls_board_close(board);
    return LS_OK;
}

/* Runs `lockstep metrics`: prints the run's table, or writes it for TensorBoard. */
ls_status ls_cmd_metrics(const ls_options *o) {
    if (!o->run) return ls_fail(LS_ERR_INPUT, "metrics needs a run: lockstep metrics RUN");
    if (o->csv && o->json) return ls_options_fail(o, LS_OPT_csv, "print CSV or JSON, not both");
    if (o->follow && !o->tensorboard) return ls_options_fail(o, LS_OPT_follow, "only --tensorboard can follow a run");
    return o->tensorboard ? write_board(o) : print_table(o);
}
