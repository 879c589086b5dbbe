/* board.c: turns a series into events. A board only remembers how much of each list it has written. */
#include "observe/tensorboard/board.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "observe/tensorboard/event_file.h"

enum { TAG_MAX = 64, COLUMNS_MAX = 32 };

struct ls_board {
    ls_series *series;
    ls_event_file *file;
    size_t steps, validations, samples; /* written */
    char tags[COLUMNS_MAX][TAG_MAX];    /* of the columns */
    double opened_s;
};

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* Returns a record's time in seconds; when the board was opened, if older versions recorded no time. */
static double seconds_of(const ls_board *b, long long unix_ms) {
    return unix_ms >= 0 ? (double)unix_ms / 1e3 : b->opened_s;
}

/* Writes the columns of step (or evaluation) number i as one event. Leaves out values that were not recorded. */
static ls_status write_row(ls_board *b, bool of_validation, long long step, long long unix_ms, size_t i) {
    const ls_run_log *log = ls_series_log(b->series);
    ls_event_scalar scalars[COLUMNS_MAX];
    size_t count = 0;
    for (size_t c = 0; c < ls_series_column_count && c < COLUMNS_MAX; c++) {
        const ls_series_column *column = &ls_series_columns[c];
        if (column->of_validation != of_validation || column->is_count) continue;
        double value = column->get(log, i);
        if (isnan(value) && !(column->is_told && column->is_told(log, i))) continue;
        scalars[count++] = (ls_event_scalar){b->tags[c], (float)value};
    }
    if (count == 0) return LS_OK;
    return ls_event_file_add_scalars(b->file, seconds_of(b, unix_ms), step, scalars, count);
}

/* Writes a text that the model generated, indented by four, so that TensorBoard does not interpret it as Markdown. */
static ls_status write_sample(ls_board *b, const ls_run_log_sample *sample) {
    size_t lines = 1, used = 0;
    for (const char *c = sample->text; *c; c++) lines += *c == '\n';
    char *text = malloc(strlen(sample->text) + 4 * lines + 1);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for a sample");
    memcpy(text, "    ", 4);
    used = 4;
    for (const char *c = sample->text; *c; c++) {
        text[used++] = *c;
        if (*c != '\n') continue;
        memcpy(text + used, "    ", 4);
        used += 4;
    }
    text[used] = '\0';
    ls_status status = ls_event_file_add_text(b->file, seconds_of(b, sample->unix_ms), sample->step, "sample", text);
    free(text);
    return status;
}

/* Writes the records that were not written yet, and flushes the file. */
static ls_status write_new(ls_board *b) {
    const ls_run_log *log = ls_series_log(b->series);
    for (; b->steps < log->step_count; b->steps++) {
        const ls_run_log_step *s = &log->steps[b->steps];
        LS_TRY(write_row(b, false, s->step, s->unix_ms, b->steps));
    }
    for (; b->validations < log->validation_count; b->validations++) {
        const ls_run_log_validation *v = &log->validations[b->validations];
        LS_TRY(write_row(b, true, v->step, v->unix_ms, b->validations));
    }
    for (; b->samples < log->sample_count; b->samples++) LS_TRY(write_sample(b, &log->samples[b->samples]));
    return ls_event_file_flush(b->file);
}

/* Forgets that records of `step` and later were written, and makes TensorBoard drop them. */
static ls_status go_back(ls_board *b, long long step) {
    const ls_run_log *log = ls_series_log(b->series);
    if (b->steps > log->step_count) b->steps = log->step_count;
    if (b->validations > log->validation_count) b->validations = log->validation_count;
    if (b->samples > log->sample_count) b->samples = log->sample_count;
    while (b->steps > 0 && log->steps[b->steps - 1].step >= step) b->steps--;
    while (b->validations > 0 && log->validations[b->validations - 1].step >= step) b->validations--;
    while (b->samples > 0 && log->samples[b->samples - 1].step >= step) b->samples--;
    return ls_event_file_add_start(b->file, (double)time(NULL), step);
}

ls_status ls_board_update(ls_board *b) {
    ls_series_change change;
    ls_status status = ls_series_refresh(b->series, &change);
    if (change.went_back) LS_TRY(go_back(b, change.first_step));
    if (change.any) LS_TRY(write_new(b));
    return status;
}

const ls_run_log *ls_board_log(const ls_board *b) { return ls_series_log(b->series); }

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* Removes the event files that earlier boards wrote to the folder, and no others. */
static void remove_old_events(const char *folder) {
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        const char *name = entry->d_name;
        if (strncmp(name, "events.out.tfevents.", 20) != 0 || !ls_ends_with(name, ".lockstep")) continue;
        ls_path path = ls_path_in(folder, name);
        (void)unlink(path.text); /* one that stays is void by the session start */
    }
    (void)closedir(dir);
}

/* Names the columns for TensorBoard: "train/loss", "validation/loss". */
static void name_tags(ls_board *b) {
    for (size_t c = 0; c < ls_series_column_count && c < COLUMNS_MAX; c++) {
        const ls_series_column *column = &ls_series_columns[c];
        const char *name = column->name;
        if (column->of_validation && strncmp(name, "val_", 4) == 0) name += 4;
        snprintf(b->tags[c], TAG_MAX, "%s/%s", column->of_validation ? "validation" : "train", name);
    }
}

ls_status ls_board_open(const char *run, const char *folder, ls_board **out) {
    ls_status status;
    *out = NULL;
    ls_board *b = calloc(1, sizeof *b);
    if (!b) return ls_fail(LS_ERR_RESOURCE, "out of memory for event files");
    b->opened_s = (double)time(NULL);
    name_tags(b);
    LS_TRY_OUT(ls_series_open(run, LS_SERIES_PARENTS, &b->series));
    remove_old_events(folder);
    LS_TRY_OUT(ls_event_file_create(folder, &b->file));
    LS_TRY_OUT(ls_event_file_add_start(b->file, b->opened_s, 0));
    LS_TRY_OUT(write_new(b));
    *out = b;
    return LS_OK;
out:
    ls_board_close(b);
    return status;
}

void ls_board_close(ls_board *b) {
    if (!b) return;
    ls_event_file_close(b->file);
    ls_series_close(b->series);
    free(b);
}
