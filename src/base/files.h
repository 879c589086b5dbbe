/* files.h: whole files. Reading gives a copy; writing puts a complete new file in place or leaves the old one. */
#ifndef LS_BASE_FILES_H
#define LS_BASE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* "a file", "a folder", "a pipe", "a socket" or "a device", by st_mode. */
const char *ls_file_kind(mode_t mode);

/* Opens a regular file for reading. Whatever else the name leads to (a pipe, a device, a socket, a folder) is
 * LS_ERR_INPUT and is not waited for. `bytes` may be NULL. The caller closes *fd, which is −1 on failure. */
ls_status ls_file_open_regular(const char *path, int *fd, uint64_t *bytes);

/* Reads at most max_bytes of a regular file; a larger one is LS_ERR_INPUT. `*data` has a NUL behind its `*bytes` bytes
 * and belongs to the caller, who frees it. On failure *data is NULL. */
ls_status ls_file_read(const char *path, size_t max_bytes, char **data, size_t *bytes);

/* Writes a temporary file beside `path`, forces it to disk and renames it, so that a reader or a crash at any moment
 * finds the old content or the new, never a part. On an error before the rename the old file is untouched and the
 * temporary file is gone. Keeps the permissions of an old file; refuses to replace anything but a regular file. */
ls_status ls_file_write_atomic(const char *path, const void *data, size_t bytes);

/* Whether ls_file_write_atomic() could begin: to be asked before long work whose result goes to `path`. LS_ERR_INPUT.
 */
ls_status ls_file_can_write(const char *path);

/* Anything at all of this name, links followed. */
bool ls_file_exists(const char *path);
/* In small letters or capitals. */
bool ls_file_has_suffix(const char *path, const char *suffix);

/* Makes the folder and those above it; fine when it is there. */
ls_status ls_dir_make(const char *path);

#endif
