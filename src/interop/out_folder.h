/* out_folder.h: creates a folder that appears with all its files or not at all; private to this folder.
 *
 * The caller writes the files to PATH.partial-<process>, which is renamed to PATH at the end. */
#ifndef LS_INTEROP_OUT_FOLDER_H
#define LS_INTEROP_OUT_FOLDER_H

#include "base/files.h"

typedef struct ls_out_folder {
    ls_path path;    /* the final name */
    ls_path partial; /* the folder to write to; "": committed or aborted */
} ls_out_folder;

/* Creates the partial folder, and missing parents of `path`. `path` must be absent or an empty folder. On failure there
 * is nothing to release. */
ls_status ls_out_folder_begin(const char *path, ls_out_folder *out);
/* Renames `made`, the partial folder or one inside it, to the final name, and removes the rest. Releases `out`, also on
 * failure. */
ls_status ls_out_folder_commit(ls_out_folder *out, const char *made);
/* Removes the partial folder with its files. Does nothing after a commit or an abort. */
void ls_out_folder_abort(ls_out_folder *out);

#endif
