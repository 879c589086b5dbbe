/* files.h: forms paths, reads and writes whole files and folders, for all code that uses files. Reading returns a
 * copy that the caller frees; writing replaces a file atomically. Any thread may call. Names that cannot be used are
 * LS_ERR_INPUT, failing writes LS_ERR_FAILED, and a full disk or too many open files LS_ERR_RESOURCE. */
#ifndef LS_BASE_FILES_H
#define LS_BASE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* A path. A longer one is truncated here to more bytes than the system accepts, so that it is refused there and never
 * names another file. */
typedef struct ls_path {
    char text[PATH_MAX + 1];
} ls_path;

/* Returns the path that the format gives. */
ls_path ls_path_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns "folder/name", without a second slash if `folder` ends with one; `name` alone if `folder` is "". */
ls_path ls_path_in(const char *folder, const char *name);
/* Returns `name` in the folder of the file `path`. */
ls_path ls_path_beside(const char *path, const char *name);
/* Returns whether the text ends with `end`, in the same case. */
bool ls_ends_with(const char *text, const char *end);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Returns "a file", "a folder", "a pipe", "a socket" or "a device", by st_mode. */
const char *ls_file_kind(mode_t mode);

/* Fails with LS_ERR_INPUT for a `path` that could not be opened or examined, with errno as the reason. All messages
 * about a missing path come from here. */
ls_status ls_file_fail_open(const char *path);

/* Opens a regular file for reading. Anything else (a pipe, a device, a socket, a folder) is LS_ERR_INPUT, without
 * blocking. `bytes` may be NULL. The caller closes *fd, which is −1 on failure. */
ls_status ls_file_open_regular(const char *path, int *fd, uint64_t *bytes);

/* Reads at most max_bytes of a regular file; a larger one is LS_ERR_INPUT. `*data` has a NUL behind its `*bytes` bytes
 * and belongs to the caller, who frees it. On failure *data is NULL. */
ls_status ls_file_read(const char *path, size_t max_bytes, char **data, size_t *bytes);

/* Reads a regular file from its beginning to its end, and passes its bytes to the callback `take`, in pieces of 1 MiB.
 * An error may come after some pieces. */
ls_status ls_file_scan(const char *path, void (*take)(void *ctx, const void *data, size_t bytes), void *ctx);

/* Replaces the file `path` by these bytes: writes a temporary file beside it, syncs that to disk and renames it. So a
 * reader, or a crash at any moment, finds the old content or the new, never a part. On an error before the rename the
 * old file is untouched and the temporary file is gone. Keeps the permissions of an old file; refuses to replace
 * anything but a regular file. A symbolic link is itself replaced. */
ls_status ls_file_write_atomic(const char *path, const void *data, size_t bytes);

/* Checks whether ls_file_write_atomic() could begin, before long work whose result goes to `path`; LS_ERR_INPUT if
 * not. */
ls_status ls_file_can_write(const char *path);

/* A file that is being written: its bytes go to a temporary file beside `path`, which is renamed at the end.
 *
 *     open ── ls_fd_write … ── settle ── commit ── close        the file is there, complete and on disk
 *          └───────────────────────────────────── close        `path` is what it was before
 *
 * All zeros but fd −1: nothing to close. */
typedef struct ls_new_file {
    ls_path path, temporary;
    int fd;             /* open for writing; −1: closed */
    bool has_temporary; /* close must remove the temporary file */
} ls_new_file;

/* Creates the temporary file. On failure there is nothing to close. */
ls_status ls_new_file_open(const char *path, ls_new_file *file);
/* Syncs the bytes to disk and closes the temporary file. */
ls_status ls_new_file_settle(ls_new_file *file);
/* Renames the temporary file to `path`, after settling it if needed, and syncs the folder. If only that last sync
 * fails, the file has its new name all the same. */
ls_status ls_new_file_commit(ls_new_file *file);
/* Ends the writing; without a commit it removes the temporary file. May be called again. */
void ls_new_file_close(ls_new_file *file);

/* Writes from `offset` on, or from the descriptor's position (−1), with retries. Returns the number of bytes done; if
 * that is smaller than `bytes`, errno has the reason. Reports progress (base/alive.h). */
size_t ls_fd_write(int fd, const void *data, size_t bytes, off_t offset);
/* Reads from `offset` on, or from the descriptor's position (−1), with retries. Returns the number of bytes read; if
 * that is smaller than `bytes`, errno has the reason, 0 for the end of the file. Reports progress. */
size_t ls_fd_read(int fd, void *data, size_t bytes, off_t offset);
/* Calls fsync(2), with retries; writes a large file piece by piece and reports progress. −1 with errno on failure. */
int ls_fd_sync(int fd);

/* Returns whether the path names anything; follows links, so false for a link whose target is missing. */
bool ls_file_exists(const char *path);
/* Returns whether the path ends with `suffix`; ignores case. */
bool ls_file_has_suffix(const char *path, const char *suffix);

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* Creates the folder and its parents, as mkdir -p does. LS_ERR_INPUT if a file has the name. */
ls_status ls_dir_make(const char *path);
/* Returns whether the path names a folder; follows links. */
bool ls_folder_exists(const char *path);
/* Returns whether folder/name exists. */
bool ls_folder_has(const char *folder, const char *name);
/* Returns whether the name can be that of an entry of a folder: not empty, no slash, neither "." nor "..". */
bool ls_folder_is_plain_name(const char *name);
/* Syncs the entries of a folder to disk: names of new files, renames. A file system that cannot do that is no error. */
ls_status ls_folder_sync(const char *folder);
/* Syncs the folder that contains `path`. */
ls_status ls_folder_sync_parent(const char *path);
/* Removes a folder, or a file, and its contents; removes links without following them. A missing folder is no error.
 * LS_ERR_FAILED at the first entry that cannot be removed; the rest stays. */
ls_status ls_folder_remove(const char *folder);

#endif
