/* store.c: opens the checkpoints of a run, cleans up after a crash, and finds a sound checkpoint.
 *
 * What a crash can leave, and what opening for writing does about it:
 *
 *     step-N.partial                        removed
 *     step-N.replaced, and step-N complete  the new one was renamed: the old one is removed
 *     step-N.replaced alone                 it was not: the old one gets its name back
 *     latest one behind                     corrected
 *     best one behind                       corrected by the next save */
#include "checkpoint/store.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "checkpoint/store_folder.h"

enum { CARRIED_BYTES_MAX = 1 << 28, STEP_DIGITS = 9, LATEST_BYTES_MAX = 64, NAME_BYTES = 32 };

/* Fails with LS_ERR_RESOURCE: out of memory. */
static ls_status fail_store_memory(const ls_store *store) {
    return ls_fail(LS_ERR_RESOURCE, "out of memory to look at the checkpoints in %s", store->folder.text);
}

/* ---- names in the folder, and `latest` and `best`, which name one of them ---------------------------------------- */

/* Parses a name of the form that ls_store_path() writes, with any suffix of at most 15 characters; false for any
 * other. */
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
    DIR *dir = opendir(store->folder.text);
    if (!dir && errno == ENOENT) return LS_OK;
    if (!dir) return ls_fail_errno(LS_ERR_INPUT, "cannot open folder %s", store->folder.text);
    ls_status status = LS_OK;
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir)) != NULL) {
        ls_store_name name;
        if (!parse_name(entry->d_name, &name)) continue;
        ls_store_name *more = realloc(*names, ((size_t)*count + 1) * sizeof *more);
        if (!more) {
            status = fail_store_memory(store);
            break;
        }
        *names = more;
        more[(*count)++] = name;
    }
    if (status == LS_OK && errno != 0)
        status = ls_fail_errno(LS_ERR_INPUT, "cannot read folder %s", store->folder.text);
    (void)closedir(dir);
    if (status == LS_OK) return LS_OK;
    free(*names);
    *names = NULL;
    *count = 0;
    return status;
}

/* Writes "step-000000100" for step 100. */
static void print_name(char name[NAME_BYTES], int64_t step) {
    snprintf(name, NAME_BYTES, "step-%0*" PRId64, STEP_DIGITS, step);
}

ls_path ls_store_path(const ls_store *store, int64_t step, const char *suffix) {
    char name[NAME_BYTES];
    print_name(name, step);
    return ls_path_format("%s/%s%s", store->folder.text, name, suffix);
}

ls_status ls_store_rename(const ls_store *store, int64_t step, const char *from, const char *to) {
    ls_path old = ls_store_path(store, step, from), new = ls_store_path(store, step, to);
    LS_TRY(ls_folder_remove(new.text));
    if (rename(old.text, new.text) == 0) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot rename %s to %s", old.text, new.text);
}

ls_status ls_store_remove(const ls_store *store, int64_t step, const char *suffix) {
    if (*suffix == '\0') {
        LS_TRY(ls_store_rename(store, step, "", LS_STORE_PARTIAL));
        suffix = LS_STORE_PARTIAL;
    }
    return ls_folder_remove(ls_store_path(store, step, suffix).text);
}

/* ---- latest and best --------------------------------------------------------------------------------------------- */

/* Finds the newest step up to `most` whose checkpoint has a marker; *step −1: none. Compares no checksums. */
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

/* Replaces the content of the file by `text`, atomically, unless it has this content already. */
static ls_status write_text(const char *path, const char *text) {
    char *old = NULL;
    size_t bytes = 0;
    bool is_same = ls_file_read(path, LATEST_BYTES_MAX, &old, &bytes) == LS_OK && strcmp(old, text) == 0;
    free(old);
    return is_same ? LS_OK : ls_file_write_atomic(path, text, strlen(text));
}

/* Makes the file `name` (`latest` or `best`) name the step; removes the file for step −1. */
static ls_status write_name(const ls_store *store, const char *name, int64_t step) {
    char text[NAME_BYTES + 1];
    ls_path path = ls_path_in(store->folder.text, name);
    print_name(text, step);
    if (step >= 0) return write_text(path.text, strcat(text, "\n"));
    if (unlink(path.text) == 0 || errno == ENOENT) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot remove %s, which names no checkpoint", path.text);
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

/* Returns the step that the file at `path` names; −1 if it is missing or has other content. */
static int64_t read_name(const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    ls_store_name name = {.step = -1};
    bool is_named =
        ls_file_exists(path) && ls_file_read(path, LATEST_BYTES_MAX, &text, &bytes) == LS_OK && parse_name(text, &name);
    free(text);
    return is_named ? name.step : -1;
}

bool ls_store_follow(const char *path, ls_path *folder) {
    struct stat about;
    char name[NAME_BYTES];
    int64_t step = stat(path, &about) == 0 && S_ISREG(about.st_mode) ? read_name(path) : -1;
    if (step < 0) return false;
    print_name(name, step);
    *folder = ls_path_beside(path, name);
    return true;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Returns whether the last failure was one of access (permission, I/O, stale handle), which says nothing about damage
 * of the checkpoint. */
static bool is_unreadable(void) {
    int cause = ls_fail_cause();
    return cause == EACCES || cause == EPERM || cause == EIO || cause == ESTALE;
}

/* Sets *out to whether the step's folder has a marker; fails only if that cannot be found out. */
static ls_status is_complete(const ls_store *store, int64_t step, bool *out) {
    struct stat about;
    ls_path marker = ls_path_in(ls_store_folder(store, step).text, LS_CHECKPOINT_MARKER);
    *out = stat(marker.text, &about) == 0;
    if (*out || errno == ENOENT || errno == ENOTDIR) return LS_OK;
    return ls_fail_errno(LS_ERR_INPUT, "cannot examine %s", marker.text);
}

/* Removes or renames one folder that a crash left, as the table at the top says; leaves others alone. */
static ls_status clean_one(const ls_store *store, const ls_store_name *name) {
    bool has_new = false;
    if (strcmp(name->suffix, LS_STORE_PARTIAL) == 0) return ls_store_remove(store, name->step, name->suffix);
    if (strcmp(name->suffix, LS_STORE_REPLACED) != 0) return LS_OK;
    LS_TRY(is_complete(store, name->step, &has_new));
    if (has_new) return ls_store_remove(store, name->step, name->suffix);
    return ls_store_rename(store, name->step, name->suffix, "");
}

/* Returns whether the name is that of a temporary file that a crash inside ls_file_write_atomic() left. */
static bool is_temporary(const char *name) {
    return strncmp(name, "latest.tmp-", strlen("latest.tmp-")) == 0 ||
           strncmp(name, "best.tmp-", strlen("best.tmp-")) == 0;
}

/* Removes the temporary files of interrupted writes of `latest` and `best`. */
static ls_status clean_temporaries(const ls_store *store) {
    DIR *dir = opendir(store->folder.text);
    if (!dir) return ls_fail_errno(LS_ERR_INPUT, "cannot open folder %s", store->folder.text);
    ls_status status = LS_OK;
    for (struct dirent *entry; status == LS_OK && (entry = readdir(dir)) != NULL;)
        if (is_temporary(entry->d_name) && unlinkat(dirfd(dir), entry->d_name, 0) != 0)
            status = ls_fail_errno(LS_ERR_INPUT, "cannot remove %s in %s", entry->d_name, store->folder.text);
    (void)closedir(dir);
    return status;
}

/* Creates the folder, cleans up what a crash left, corrects `latest`, and syncs the folder to disk. */
static ls_status prepare_for_writing(const ls_store *store) {
    ls_store_name *names = NULL;
    int count = 0;
    ls_status status;
    LS_TRY_OUT(ls_dir_make(store->folder.text));
    if (access(store->folder.text, R_OK | W_OK | X_OK) != 0) {
        status = ls_fail_errno(LS_ERR_INPUT, "cannot write to folder %s", store->folder.text);
        goto out;
    }
    LS_TRY_OUT(ls_folder_sync_parent(store->folder.text));
    LS_TRY_OUT(ls_store_names(store, &names, &count));
    for (int i = 0; i < count; i++) LS_TRY_OUT(clean_one(store, &names[i]));
    LS_TRY_OUT(clean_temporaries(store));
    LS_TRY_OUT(ls_store_fix_latest(store));
    status = ls_folder_sync(store->folder.text);
out:
    free(names);
    return status;
}

ls_status ls_store_open(const char *dir, ls_store_mode mode, ls_store **out) {
    *out = NULL;
    ls_store *store = calloc(1, sizeof *store);
    if (!store) return ls_fail(LS_ERR_RESOURCE, "out of memory to look at the checkpoints in %s", dir);
    store->mode = mode;
    store->best = store->clean = -1;
    store->folder = ls_path_in(dir, "checkpoints");
    ls_status status = mode == LS_STORE_WRITE ? prepare_for_writing(store) : LS_OK;
    if (status == LS_OK) store->best = read_name(ls_path_in(store->folder.text, "best").text);
    if (status == LS_OK)
        *out = store;
    else
        ls_store_close(store);
    return status;
}

void ls_store_close(ls_store *store) {
    if (!store) return;
    for (int i = 0; i < store->carried_count; i++) {
        free(store->carried[i].name);
        free(store->carried[i].data);
    }
    free(store->carried);
    free(store);
}

void ls_store_set_keep(ls_store *store, int keep) { store->keep = keep < 0 ? 0 : keep; }
void ls_store_set_keep_every(ls_store *store, int64_t steps) { store->keep_every = steps < 0 ? 0 : steps; }

ls_status ls_store_carry(ls_store *store, const char *folder, const char *name) {
    size_t count = (size_t)store->carried_count;
    ls_store_file file = {NULL, NULL, 0};
    ls_path path = ls_path_in(folder, name);
    if (!ls_file_exists(path.text)) return LS_OK;
    ls_store_file *carried = realloc(store->carried, (count + 1) * sizeof *carried);
    if (!carried) return fail_store_memory(store);
    store->carried = carried;
    LS_TRY(ls_file_read(path.text, CARRIED_BYTES_MAX, &file.data, &file.bytes));
    file.name = strdup(name);
    store->carried[store->carried_count++] = file;
    return file.name ? LS_OK : fail_store_memory(store);
}

void ls_store_set_clean(ls_store *store, int64_t step) { store->clean = step < 0 ? -1 : step; }
void ls_store_set_best(ls_store *store, int64_t step) { store->best = step < 0 ? -1 : step; }

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* Orders entries by step, ascending, for qsort(). */
static int compare_steps(const void *a, const void *b) {
    int64_t x = ((const ls_store_entry *)a)->step, y = ((const ls_store_entry *)b)->step;
    return x == y ? 0 : x < y ? -1 : 1;
}

ls_status ls_store_list(const ls_store *store, ls_store_entry **entries, int *count) {
    ls_store_name *names = NULL;
    int name_count = 0;
    ls_status status;
    *entries = NULL;
    *count = 0;
    LS_TRY_OUT(ls_store_names(store, &names, &name_count));
    if (name_count == 0) goto out;
    *entries = calloc((size_t)name_count, sizeof **entries);
    if (!*entries) {
        status = fail_store_memory(store);
        goto out;
    }
    for (int i = 0; i < name_count; i++) {
        if (names[i].suffix[0]) continue;
        ls_store_entry *entry = &(*entries)[(*count)++];
        entry->step = names[i].step;
        LS_TRY_OUT(is_complete(store, entry->step, &entry->is_complete));
    }
    qsort(*entries, (size_t)*count, sizeof **entries, compare_steps);
out:
    free(names);
    if (status != LS_OK || *count == 0) {
        free(*entries);
        *entries = NULL;
        *count = 0;
    }
    return status;
}

ls_path ls_store_folder(const ls_store *store, int64_t step) { return ls_store_path(store, step, ""); }

ls_status ls_store_verify(const ls_store *store, int64_t step, ls_checkpoint_progress progress, void *ctx) {
    ls_checkpoint *checkpoint = NULL;
    LS_TRY(ls_checkpoint_open(ls_store_folder(store, step).text, &checkpoint));
    ls_status status = LS_OK;
    if (ls_checkpoint_step(checkpoint) != step)
        status = ls_fail(LS_ERR_INPUT, "%s is damaged: its %s is that of step %" PRId64, ls_checkpoint_path(checkpoint),
                         LS_CHECKPOINT_MARKER, ls_checkpoint_step(checkpoint));
    if (status == LS_OK) status = ls_checkpoint_verify(checkpoint, progress, ctx);
    ls_checkpoint_close(checkpoint);
    return status;
}

/* Appends "step N was skipped: " and the last failure's message as a line to *text, which is reallocated. */
static ls_status add_line(const ls_store *store, int64_t step, char **text) {
    char *more;
    const char *old = *text ? *text : "";
    if (asprintf(&more, "%sstep %" PRId64 " was skipped: %s\n", old, step, ls_status_message()) < 0)
        return fail_store_memory(store);
    free(*text);
    *text = more;
    return LS_OK;
}

ls_status ls_store_newest_sound(const ls_store *store, ls_checkpoint_progress progress, void *ctx, int64_t *step,
                                char **skipped) {
    ls_store_entry *entries = NULL;
    int count = 0;
    ls_status status;
    *step = -1;
    *skipped = strdup("");
    if (!*skipped) return fail_store_memory(store);
    LS_TRY_OUT(ls_store_list(store, &entries, &count));
    for (int i = count - 1; i >= 0; i--) {
        status = ls_store_verify(store, entries[i].step, progress, ctx);
        if (status == LS_OK) *step = entries[i].step;
        /* Lack of memory or descriptors, or of permission, says nothing about the checkpoint. */
        if (status == LS_OK || status == LS_ERR_RESOURCE || is_unreadable()) goto out;
        LS_TRY_OUT(add_line(store, entries[i].step, skipped));
    }
    if (count == 0)
        status = ls_fail(LS_ERR_INPUT, "there is no checkpoint in %s", store->folder.text);
    else
        status =
            ls_fail(LS_ERR_INPUT, "none of the %d checkpoints in %s is sound; %s", count, store->folder.text, *skipped);
out:
    free(entries);
    return status;
}
