/* store_folder.h: the folder of a store and the names in it; for this folder only. */
#ifndef LS_CHECKPOINT_STORE_FOLDER_H
#define LS_CHECKPOINT_STORE_FOLDER_H

#include "base/files.h"
#include "checkpoint/store.h"

#define LS_STORE_PARTIAL ".partial"   /* not complete, or on its way out */
#define LS_STORE_REPLACED ".replaced" /* the old one while a new one of the same step takes its name */
#define LS_STORE_ASIDE ".aside"

/* A file that goes into every checkpoint. */
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
    int64_t clean; /* −1: all are */
    bool is_saving;
    ls_store_file *carried;
    int carried_count;
};

/* A name in the folder: step-000000100 with a suffix, which may be "". */
typedef struct ls_store_name {
    int64_t step;
    char suffix[16];
} ls_store_name;

/* All names of this kind, in no order; the caller frees *names, which is NULL when there are none. */
ls_status ls_store_names(const ls_store *store, ls_store_name **names, int *count);
ls_path ls_store_path(const ls_store *store, int64_t step, const char *suffix);
/* Gives the folder of a step another suffix; one that has it is removed first. Not forced to disk. */
ls_status ls_store_rename(const ls_store *store, int64_t step, const char *from, const char *to);
/* Removes the folder of a step. One that counts loses its name first, so that a crash leaves no half of it. */
ls_status ls_store_remove(const ls_store *store, int64_t step, const char *suffix);

/* Makes `latest` name the newest complete checkpoint. */
ls_status ls_store_fix_latest(const ls_store *store);
/* Makes `best` name the best one, where it is complete; otherwise removes it. */
ls_status ls_store_fix_best(const ls_store *store);
/* What `best` names; −1: nothing. */
int64_t ls_store_read_best(const ls_store *store);

#endif
