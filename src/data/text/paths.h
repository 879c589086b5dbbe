/* paths.h: the files that a list of names means.
 *
 * Names are separated by commas. A name with * or ? that is no file itself stands for the files that match, sorted. A
 * folder stands for its files, sorted by name (not those of folders inside, nor hidden ones, nor Megatron's .idx, nor
 * .bin.sums), of which those named val…, valid… or …_val…, …_valid… before the first dot are for validation and all
 * others for training. A name that leads to no file, or to a pipe, a device or a socket, is LS_ERR_INPUT. */
#ifndef LS_DATA_TEXT_PATHS_H
#define LS_DATA_TEXT_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Which files of a folder are meant; files named one by one always are. */
typedef enum ls_split { LS_SPLIT_ALL, LS_SPLIT_TRAIN, LS_SPLIT_VAL } ls_split;

/* Starts as {0}. */
typedef struct ls_paths {
    char **names;
    size_t count, capacity;
} ls_paths;

/* Fails also when the whole list gives no file. On failure there is nothing to release. */
ls_status ls_paths_expand(const char *list, ls_split split, ls_paths *out);
/* Whether a folder of the list has files of the split. */
bool ls_paths_any(const char *list, ls_split split);
void ls_paths_fini(ls_paths *paths);
/* "train_000001.bin" no, "val.bin" and "news_val_000001.bin" yes. */
bool ls_path_is_val(const char *path);

#endif
