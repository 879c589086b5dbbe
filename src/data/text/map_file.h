/* map_file.h: maps a regular file into memory, for files of text, token ids and images. (A pipe or a device may never
 * end.)
 *
 * If another process truncates a mapped file, the system sends SIGBUS to a thread that reads beyond the new end. Inside
 * ls_map_guard() this becomes an error with the file's name. Outside of it, the process prints the name and exits with
 * status 1. */
#ifndef LS_DATA_TEXT_MAP_FILE_H
#define LS_DATA_TEXT_MAP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct ls_map_note;

/* The bytes of a file: mapped, or in memory of malloc() that its reader filled (decompressed, for example).
 * ls_map_close() releases both. Starts as {0}. Any thread may open and close. */
typedef struct ls_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t bytes;
    struct ls_map_note *note; /* of a mapped file; NULL: memory of malloc */
} ls_map;

/* Maps a whole file for reading. LS_ERR_INPUT if it is not a regular file. On failure there is nothing to release.
 * The first call installs the handler of SIGBUS. An empty file gives {0}. */
ls_status ls_map_open(const char *path, ls_map *out);
/* Unmaps the file, or frees the memory; *map is then {0}. */
void ls_map_close(ls_map *map);

/* Checks whether the file has become shorter since it was opened, which is LS_ERR_INPUT. (A read beyond the new end
 * gives zeros, without a signal, as far as the last page reaches.) If the file was modified but is not shorter, logs a
 * warning, once, and returns LS_OK. LS_OK for memory of malloc, and if the file was removed or replaced, because the
 * mapping keeps the old one. */
ls_status ls_map_check(const ls_map *map);

/* Returns the result of work(ctx), or LS_ERR_INPUT with the file's name if a mapped file was truncated meanwhile. The
 * work is then left by a jump, so resources that it must release belong in ctx. Guards can be nested; each thread has
 * its own. */
ls_status ls_map_guard(ls_status (*work)(void *ctx), void *ctx);

#endif
