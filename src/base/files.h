/* files.h: names, whole files and folders. Reading gives a copy; writing puts a complete new file in place or leaves
 * the old one. */
#ifndef LS_BASE_FILES_H
#define LS_BASE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* A name of a file. One that is cut here is longer than any that the system takes: it is refused there, and never leads
 * to another file. */
typedef struct ls_path {
    char text[PATH_MAX + 1];
} ls_path;

ls_path ls_path_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "folder/name". */
ls_path ls_path_in(const char *folder, const char *name);
/* `name` in the folder of the file `path`. */
ls_path ls_path_beside(const char *path, const char *name);
bool ls_ends_with(const char *text, const char *end);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* "a file", "a folder", "a pipe", "a socket" or "a device", by st_mode. */
const char *ls_file_kind(mode_t mode);

/* LS_ERR_INPUT for a `path` that could not be opened or looked at, with errno as the reason. A missing path has the
 * same words everywhere. */
ls_status ls_file_fail_open(const char *path);

/* Opens a regular file for reading. Whatever else the name leads to (a pipe, a device, a socket, a folder) is
 * LS_ERR_INPUT and is not waited for. `bytes` may be NULL. The caller closes *fd, which is −1 on failure. */
ls_status ls_file_open_regular(const char *path, int *fd, uint64_t *bytes);

/* Reads at most max_bytes of a regular file; a larger one is LS_ERR_INPUT. `*data` has a NUL behind its `*bytes` bytes
 * and belongs to the caller, who frees it. On failure *data is NULL. */
ls_status ls_file_read(const char *path, size_t max_bytes, char **data, size_t *bytes);

/* Reads a regular file from its begin to its end; `take` gets its bytes, piece by piece. */
ls_status ls_file_scan(const char *path, void (*take)(void *ctx, const void *data, size_t bytes), void *ctx);

/* Writes a temporary file beside `path`, forces it to disk and renames it, so that a reader or a crash at any moment
 * finds the old content or the new, never a part. On an error before the rename the old file is untouched and the
 * temporary file is gone. Keeps the permissions of an old file; refuses to replace anything but a regular file. */
ls_status ls_file_write_atomic(const char *path, const void *data, size_t bytes);

/* Whether ls_file_write_atomic() could begin: to be asked before long work whose result goes to `path`. LS_ERR_INPUT.
 */
ls_status ls_file_can_write(const char *path);

/* A file in the making: its bytes go to a temporary file beside `path`, which gets the name at the end.
 *
 *     open ── ls_fd_write … ── settle ── commit ── close        the file is there, complete and on disk
 *          └───────────────────────────────────── close        `path` is what it was before
 *
 * Zeroed but for fd −1: nothing to close. */
typedef struct ls_new_file {
    ls_path path, temporary;
    int fd;             /* open for writing; −1: no more */
    bool has_temporary; /* which close removes */
} ls_new_file;

ls_status ls_new_file_open(const char *path, ls_new_file *file);
/* Forces the bytes to disk and ends the writing. */
ls_status ls_new_file_settle(ls_new_file *file);
/* Gives it its name, after settling it where that was not done. */
ls_status ls_new_file_commit(ls_new_file *file);
void ls_new_file_close(ls_new_file *file);

/* Bytes from `offset` on, or where the descriptor is at (−1), retried until all are through. The number of bytes that
 * are; fewer: errno tells why, or, of a read without it (0), that the file ends there. */
size_t ls_fd_write(int fd, const void *data, size_t bytes, off_t offset);
size_t ls_fd_read(int fd, void *data, size_t bytes, off_t offset);
/* fsync(2), retried; a large file piece by piece, which counts as work (base/alive.h). */
int ls_fd_sync(int fd);

/* Anything at all of this name, links followed. */
bool ls_file_exists(const char *path);
/* In small letters or capitals. */
bool ls_file_has_suffix(const char *path, const char *suffix);

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* Makes the folder and those above it; fine when it is there. */
ls_status ls_dir_make(const char *path);
bool ls_folder_exists(const char *path);
/* Whether folder/name is there. */
bool ls_folder_has(const char *folder, const char *name);
/* Whether this names something directly in a folder: not empty, no slash, neither "." nor "..". */
bool ls_folder_is_plain_name(const char *name);
/* Forces the entries of a folder to disk: names of new files, renames. */
ls_status ls_folder_sync(const char *folder);
/* The same for the folder that holds `path`. */
ls_status ls_folder_sync_parent(const char *path);
/* Removes a folder with all in it, without following links. Fine when it is not there. */
ls_status ls_folder_remove(const char *folder);

#endif
