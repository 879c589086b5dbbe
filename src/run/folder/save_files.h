/* save_files.h: the files of a trainer's checkpoint: which tensors they have, and state.json; for saver.c alone. */
#ifndef LS_RUN_FOLDER_SAVE_FILES_H
#define LS_RUN_FOLDER_SAVE_FILES_H

#include "checkpoint/partition_tensors.h"
#include "checkpoint/store.h"
#include "data/tokenizer/tokenizer.h"
#include "run/folder/identity.h"
#include "run/trainer.h"

enum { LS_SAVE_FILES_MAX = 2 };

/* The files of weights and, if the optimizer has any, of optimizer state. Must not be moved while it is open, because
 * it points into itself. */
typedef struct ls_save_files {
    int count;
    const char *name[LS_SAVE_FILES_MAX]; /* of the files, such as "weights.safetensors" */
    ls_partition_tensors tensors[LS_SAVE_FILES_MAX];
    const ls_partition_tensors *list[LS_SAVE_FILES_MAX]; /* pointers to `tensors`, as ls_snapshot_plan() takes them */
    ls_safetensors_plan
        plan[LS_SAVE_FILES_MAX]; /* what a writer of each file takes; points into `tensors` and `metadata` */
    size_t first_sum[LS_SAVE_FILES_MAX + 1]; /* where the sums of each file (header, then tensors) begin in one list;
                                                the last entry: their number */
    ls_safetensors_text metadata[2];
    char *shape; /* JSON of the model's shape, for the metadata; owned */
} ls_save_files;

/* Declares the files of the trainer's model. Writes nothing. On failure nothing is left to release. */
ls_status ls_save_files_open(const ls_trainer *trainer, ls_save_files *out);
void ls_save_files_close(ls_save_files *files);

/* Makes the text of state.json, as the trainer is now; the caller frees it. `hash` is that of its weights; `tokenizer`
 * may be NULL. Rank 0. */
ls_status ls_save_state_text(const ls_trainer *trainer, const char *hash, const ls_identity *identity,
                             const ls_tokenizer *tokenizer, char **text);
/* Adds the files of the tokenizer to the save, so that a checkpoint can be moved and used alone. NULL adds none. */
ls_status ls_save_tokenizer(ls_store_save *save, const ls_tokenizer *tokenizer);

#endif
