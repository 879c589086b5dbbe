/* out_folder.h: a folder that appears with all its files or not at all; for this folder only.
 *
 * Files are written to a folder beside it, PATH.partial-<process>, which gets its name at the end. */
#ifndef LS_INTEROP_OUT_FOLDER_H
#define LS_INTEROP_OUT_FOLDER_H

#include "base/status.h"

typedef struct ls_out_folder {
    char *path;    /* where it will be */
    char *partial; /* where to write */
} ls_out_folder;

/* `path` must not be there or be an empty folder. On failure there is nothing to release. */
ls_status ls_out_folder_begin(const char *path, ls_out_folder *out);
/* Gives `made`, the partial folder or one in it, the name of the folder. Ends it, also on failure. */
ls_status ls_out_folder_commit(ls_out_folder *out, const char *made);
/* Removes what was written. */
void ls_out_folder_abort(ls_out_folder *out);

#endif
