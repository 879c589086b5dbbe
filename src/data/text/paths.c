/* paths.c: see paths.h. */
#include "data/text/paths.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/memory.h"

enum { SHOWN = 200 };

/* Returns whether the word that begins here and ends at _, -, a dot or a digit is val, valid or validation. */
static bool is_val_word(const char *word) {
    size_t length = strcspn(word, "_-.0123456789");
    return (length == 3 && strncmp(word, "val", 3) == 0) || (length == 5 && strncmp(word, "valid", 5) == 0) ||
           (length == 10 && strncmp(word, "validation", 10) == 0);
}

bool ls_path_is_val(const char *path) {
    const char *slash = strrchr(path, '/'), *word = slash ? slash + 1 : path, *dot = strchr(word, '.');
    while (word && (!dot || word < dot)) {
        if (is_val_word(word)) return true;
        word = strpbrk(word, "_-");
        if (word) word++;
    }
    return false;
}

void ls_paths_fini(ls_paths *paths) {
    for (size_t i = 0; i < paths->count; i++) free(paths->names[i]);
    free(paths->names);
    *paths = (ls_paths){0};
}

/* Appends a copy of the name. */
static ls_status add_path(ls_paths *paths, const char *name) {
    char **names = ls_list_grow(paths->names, paths->count, &paths->capacity, sizeof *names);
    if (names) paths->names = names;
    char *copy = names ? strdup(name) : NULL;
    if (!copy) return ls_fail(LS_ERR_RESOURCE, "out of memory for the names of files");
    paths->names[paths->count++] = copy;
    return LS_OK;
}

/* Refuses all but files and folders: a pipe or a device may never end, and another worker could not read it again. */
static ls_status refuse_special(const char *name, mode_t mode) {
    if (S_ISREG(mode) || S_ISDIR(mode)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%.*s is %s: data must be regular files; write it to a file first", SHOWN, name,
                   ls_file_kind(mode));
}

static int compare_paths(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Returns whether a folder's file of this name is data of the split. */
static bool is_wanted(const char *name, ls_split split) {
    if (name[0] == '.' || ls_ends_with(name, ".idx") || ls_ends_with(name, ".bin.sums")) return false;
    return split == LS_SPLIT_ALL || ls_path_is_val(name) == (split == LS_SPLIT_VAL);
}

/* Adds the folder's files of the split, sorted. */
static ls_status add_folder(ls_paths *paths, const char *folder, ls_split split) {
    struct stat about;
    size_t before = paths->count;
    ls_status status = LS_OK;
    DIR *dir = opendir(folder);
    if (!dir) return ls_fail_errno(LS_ERR_INPUT, "cannot read folder %.*s", SHOWN, folder);
    for (struct dirent *entry; status == LS_OK && (entry = readdir(dir)) != NULL;) {
        if (!is_wanted(entry->d_name, split)) continue;
        ls_path name = ls_path_in(folder, entry->d_name);
        if (stat(name.text, &about) == 0 && !S_ISDIR(about.st_mode))
            status = S_ISREG(about.st_mode) ? add_path(paths, name.text) : refuse_special(name.text, about.st_mode);
    }
    (void)closedir(dir);
    if (paths->count > before) qsort(paths->names + before, paths->count - before, sizeof *paths->names, compare_paths);
    return status;
}

/* Adds the files that match the pattern, without .idx; sets *any to whether there were some. */
static ls_status add_matches(ls_paths *paths, const char *pattern, bool *any) {
    glob_t found;
    ls_status status = LS_OK;
    int rc = glob(pattern, GLOB_ERR, NULL, &found);
    *any = rc == 0;
    if (rc == GLOB_NOSPACE) return ls_fail(LS_ERR_RESOURCE, "out of memory for the names of files");
    if (rc != 0) return LS_OK;
    for (size_t i = 0; status == LS_OK && i < found.gl_pathc; i++) {
        struct stat about;
        if (stat(found.gl_pathv[i], &about) == 0) status = refuse_special(found.gl_pathv[i], about.st_mode);
        if (status == LS_OK && !ls_ends_with(found.gl_pathv[i], ".idx")) status = add_path(paths, found.gl_pathv[i]);
    }
    globfree(&found);
    return status;
}

/* Adds the files that one name of the list stands for. */
static ls_status add_name(ls_paths *paths, const char *name, ls_split split) {
    struct stat about;
    bool any = false;
    if (stat(name, &about) == 0) {
        LS_TRY(refuse_special(name, about.st_mode));
        return S_ISDIR(about.st_mode) ? add_folder(paths, name, split) : add_path(paths, name);
    }
    int cause = errno;
    if (strpbrk(name, "*?")) LS_TRY(add_matches(paths, name, &any));
    if (any) return LS_OK;
    /* The name of a Megatron pair has no suffix. */
    if (ls_file_exists(ls_path_format("%s.idx", name).text)) return add_path(paths, name);
    errno = cause;
    return ls_file_fail_open(name);
}

/* Adds the files of all names; `only_folders`: ignores names that are no folders. LS_ERR_INPUT if there are no files.
 */
static ls_status expand_list(const char *list, ls_split split, bool only_folders, ls_paths *out) {
    for (const char *at = list;;) {
        size_t length = strcspn(at, ",");
        ls_path name = ls_path_format("%.*s", (int)length, at);
        if (!length) return ls_fail(LS_ERR_INPUT, "the list '%.*s' has an empty name", SHOWN, list);
        if (!only_folders || ls_folder_exists(name.text)) LS_TRY(add_name(out, name.text, split));
        if (!at[length]) break;
        at += length + 1;
    }
    return out->count ? LS_OK
                      : ls_fail(LS_ERR_INPUT, "'%.*s' has no %sfiles", SHOWN, list,
                                split == LS_SPLIT_VAL     ? "validation "
                                : split == LS_SPLIT_TRAIN ? "training "
                                                          : "");
}

ls_status ls_paths_expand(const char *list, ls_split split, ls_paths *out) {
    *out = (ls_paths){0};
    ls_status status = expand_list(list, split, false, out);
    if (status != LS_OK) ls_paths_fini(out);
    return status;
}

bool ls_paths_any(const char *list, ls_split split) {
    ls_paths paths = {0};
    bool any = expand_list(list, split, true, &paths) == LS_OK;
    ls_paths_fini(&paths);
    return any;
}
