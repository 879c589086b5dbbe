/* out_folder.h: a folder that appears with all its files or not at all; for this folder only.
 *
 * Files are written to a folder beside it, PATH.partial-<process>, which gets its name at the end. */
#ifndef LS_INTEROP_OUT_FOLDER_H
#define LS_INTEROP_OUT_FOLDER_H

#include "base/files.h"

typedef struct ls_out_folder {
    ls_path path;    /* where it will be */
    ls_path partial; /* where to write; "": it has ended */
} ls_out_folder;

/* `path` must not be there or be an empty folder. On failure there is nothing to release. */
ls_status ls_out_folder_begin(const char *path, ls_out_folder *out);
/* Gives `made`, the partial folder or one in it, the name of the folder. Ends it, also on failure. */
ls_status ls_out_folder_commit(ls_out_folder *out, const char *made);
/* Removes what was written. */
void ls_out_folder_abort(ls_out_folder *out);

#endif
