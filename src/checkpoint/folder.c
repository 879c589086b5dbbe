/* folder.c: names in folders, and folders as a whole. */
#include "checkpoint/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPEN_FOLDERS_MAX = 8 };

static char *join(const char *folder, size_t length, const char *name) {
    char *path = NULL;
    if (asprintf(&path, "%.*s%s%s", (int)length, folder, length > 0 && folder[length - 1] != '/' ? "/" : "", name) < 0)
        return NULL;
    return path;
}

char *ls_folder_join(const char *folder, const char *name) { return join(folder, strlen(folder), name); }

char *ls_folder_beside(const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    return join(path, slash ? (size_t)(slash - path) + 1 : 0, name);
}

bool ls_folder_is_plain_name(const char *name) {
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Some file systems cannot force a folder to disk and say EINVAL; there is nothing more to do on those. */
ls_status ls_folder_sync(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;
    if (fd < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot open folder %s to sync it to disk", folder);
    do rc = fsync(fd);
    while (rc != 0 && errno == EINTR);
    ls_status status = LS_OK;
    if (rc != 0 && errno != EINVAL) status = ls_fail_errno(LS_ERR_FAILED, "cannot sync folder %s to disk", folder);
    (void)close(fd); /* nothing was written */
    return status;
}

ls_status ls_folder_sync_parent(const char *path) {
    char *folder = ls_folder_beside(path, ".");
    if (!folder) return ls_fail(LS_ERR_RESOURCE, "out of memory to sync the folder of %s to disk", path);
    ls_status status = ls_folder_sync(folder);
    free(folder);
    return status;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)about, (void)kind, (void)place;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

ls_status ls_folder_remove(const char *folder) {
    if (nftw(folder, remove_one, OPEN_FOLDERS_MAX, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot remove folder %s", folder);
}
