/* store_folder.c: names in the folder of a store, and `latest` and `best`, which name one of them. */
#include "checkpoint/store_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "checkpoint/folder.h"

enum { STEP_DIGITS = 9, LATEST_BYTES_MAX = 64 };

static ls_status out_of_memory(const ls_store *store) {
    return ls_fail(LS_ERR_RESOURCE, "out of memory to list the checkpoints in %s", store->folder);
}

/* Only the form that ls_store_path() writes. */
static bool parse_name(const char *text, ls_store_name *name) {
    const char prefix[] = "step-";
    if (strncmp(text, prefix, sizeof prefix - 1) != 0) return false;
    const char *digits = text + sizeof prefix - 1;
    size_t length = strspn(digits, "0123456789");
    if (length < STEP_DIGITS || (length > STEP_DIGITS && digits[0] == '0')) return false;
    errno = 0;
    name->step = strtoll(digits, NULL, 10);
    if (errno != 0) return false;
    return snprintf(name->suffix, sizeof name->suffix, "%s", digits + length) < (int)sizeof name->suffix;
}

ls_status ls_store_names(const ls_store *store, ls_store_name **names, int *count) {
    *names = NULL;
    *count = 0;
    DIR *dir = opendir(store->folder);
    if (!dir && errno == ENOENT) return LS_OK;
    if (!dir) return ls_fail_errno(LS_ERR_INPUT, "cannot open folder %s", store->folder);
    ls_status status = LS_OK;
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir)) != NULL) {
        ls_store_name name;
        if (!parse_name(entry->d_name, &name)) continue;
        ls_store_name *more = realloc(*names, ((size_t)*count + 1) * sizeof *more);
        if (!more) {
            status = out_of_memory(store);
            break;
        }
        *names = more;
        more[(*count)++] = name;
    }
    if (status == LS_OK && errno != 0) status = ls_fail_errno(LS_ERR_INPUT, "cannot read folder %s", store->folder);
    (void)closedir(dir);
    if (status == LS_OK) return LS_OK;
    free(*names);
    *names = NULL;
    *count = 0;
    return status;
}

ls_status ls_store_path(const ls_store *store, int64_t step, const char *suffix, char **path) {
    if (asprintf(path, "%s/step-%0*" PRId64 "%s", store->folder, STEP_DIGITS, step, suffix) >= 0) return LS_OK;
    *path = NULL;
    return out_of_memory(store);
}

ls_status ls_store_rename(const ls_store *store, int64_t step, const char *from, const char *to) {
    char *old = NULL, *new = NULL;
    ls_status status;
    LS_TRY_OUT(ls_store_path(store, step, from, &old));
    LS_TRY_OUT(ls_store_path(store, step, to, &new));
    LS_TRY_OUT(ls_folder_remove(new));
    if (rename(old, new) != 0) status = ls_fail_errno(LS_ERR_FAILED, "cannot rename %s to %s", old, new);
out:
    free(old);
    free(new);
    return status;
}

ls_status ls_store_remove(const ls_store *store, int64_t step, const char *suffix) {
    char *path = NULL;
    ls_status status;
    if (*suffix == '\0') {
        LS_TRY(ls_store_rename(store, step, "", LS_STORE_PARTIAL));
        suffix = LS_STORE_PARTIAL;
    }
    LS_TRY_OUT(ls_store_path(store, step, suffix, &path));
    LS_TRY_OUT(ls_folder_remove(path));
out:
    free(path);
    return status;
}

/* ---- latest and best --------------------------------------------------------------------------------------------- */

/* Of those up to `most`; −1: none. */
static ls_status find_newest(const ls_store *store, int64_t most, int64_t *step) {
    ls_store_entry *entries;
    int count;
    *step = -1;
    LS_TRY(ls_store_list(store, &entries, &count));
    for (int i = 0; i < count; i++)
        if (entries[i].is_complete && entries[i].step <= most) *step = entries[i].step;
    free(entries);
    return LS_OK;
}

static ls_status write_text(const char *path, const char *text) {
    char *old = NULL;
    size_t bytes = 0;
    bool is_same = ls_file_read(path, LATEST_BYTES_MAX, &old, &bytes) == LS_OK && strcmp(old, text) == 0;
    free(old);
    return is_same ? LS_OK : ls_file_write_atomic(path, text, strlen(text));
}

/* −1: no step. */
static ls_status write_name(const ls_store *store, const char *name, int64_t step) {
    char text[64];
    char *path = ls_folder_join(store->folder, name);
    if (!path) return out_of_memory(store);
    ls_status status = LS_OK;
    snprintf(text, sizeof text, "step-%0*" PRId64 "\n", STEP_DIGITS, step);
    if (step >= 0)
        status = write_text(path, text);
    else if (unlink(path) != 0 && errno != ENOENT)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot remove %s, which names no checkpoint", path);
    free(path);
    return status;
}

ls_status ls_store_fix_latest(const ls_store *store) {
    int64_t step;
    LS_TRY(find_newest(store, INT64_MAX, &step));
    return write_name(store, "latest", step);
}

ls_status ls_store_fix_best(const ls_store *store) {
    int64_t step;
    LS_TRY(find_newest(store, store->best, &step));
    return write_name(store, "best", step == store->best ? step : -1);
}

int64_t ls_store_read_best(const ls_store *store) {
    char *path = ls_folder_join(store->folder, "best"), *text = NULL;
    size_t bytes = 0;
    ls_store_name name = {.step = -1};
    bool is_named = path && ls_file_exists(path) && ls_file_read(path, LATEST_BYTES_MAX, &text, &bytes) == LS_OK &&
                    parse_name(text, &name);
    free(text);
    free(path);
    return is_named ? name.step : -1;
}
