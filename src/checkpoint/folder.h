/* folder.h: names in folders, and folders as a whole; for checkpoint/ and interop/. */
#ifndef LS_CHECKPOINT_FOLDER_H
#define LS_CHECKPOINT_FOLDER_H

#include <stdbool.h>

#include "base/status.h"

/* "folder/name"; the caller frees it. NULL when memory is short. */
char *ls_folder_join(const char *folder, const char *name);
/* `name` in the folder of the file `path`; as above. */
char *ls_folder_beside(const char *path, const char *name);

/* Whether this names something directly in a folder: not empty, no slash, neither "." nor "..". */
bool ls_folder_is_plain_name(const char *name);

/* Forces the entries of a folder to disk: names of new files, renames. */
ls_status ls_folder_sync(const char *folder);
/* The same for the folder that holds `path`. */
ls_status ls_folder_sync_parent(const char *path);

/* Removes a folder with all in it, without following links. Fine when it is not there. */
ls_status ls_folder_remove(const char *folder);

#endif
