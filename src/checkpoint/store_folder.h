/* store_folder.h: the inside of ls_store and the names in its folder, for the files of this folder only. */
#ifndef LS_CHECKPOINT_STORE_FOLDER_H
#define LS_CHECKPOINT_STORE_FOLDER_H

#include "base/files.h"
#include "checkpoint/store.h"

#define LS_STORE_PARTIAL ".partial"   /* being saved or removed */
#define LS_STORE_REPLACED ".replaced" /* the old checkpoint of a step while a new one is renamed */
#define LS_STORE_ASIDE ".aside"

/* A file that is added to every checkpoint. */
typedef struct ls_store_file {
    char *name, *data;
    size_t bytes;
} ls_store_file;

struct ls_store {
    ls_path folder; /* DIR/checkpoints */
    ls_store_mode mode;
    int keep;
    int64_t keep_every;
    int64_t best;  /* −1: none */
    int64_t clean; /* steps up to this one are free of corruption; −1: not checked */
    bool is_saving;
    ls_store_file *carried;
    int carried_count;
};

/* A name in the folder: step-000000100 with a suffix, which may be "". */
typedef struct ls_store_name {
    int64_t step;
    char suffix[16];
} ls_store_name;

/* Lists all names of this form, unordered. The caller frees *names, which is NULL if there are none. */
ls_status ls_store_names(const ls_store *store, ls_store_name **names, int *count);
/* Returns the path of a step's folder with this suffix. */
ls_path ls_store_path(const ls_store *store, int64_t step, const char *suffix);
/* Changes the suffix of a step's folder; removes a folder that has the new one. Does not sync to disk. */
ls_status ls_store_rename(const ls_store *store, int64_t step, const char *from, const char *to);
/* Removes the folder of a step. A valid checkpoint is renamed first, so that a crash leaves no incomplete one. */
ls_status ls_store_remove(const ls_store *store, int64_t step, const char *suffix);

/* Makes `latest` name the newest complete checkpoint. */
ls_status ls_store_fix_latest(const ls_store *store);
/* Makes `best` name the best checkpoint if that is complete; otherwise removes it. */
ls_status ls_store_fix_best(const ls_store *store);

#endif
