/* out_folder.c: creates a folder that appears with all its files or not at all. */
#include "interop/out_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Checks that the path is absent or an empty folder. */
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

ls_status ls_out_folder_begin(const char *path, ls_out_folder *out) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    out->path = ls_path_format("%.*s", (int)length, path);
    out->partial = ls_path_format("%s.partial-%ld", out->path.text, (long)getpid());
    LS_TRY(check_free(out->path.text));
    LS_TRY(ls_dir_make(ls_path_beside(out->path.text, ".").text));
    (void)ls_folder_remove(out->partial.text); /* of an earlier process of this number that was killed */
    if (mkdir(out->partial.text, 0777) == 0) return LS_OK;
    return ls_fail_errno(LS_ERR_INPUT, "cannot create folder %s", out->partial.text);
}

ls_status ls_out_folder_commit(ls_out_folder *out, const char *made) {
    ls_status status = ls_folder_sync(made);
    if (status == LS_OK && rename(made, out->path.text) != 0)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot rename the finished folder to %s", out->path.text);
    if (status == LS_OK) status = ls_folder_sync_parent(out->path.text);
    ls_out_folder_abort(out);
    return status;
}

void ls_out_folder_abort(ls_out_folder *out) {
    if (out->partial.text[0]) (void)ls_folder_remove(out->partial.text); /* what stays behind is found by its name */
    out->partial.text[0] = '\0';
}
