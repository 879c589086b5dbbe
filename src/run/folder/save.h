/* save.h: writes a trainer's state as a checkpoint and reads it back. The training loop saves through saver.h instead;
 * a fork's first checkpoint and trials call ls_save(). Files do not depend on the layout: tensors are whole and in
 * canonical order, so every layout writes the same bytes and reads those of any other.
 *
 *     weights.safetensors     one tensor for each parameter, by name; metadata: format, shape
 *     optimizer.safetensors   "<name>.m" and "<name>.v" (SGD: "<name>.m" alone); none for SGD without momentum
 *     state.json              step, updates, samples (the position in the data), identity, shape, tokenizer, weight
 *                             hash, hash of the state, evaluations so far (validation.h)
 *
 * All workers of a layout save and load together, in one shared folder. Each one moves its own bytes, so no worker ever
 * holds the whole model. */
#ifndef LS_RUN_FOLDER_SAVE_H
#define LS_RUN_FOLDER_SAVE_H

#include "checkpoint/store.h"
#include "data/tokenizer/tokenizer.h"
#include "run/folder/identity.h"
#include "run/trainer.h"

/* Saves a checkpoint while training waits, after verifying the state in memory. Collective. Store, identity and
 * tokenizer are those of rank 0; the others may pass NULL. Saves the files of the tokenizer, too, unless it is NULL. If
 * one worker fails, all fail (run/agree.h), and no part of the checkpoint remains. */
ls_status ls_save(ls_store *store, ls_trainer *trainer, const ls_identity *identity, const ls_tokenizer *tokenizer);

/* Checks that all workers see files that rank 0 writes into `folder`, and can write there; before a run of a launcher
 * that saves. `folder` exists and is rank 0's; the others may pass NULL. LS_ERR_INPUT names worker, machine and folder.
 * Collective. */
ls_status ls_save_check_shared(ls_world *world, const char *folder);

/* Reads the identity of the run that saved a checkpoint; the caller destroys it. LS_ERR_INPUT if the checkpoint was
 * imported and is not of a run. */
ls_status ls_saved_identity(const ls_checkpoint *checkpoint, ls_identity **out);
enum { LS_SAVED_WORD_MAX = 16 };
/* Reads precision and matrix unit (the instructions for 16-bit matrices) of the run that saved the checkpoint, as
 * option values; "fp32" and "chain" if its identity names none, "" for both if the checkpoint is not of a run. */
ls_status ls_saved_precision(const ls_checkpoint *checkpoint, char precision[LS_SAVED_WORD_MAX],
                             char unit[LS_SAVED_WORD_MAX]);
enum { LS_SAVED_HASH_MAX = 33 };
/* Reads the hash of the weights that was recorded when they were saved; "" if there is none. */
ls_status ls_saved_weights(const ls_checkpoint *checkpoint, char hash[LS_SAVED_HASH_MAX]);
/* Reads the checkpoint's position in the data: the number of samples (sequences or images) taken before its next step.
 * LS_ERR_INPUT if it is damaged. */
ls_status ls_saved_samples(const ls_checkpoint *checkpoint, int64_t *out);
/* Loads step, numbers, and this worker's part of weights and optimizer state into the trainer. Each worker opens the
 * checkpoint itself; rank 0 has verified its checksums and compared the identity before. Compares the state hash, if
 * one was saved and --check is not off, so it is collective; LS_ERR_INPUT if it differs. */
ls_status ls_load(ls_trainer *trainer, const ls_checkpoint *checkpoint);
/* Loads the same for a fork: without the evaluations and the audits of the parent, a loss scale that the settings do
 * not allow starts again, and the state hash is not compared. */
ls_status ls_load_fork(ls_trainer *trainer, const ls_checkpoint *checkpoint);
/* Loads the weights alone into any partition of a model with the same parameters. Not collective; ls_partition_settle()
 * must follow on all workers. */
ls_status ls_load_weights(ls_partition *partition, const ls_checkpoint *checkpoint);

#endif
