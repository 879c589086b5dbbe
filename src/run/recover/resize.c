/* resize.c: writing and reading the note. */
#include "run/recover/resize.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/files.h"
#include "lockstep.h"
#include "run/folder/run_dir.h"
#include "run/folder/run_lock.h"

static bool path_of(const char *run, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/resize", run) < PATH_MAX;
}

/* Nobody has the lock of a run that is not at work. */
static ls_status check_works(const char *run) {
    ls_run_lock lock = LS_RUN_LOCK_NONE;
    if (!ls_run_dir_holds_run(run)) return ls_fail(LS_ERR_INPUT, "%.200s is not the folder of a run", run);
    if (ls_run_lock_take(run, true, &lock) != LS_OK) return LS_OK;
    ls_run_lock_release(&lock);
    return ls_fail(LS_ERR_INPUT,
                   "no run is at work in %.200s: continue it with another number of workers by train --resume", run);
}

ls_status ls_resize_ask(const char *run, int workers) {
    char path[PATH_MAX], text[32];
    LS_TRY(check_works(run));
    if (!path_of(run, path)) return ls_fail(LS_ERR_INPUT, "the path %.100s… is too long", run);
    int bytes = snprintf(text, sizeof text, "%d\n", workers);
    return ls_file_write_atomic(path, text, (size_t)bytes);
}

bool ls_resize_take(const char *run, int *workers) {
    char path[PATH_MAX], text[32] = "", *end = text;
    if (!path_of(run, path) || access(path, F_OK) != 0) return false;
    FILE *file = fopen(path, "re");
    if (file && fgets(text, sizeof text, file)) *workers = (int)strtol(text, &end, 10);
    if (file) fclose(file);
    if (end == text || *workers < 1 || *workers > LS_WORKERS_MAX) *workers = -1;
    (void)unlink(path);
    return true;
}
