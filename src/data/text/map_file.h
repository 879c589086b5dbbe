/* map_file.h: the bytes of a file as memory. Only regular files: a pipe or a device may never end.
 *
 * Another process may cut a file while it is mapped; the system then sends SIGBUS to the thread that reads behind its
 * new end. Every mapped file is known by name here, and the signal becomes an error inside ls_map_guard(). Outside of
 * it, the process says which file it was and ends with exit status 1. */
#ifndef LS_DATA_TEXT_MAP_FILE_H
#define LS_DATA_TEXT_MAP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct ls_map_note;

/* Starts as {0}. */
typedef struct ls_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t bytes;
    struct ls_map_note *note; /* of a mapped file; NULL: memory of malloc */
} ls_map;

/* Whatever is no regular file is LS_ERR_INPUT. On failure there is nothing to release. */
ls_status ls_map_open(const char *path, ls_map *out);
void ls_map_close(ls_map *map);

/* LS_ERR_INPUT when the file has another size now than when it was opened: less than a page may be missing without a
 * signal, and reads as zeros. A file that was written to and kept its size gets a warning, once. */
ls_status ls_map_check(const ls_map *map);

/* The result of work(ctx); LS_ERR_INPUT with the name of the file when a mapped one was cut under it. The work is then
 * left in the middle: what it must release belongs in ctx. Guards may be nested; each thread has its own. */
ls_status ls_map_guard(ls_status (*work)(void *ctx), void *ctx);

#endif
