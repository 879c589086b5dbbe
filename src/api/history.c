/* history.c: implements ls_history (lockstep.h), the recorded series of a run by column name, over observe/series.h. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "lockstep.h"
#include "observe/series.h"

enum { COLUMNS_MAX = 40 };

struct ls_history {
    ls_series *series;
    const char *columns[COLUMNS_MAX];
    size_t column_count;
    char *json;
};

static const char step_name[] = "step", val_step_name[] = "val_step";

/* Fills h->columns with the names that have numbers: "step" and its columns first, then "val_step" and those of
 * evaluations. */
static void list_columns(ls_history *h) {
    const ls_run_log *log = ls_series_log(h->series);
    h->column_count = 0;
    if (log->step_count > 0) h->columns[h->column_count++] = step_name;
    for (int of_validation = 0; of_validation < 2; of_validation++) {
        if (of_validation && log->validation_count > 0) h->columns[h->column_count++] = val_step_name;
        for (size_t i = 0; i < ls_series_column_count && h->column_count < COLUMNS_MAX - 1; i++) {
            const ls_series_column *column = &ls_series_columns[i];
            if (column->of_validation == (of_validation != 0) && ls_series_has_column(log, column))
                h->columns[h->column_count++] = column->name;
        }
    }
}

ls_status ls_history_open(const char *run, ls_history **out) {
    *out = NULL;
    ls_history *h = calloc(1, sizeof *h);
    if (!h) return ls_fail(LS_ERR_RESOURCE, "out of memory for the history of a run");
    ls_status status = ls_series_open(run, LS_SERIES_PARENTS, &h->series);
    if (status != LS_OK) {
        free(h);
        return status;
    }
    list_columns(h);
    *out = h;
    return LS_OK;
}

void ls_history_close(ls_history *h) {
    if (!h) return;
    ls_series_close(h->series);
    free(h->json);
    free(h);
}

ls_status ls_history_refresh(ls_history *h, int *changed) {
    ls_series_change change;
    ls_status status = ls_series_refresh(h->series, &change);
    if (changed) *changed = change.any;
    if (change.any) {
        free(h->json);
        h->json = NULL;
        list_columns(h);
    }
    return status;
}

int ls_history_is_open(const ls_history *h) { return ls_series_log(h->series)->is_open; }

const char *ls_history_column(const ls_history *h, size_t index) {
    return index < h->column_count ? h->columns[index] : NULL;
}

size_t ls_history_count(const ls_history *h, const char *name) {
    const ls_run_log *log = ls_series_log(h->series);
    const ls_series_column *column = ls_series_column_find(name);
    if (strcmp(name, step_name) == 0) return log->step_count;
    if (strcmp(name, val_step_name) == 0) return log->validation_count;
    return !column ? 0 : column->of_validation ? log->validation_count : log->step_count;
}

size_t ls_history_read(const ls_history *h, const char *name, size_t first, size_t count, double *out) {
    const ls_run_log *log = ls_series_log(h->series);
    const ls_series_column *column = ls_series_column_find(name);
    bool is_step = strcmp(name, step_name) == 0;
    size_t all = ls_history_count(h, name), done = 0;
    for (; done < count && first + done < all; done++) {
        size_t i = first + done;
        out[done] = column    ? column->get(log, i)
                    : is_step ? (double)log->steps[i].step
                              : (double)log->validations[i].step;
    }
    return done;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Returns one start of a process: its step, machine and recovery time; members that were not recorded are missing. */
static json_t *start_json(const ls_run_log_start *s) {
    return json_pack("{s:I, s:i, s:s, s:s, s:s, s:o*, s:o*}", "step", (json_int_t)s->step, "restart", s->restart,
                     "version", s->version, "cpu", s->cpu, "device", s->device, "unix_ms",
                     s->unix_ms >= 0 ? json_integer(s->unix_ms) : NULL, "recovery_ms",
                     isfinite(s->recovery_ms) ? json_real(s->recovery_ms) : NULL);
}

/* Returns one event of the guards; members that were not recorded are missing. */
static json_t *event_json(const ls_run_log_event *e) {
    return json_pack("{s:I, s:s, s:o*, s:o*, s:o*, s:o*}", "step", (json_int_t)e->step, "event",
                     ls_run_log_event_name(e->kind), "worker", e->worker >= 0 ? json_integer(e->worker) : NULL, "what",
                     e->what[0] ? json_string(e->what) : NULL, "tensor", e->tensor[0] ? json_string(e->tensor) : NULL,
                     "block", e->block[0] ? json_string(e->block) : NULL);
}

/* Returns one generated text and its step. */
static json_t *sample_json(const ls_run_log_sample *s) {
    return json_pack("{s:I, s:s}", "step", (json_int_t)s->step, "text", s->text);
}

const char *ls_history_json(ls_history *h) {
    const ls_run_log *log = ls_series_log(h->series);
    if (h->json) return h->json;
    json_t *starts = json_array(), *events = json_array(), *samples = json_array();
    bool whole = starts && events && samples;
    for (size_t i = 0; i < log->start_count; i++)
        whole = json_array_append_new(starts, start_json(&log->starts[i])) == 0 && whole;
    for (size_t i = 0; i < log->event_count; i++)
        whole = json_array_append_new(events, event_json(&log->events[i])) == 0 && whole;
    for (size_t i = 0; i < log->sample_count; i++)
        whole = json_array_append_new(samples, sample_json(&log->samples[i])) == 0 && whole;
    double planned = ls_run_log_option_number(log, "steps");
    json_t *all = json_pack("{s:o, s:o, s:o, s:o*, s:o*}", "starts", starts, "events", events, "samples", samples,
                            "planned_steps", planned >= 0 && planned < 1e15 ? json_integer((json_int_t)planned) : NULL,
                            "stopped", log->stopped ? json_string(log->stop) : NULL);
    if (whole && all) h->json = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return h->json;
}
