/* paths.h: expands the list of names that --data gives to files.
 *
 * Names are separated by commas. A name with * or ? that is not a file itself stands for the matching files, sorted,
 * without .idx. A folder stands for its files, sorted by name, without those of subfolders, hidden files, Megatron's
 * .idx and .bin.sums. Of these, files with the word val, valid or validation in the name are for validation, all others
 * for training; a word begins the name or follows _ or -, and ends at _, -, a digit or the first dot. A Megatron pair
 * may be named without its suffix. A name without a file, or of a pipe, device or socket, is LS_ERR_INPUT. */
#ifndef LS_DATA_TEXT_PATHS_H
#define LS_DATA_TEXT_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Which files of a folder to use; files that are named individually are always used. */
typedef enum ls_split { LS_SPLIT_ALL, LS_SPLIT_TRAIN, LS_SPLIT_VAL } ls_split;

/* Starts as {0}. */
typedef struct ls_paths {
    char **names;
    size_t count, capacity;
} ls_paths;

/* Expands a list of names, separated by commas, to the files of the split. Also fails if there are none. On failure
 * there is nothing to release; otherwise the caller calls ls_paths_fini(). */
ls_status ls_paths_expand(const char *list, ls_split split, ls_paths *out);
/* Returns whether a folder of the list has files of the split; names that are no folders do not count. */
bool ls_paths_any(const char *list, ls_split split);
/* Frees the names, and empties the list. */
void ls_paths_fini(ls_paths *paths);
/* Returns true for "val.bin" and "news_val_000001.bin", false for "train_000001.bin". */
bool ls_path_is_val(const char *path);

#endif
