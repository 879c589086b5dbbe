/* store_folder.h: the fields of ls_store (store.h) and the names in its folder; for store.c, which opens and lists, and
 * store_save.c, which saves. */
#ifndef LS_CHECKPOINT_STORE_FOLDER_H
#define LS_CHECKPOINT_STORE_FOLDER_H

#include "base/files.h"
#include "checkpoint/store.h"

#define LS_STORE_PARTIAL ".partial"   /* being saved or removed */
#define LS_STORE_REPLACED ".replaced" /* the old checkpoint of a step while a new one is renamed */
#define LS_STORE_ASIDE ".aside"       /* newer than the step to which the run was rewound */

/* A file, with its content in memory, that is added to every checkpoint (ls_store_carry). */
typedef struct ls_store_file {
    char *name, *data;
    size_t bytes;
} ls_store_file;

struct ls_store {
    ls_path folder; /* DIR/checkpoints */
    ls_store_mode mode;
    int keep;               /* newest checkpoints to keep; 0: all */
    int64_t keep_every;     /* steps between those kept for good; 0: none */
    int64_t best;           /* −1: none */
    int64_t clean;          /* steps up to this one are free of corruption; −1: not checked */
    bool is_saving;         /* between ls_store_begin() and commit or abort */
    ls_store_file *carried; /* list of carried_count; owned */
    int carried_count;
};

/* A name in the folder: step-000000100 with a suffix, which may be "". */
typedef struct ls_store_name {
    int64_t step;
    char suffix[16];
} ls_store_name;

/* Lists all names of the form step-N with any suffix, complete or not, unordered. The caller frees *names, which is
 * NULL if there are none. */
ls_status ls_store_names(const ls_store *store, ls_store_name **names, int *count);
/* Returns the path of a step's folder with this suffix ("" for its final name), whether it exists or not. */
ls_path ls_store_path(const ls_store *store, int64_t step, const char *suffix);
/* Renames the folder of a step from suffix `from` to suffix `to`, after removing a folder that has the new name. Does
 * not sync to disk. */
ls_status ls_store_rename(const ls_store *store, int64_t step, const char *from, const char *to);
/* Removes the folder of a step with this suffix. One with its final name ("") is renamed to .partial first, so that a
 * crash leaves no incomplete checkpoint. */
ls_status ls_store_remove(const ls_store *store, int64_t step, const char *suffix);

/* Makes `latest` name the newest complete checkpoint; removes the file if there is none. */
ls_status ls_store_fix_latest(const ls_store *store);
/* Makes `best` name store->best if that checkpoint is complete; otherwise removes the file. */
ls_status ls_store_fix_best(const ls_store *store);

#endif
