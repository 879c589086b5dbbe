/* living.c: finds processes that have the lock of a run open, and reads the ends of their runs. */
#include "observe/living.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/memory.h"
#include "observe/series.h"

enum { LATE_STEPS = 20 };

/* Returns the target of a symbolic link, or "" if it is no link or cannot be read. */
static ls_path read_link(const char *name) {
    ls_path to;
    ssize_t bytes = readlink(name, to.text, sizeof to.text - 1);
    to.text[bytes > 0 ? bytes : 0] = '\0';
    return to;
}

/* Returns the process id of the parent, or 0 if unknown. */
static long parent_of(long pid) {
    char text[512];
    ls_path path = ls_path_format("/proc/%ld/stat", pid);
    char *data;
    size_t bytes;
    if (ls_file_read(path.text, sizeof text, &data, &bytes) != LS_OK) return 0;
    const char *behind = strrchr(data, ')'); /* the name before it may hold anything */
    long parent = 0;
    char state;
    if (!behind || sscanf(behind + 1, " %c %ld", &state, &parent) != 2) parent = 0;
    free(data);
    return parent;
}

/* Returns the topmost ancestor of `pid` (or pid itself) that runs the same executable: workers are children of the
 * command that the user started, and signals go to that one. */
static long command_of(long pid) {
    ls_path own = ls_path_format("/proc/%ld/exe", pid), exe = read_link(own.text);
    for (long above = parent_of(pid); exe.text[0] && above > 1; above = parent_of(above)) {
        own = ls_path_format("/proc/%ld/exe", above);
        ls_path other = read_link(own.text);
        if (strcmp(other.text, exe.text) != 0) break;
        pid = above;
    }
    return pid;
}

/* Adds the run to which the lock file at path `lock`, open in process `pid`, belongs. If the run is already listed,
 * only updates is_stopped (true if all its processes are suspended). Skips a lock that no process holds and folders
 * that are no runs. */
static ls_status add_living_run(ls_living **list, size_t *count, long pid, const char *lock) {
    bool is_stopped = ls_process_state((int)pid) == 'T';
    ls_living run = {.pid = command_of(pid), .is_stopped = is_stopped, .steps = LS_RUN_NONE, .step_s = (double)NAN};
    run.folder = ls_path_beside(lock, "");
    size_t length = strlen(run.folder.text);
    while (length > 1 && run.folder.text[length - 1] == '/') run.folder.text[--length] = '\0';
    for (size_t i = 0; i < *count; i++)
        if (strcmp((*list)[i].folder.text, run.folder.text) == 0) {
            (*list)[i].is_stopped &= is_stopped;
            return LS_OK;
        }
    /* An open descriptor proves nothing: only a process that trains holds the lock. */
    if (!ls_run_folder_is_open(run.folder.text)) return LS_OK;
    ls_status status = ls_series_read_end(run.folder.text, &run.log);
    if (status == LS_ERR_RESOURCE) return status;
    if (status != LS_OK) return LS_OK; /* the lock of something else */
    double steps = ls_run_log_option_number(&run.log, "steps"), sum = 0;
    if (steps >= 0 && steps < 1e15) run.steps = (long long)steps;
    size_t late = run.log.step_count < LATE_STEPS ? run.log.step_count : LATE_STEPS;
    for (size_t i = 0; i < late; i++) sum += run.log.steps[run.log.step_count - 1 - i].ms;
    if (late > 0) run.step_s = sum / 1e3 / (double)late;
    status = ls_array_grow(list, *count, sizeof **list, "runs at work");
    if (status == LS_OK)
        (*list)[(*count)++] = run;
    else
        ls_run_log_free(&run.log);
    return status;
}

/* Adds the runs of each file named "lock" that the process has open. Does nothing if the process may not be
 * inspected. */
static ls_status add_runs_of_process(long pid, ls_living **list, size_t *count) {
    ls_path folder = ls_path_format("/proc/%ld/fd", pid);
    ls_status status = LS_OK;
    DIR *dir = opendir(folder.text);
    if (!dir) return LS_OK;
    for (struct dirent *entry; status == LS_OK && (entry = readdir(dir)) != NULL;) {
        ls_path name = ls_path_in(folder.text, entry->d_name), to = read_link(name.text);
        if (to.text[0] == '/' && ls_ends_with(to.text, "/lock")) status = add_living_run(list, count, pid, to.text);
    }
    (void)closedir(dir);
    return status;
}

/* qsort() order: by the path of the folder. */
static int compare_folders(const void *a, const void *b) {
    return strcmp(((const ls_living *)a)->folder.text, ((const ls_living *)b)->folder.text);
}

ls_status ls_living_list(ls_living **out, size_t *count) {
    ls_status status = LS_OK;
    *out = NULL;
    *count = 0;
    DIR *dir = opendir("/proc");
    if (!dir) return ls_fail_errno(LS_ERR_FAILED, "cannot open /proc");
    for (struct dirent *entry; status == LS_OK && (entry = readdir(dir)) != NULL;) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && !*end && pid != (long)getpid()) status = add_runs_of_process(pid, out, count);
    }
    (void)closedir(dir);
    if (*count > 0) qsort(*out, *count, sizeof **out, compare_folders);
    if (status == LS_OK) return LS_OK;
    ls_living_free(*out, *count);
    *out = NULL;
    *count = 0;
    return status;
}

void ls_living_free(ls_living *list, size_t count) {
    for (size_t i = 0; i < count; i++) ls_run_log_free(&list[i].log);
    free(list);
}

double ls_living_eta(const ls_living *run) {
    const ls_run_log *log = &run->log;
    if (run->is_stopped || run->steps < 0 || log->step_count == 0 || !(run->step_s >= 0)) return -1;
    long long left = run->steps - log->steps[log->step_count - 1].step;
    return left >= 0 ? (double)left * run->step_s : -1;
}
