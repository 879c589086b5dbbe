/* out_folder.c: a folder that appears with all its files or not at all. */
#include "interop/out_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "checkpoint/folder.h"

static ls_status check_free(const char *path) {
    DIR *dir = opendir(path);
    if (!dir && errno == ENOENT) return LS_OK;
    if (!dir && errno == ENOTDIR) return ls_fail(LS_ERR_INPUT, "--out %s is a file; name a new folder", path);
    if (!dir) return ls_fail_errno(LS_ERR_INPUT, "cannot read folder %s", path);
    bool is_empty = true;
    for (struct dirent *entry; (entry = readdir(dir)) && is_empty;)
        is_empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    (void)closedir(dir);
    return is_empty ? LS_OK : ls_fail(LS_ERR_INPUT, "--out %s is not empty; name another folder, or remove it", path);
}

static ls_status make_parent(const char *path) {
    char *folder = ls_folder_beside(path, ".");
    if (!folder) return ls_fail(LS_ERR_RESOURCE, "out of memory for the folder of %s", path);
    ls_status status = ls_dir_make(folder);
    free(folder);
    return status;
}

ls_status ls_out_folder_begin(const char *path, ls_out_folder *out) {
    size_t length = strlen(path);
    ls_status status;
    while (length > 1 && path[length - 1] == '/') length--;
    *out = (ls_out_folder){.path = strndup(path, length)};
    if (!out->path || asprintf(&out->partial, "%s.partial-%ld", out->path, (long)getpid()) < 0) {
        out->partial = NULL;
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to make %s", path);
        goto out;
    }
    LS_TRY_OUT(check_free(out->path));
    LS_TRY_OUT(make_parent(out->path));
    (void)ls_folder_remove(out->partial); /* of an earlier process of this number that was killed */
    if (mkdir(out->partial, 0777) == 0) return LS_OK;
    status = ls_fail_errno(LS_ERR_INPUT, "cannot create folder %s", out->partial);
out:
    free(out->path);
    free(out->partial);
    *out = (ls_out_folder){NULL, NULL};
    return status;
}

static void end(ls_out_folder *out) {
    (void)ls_folder_remove(out->partial); /* what stays behind is found by its name */
    free(out->path);
    free(out->partial);
    *out = (ls_out_folder){NULL, NULL};
}

ls_status ls_out_folder_commit(ls_out_folder *out, const char *made) {
    ls_status status = ls_folder_sync(made);
    if (status == LS_OK && rename(made, out->path) != 0)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot rename the finished folder to %s", out->path);
    if (status == LS_OK) status = ls_folder_sync_parent(out->path);
    end(out);
    return status;
}

void ls_out_folder_abort(ls_out_folder *out) {
    if (out->path) end(out);
}
