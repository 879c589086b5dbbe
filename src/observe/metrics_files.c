/* metrics_files.c: names of metrics files that were set aside: lists, makes and undoes them. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory.h"
#include "observe/metrics.h"

enum { DIGITS = 12 };

/* Returns the file's name within `path`; sets *length to its length without ".jsonl". */
static const char *stem_of(const char *path, int *length) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    *length = dot ? (int)(dot - name) : (int)strlen(name);
    return name;
}

/* Returns the step in "metrics-000000001234.jsonl" for the stem "metrics", or -1 for any other name. */
static int64_t step_of(const char *stem, int length, const char *name) {
    if (strncmp(name, stem, (size_t)length) != 0 || name[length] != '-') return -1;
    const char *digits = name + length + 1;
    if (strspn(digits, "0123456789") != DIGITS || strcmp(digits + DIGITS, ".jsonl") != 0) return -1;
    return strtoll(digits, NULL, 10);
}

/* qsort() order: ascending steps. */
static int compare_steps(const void *a, const void *b) {
    int64_t x = ((const ls_metrics_file *)a)->last_step, y = ((const ls_metrics_file *)b)->last_step;
    return x == y ? 0 : x < y ? -1 : 1;
}

ls_status ls_metrics_files(const char *path, ls_metrics_file **files, int *count) {
    int length;
    const char *stem = stem_of(path, &length);
    ls_path folder = ls_path_beside(path, ".");
    ls_status status = LS_OK;
    *files = NULL;
    *count = 0;
    DIR *dir = opendir(folder.text);
    if (!dir) return errno == ENOENT ? LS_OK : ls_fail_errno(LS_ERR_INPUT, "cannot open folder %s", folder.text);
    for (struct dirent *entry; status == LS_OK && (entry = readdir(dir)) != NULL;) {
        int64_t step = step_of(stem, length, entry->d_name);
        if (step < 0) continue;
        status = ls_array_grow(files, (size_t)*count, sizeof **files, "files of metrics");
        if (status != LS_OK) break;
        ls_metrics_file *file = &(*files)[(*count)++];
        file->last_step = step;
        file->path = ls_path_beside(path, entry->d_name);
    }
    (void)closedir(dir);
    if (*count > 0) qsort(*files, (size_t)*count, sizeof **files, compare_steps);
    if (status == LS_OK) return LS_OK;
    free(*files);
    *files = NULL;
    *count = 0;
    return status;
}

ls_status ls_metrics_set_aside(const char *path, int64_t last_step, ls_path *out) {
    int length;
    const char *stem = stem_of(path, &length);
    char name[NAME_MAX + 1];
    out->text[0] = '\0';
    snprintf(name, sizeof name, "%.*s-%0*" PRId64 ".jsonl", length, stem, DIGITS, last_step);
    ls_path aside = ls_path_beside(path, name);
    if (last_step < 0 || ls_file_exists(aside.text)) return LS_OK;
    if (rename(path, aside.text) != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot rename %s", path);
    *out = aside;
    return LS_OK;
}

/* Removes from the latest back, so that a crash leaves a series without its end, never one with a gap. */
ls_status ls_metrics_go_back(const char *path, int64_t step) {
    ls_metrics_file *files;
    int count, first = 0;
    LS_TRY(ls_metrics_files(path, &files, &count));
    ls_status status = LS_OK;
    while (first < count && files[first].last_step <= step) first++;
    if (first < count && unlink(path) != 0 && errno != ENOENT)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot remove %s", path);
    for (int i = count - 1; i > first && status == LS_OK; i--)
        if (unlink(files[i].path.text) != 0)
            status = ls_fail_errno(LS_ERR_FAILED, "cannot remove %s", files[i].path.text);
    if (first < count && status == LS_OK && rename(files[first].path.text, path) != 0)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot rename %s", files[first].path.text);
    free(files);
    return status;
}
