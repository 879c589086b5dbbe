/* resize.c: writes, reads and answers the request of `lockstep resize`. */
#include "run/recover/resize.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "comm/world/status_page.h"
#include "lockstep.h"
#include "run/folder/run_dir.h"
#include "run/folder/run_lock.h"

/* A supervisor that works answers within 0.1 s. */
enum { LOOK_US = 20000, LOOKS = 1500, LOOKS_A_SECOND = 50 };

/* Writes RUN/NAME; false if it is too long. */
static bool path_of(const char *run, const char *name, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/%s", run, name) < PATH_MAX;
}

/* Removes RUN/NAME, if it exists; ignores failures. */
static void remove_file(const char *run, const char *name) {
    char path[PATH_MAX];
    if (path_of(run, name, path)) (void)unlink(path);
}

/* Reads the first line of a file, without its newline. Returns false if the file does not exist. */
static bool read_first_line(const char *run, const char *name, char *text, size_t room) {
    char path[PATH_MAX];
    if (!path_of(run, name, path)) return false;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    if (!fgets(text, (int)room, file)) text[0] = '\0';
    (void)fclose(file);
    text[strcspn(text, "\n")] = '\0';
    return true;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Fails with LS_ERR_INPUT if no process works on the run: the lock of an inactive run is free. */
static ls_status check_works(const char *run) {
    ls_run_lock lock = LS_RUN_LOCK_NONE;
    if (!ls_run_dir_holds_run(run))
        return ls_fail(LS_ERR_INPUT, "%.200s is not a run folder; give the --out of a training run that is active",
                       run);
    if (ls_run_lock_take(run, true, &lock) != LS_OK) return LS_OK;
    ls_run_lock_release(&lock);
    return ls_fail(LS_ERR_INPUT,
                   "no run is active in %.200s; continue it on another number of workers: train --resume --dp N", run);
}

/* Fails with LS_ERR_INPUT if the run cannot be resized, as its status page says. Without a status page (the run starts,
 * or belongs to another machine or user) only its answer can tell. */
static ls_status check_resizes(const char *run) {
    const ls_status_page *page = ls_status_page_open(run);
    ls_status_resizes resizes = page ? (ls_status_resizes)atomic_load(&page->resizes) : LS_RESIZES_TAKEN;
    ls_status_page_close(page);
    switch (resizes) {
    case LS_RESIZES_UNSUPERVISED:
        return ls_fail(LS_ERR_INPUT,
                       "%.200s cannot be resized, because --restarts 0 leaves it without a supervisor; stop it, then "
                       "continue it on another number of workers: train --resume --dp N",
                       run);
    case LS_RESIZES_LAUNCHED:
        return ls_fail(LS_ERR_INPUT,
                       "%.200s cannot be resized, because mpirun or srun started its workers; stop it, then start "
                       "train --resume with another number of tasks",
                       run);
    case LS_RESIZES_OWN_STEPS:
        return ls_fail(LS_ERR_INPUT,
                       "%.200s cannot be resized, because its program calls ls_run_step() itself; stop it, then start "
                       "it with another number of workers",
                       run);
    default: return LS_OK;
    }
}

/* Returns whether the run has answered this request, and sets *status and `text` to its answer. */
static bool read_answer(const char *run, int workers, char text[LS_RESIZE_TEXT_MAX], ls_status *status) {
    char line[LS_RESIZE_TEXT_MAX + 32] = "", word[4] = "";
    int number, at = 0;
    if (!read_first_line(run, "resize.answer", line, sizeof line)) return false;
    if (sscanf(line, "%d %3s %n", &number, word, &at) < 2 || number != workers) return false;
    bool is_yes = strcmp(word, "yes") == 0;
    snprintf(text, LS_RESIZE_TEXT_MAX, "%s", line + at);
    *status = is_yes ? LS_OK : ls_fail(LS_ERR_INPUT, "%.200s was not resized: %s", run, text);
    return true;
}

/* Polls for the answer; once a second also checks that the run is still active. */
static ls_status await_answer(const char *run, int workers, char text[LS_RESIZE_TEXT_MAX]) {
    ls_status status;
    for (int look = 1; look <= LOOKS; look++) {
        if (read_answer(run, workers, text, &status)) return status;
        ls_clock_sleep_us(LOOK_US);
        if (look % LOOKS_A_SECOND != 0) continue;
        LS_TRY(check_works(run));
        LS_TRY(check_resizes(run));
    }
    return ls_fail(LS_ERR_DEADLINE,
                   "%.200s was not resized, because its supervisor did not answer within %d s: if it is suspended, "
                   "continue it with kill -CONT and ask again; if it is an older version of lockstep, stop the run and "
                   "continue it with train --resume --dp N",
                   run, LOOKS / LOOKS_A_SECOND);
}

ls_status ls_resize_ask(const char *run, int workers, char text[LS_RESIZE_TEXT_MAX]) {
    char path[PATH_MAX], note[32];
    LS_TRY(check_works(run));
    LS_TRY(check_resizes(run));
    if (!path_of(run, "resize", path)) return ls_fail(LS_ERR_INPUT, "the path %.100s… is too long", run);
    int bytes = snprintf(note, sizeof note, "%d\n", workers);
    remove_file(run, "resize.answer"); /* to a command that did not wait for it */
    LS_TRY(ls_file_write_atomic(path, note, (size_t)bytes));
    ls_status status = await_answer(run, workers, text);
    remove_file(run, "resize");
    remove_file(run, "resize.answer");
    return status;
}

/* ---- the supervisor ---------------------------------------------------------------------------------------------- */

bool ls_resize_take(const char *run, int *workers) {
    char text[32] = "", *end = text;
    if (!read_first_line(run, "resize", text, sizeof text)) return false;
    long number = strtol(text, &end, 10);
    *workers = end == text || number < 1 || number > LS_WORKERS_MAX ? -1 : (int)number;
    remove_file(run, "resize");
    return true;
}

void ls_resize_answer(const char *run, int workers, bool is_accepted, const char *text) {
    char path[PATH_MAX], line[LS_RESIZE_TEXT_MAX + 32];
    int bytes = snprintf(line, sizeof line, "%d %s %s\n", workers, is_accepted ? "yes" : "no", text);
    if (bytes >= (int)sizeof line || !path_of(run, "resize.answer", path)) return;
    if (ls_file_write_atomic(path, line, (size_t)bytes) != LS_OK) ls_log_warn("%s", ls_status_message());
}
