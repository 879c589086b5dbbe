/* save_files.h: the files of a trainer's checkpoint; private to this folder. */
#ifndef LS_RUN_FOLDER_SAVE_FILES_H
#define LS_RUN_FOLDER_SAVE_FILES_H

#include "checkpoint/partition_tensors.h"
#include "checkpoint/store.h"
#include "data/tokenizer/tokenizer.h"
#include "run/folder/identity.h"
#include "run/trainer.h"

enum { LS_SAVE_FILES_MAX = 2 };

/* Files of weights and, if the optimizer has any, of optimizer state. Must not be moved while it is open. */
typedef struct ls_save_files {
    int count;
    const char *name[LS_SAVE_FILES_MAX];
    ls_partition_tensors tensors[LS_SAVE_FILES_MAX];
    const ls_partition_tensors *list[LS_SAVE_FILES_MAX]; /* the same */
    ls_safetensors_plan plan[LS_SAVE_FILES_MAX];
    size_t first_sum[LS_SAVE_FILES_MAX + 1]; /* where the sums of a file begin among those of all */
    ls_safetensors_text metadata[2];
    char *shape;
} ls_save_files;

/* On failure nothing is left to release. */
ls_status ls_save_files_open(const ls_trainer *trainer, ls_save_files *out);
void ls_save_files_close(ls_save_files *files);

/* state.json, as the trainer is now; the caller frees it. `hash` is that of its weights; `tokenizer` may be NULL. */
ls_status ls_save_state_text(const ls_trainer *trainer, const char *hash, const ls_identity *identity,
                             const ls_tokenizer *tokenizer, char **text);
/* The files of the tokenizer go along, so that a checkpoint can be moved and used alone. */
ls_status ls_save_tokenizer(ls_store_save *save, const ls_tokenizer *tokenizer);

#endif
