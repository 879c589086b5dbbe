/* map.h: the bytes of a file as memory: mapped where it is a regular file, read where it is a pipe. */
#ifndef LS_DATA_MAP_H
#define LS_DATA_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Starts as {0}. */
typedef struct ls_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t bytes;
    bool is_mapped;
} ls_map;

/* A folder is LS_ERR_INPUT. On failure there is nothing to release. */
ls_status ls_map_open(const char *path, ls_map *out);
void ls_map_close(ls_map *map);

#endif
