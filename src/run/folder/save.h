/* save.h: writes a trainer's state as a checkpoint and reads it back. Files do not depend on the layout: tensors are
 * whole and in canonical order, so every layout writes the same bytes and reads those of any other.
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

/* Saves a checkpoint while training waits. Collective. Store, identity and tokenizer are those of worker 0; the others
 * may pass NULL. Saves the files of the tokenizer too, unless it is NULL. If one worker fails, all fail (run/agree.h),
 * and no part of the checkpoint remains. */
ls_status ls_save(ls_store *store, ls_trainer *trainer, const ls_identity *identity, const ls_tokenizer *tokenizer);

/* Collective: checks that all workers see files that worker 0 writes into `folder`, and can write there. Call it before
 * a run that saves. `folder` exists and is worker 0's; the others may pass NULL. LS_ERR_INPUT names worker, machine and
 * folder. */
ls_status ls_save_check_shared(ls_world *world, const char *folder);

/* Reads the identity of the run that saved a checkpoint; the caller destroys it. */
ls_status ls_saved_identity(const ls_checkpoint *checkpoint, ls_identity **out);
/* Reads precision and matrix unit of the run, as option values; "" if the checkpoint is not of a run. */
enum { LS_SAVED_WORD_MAX = 16 };
ls_status ls_saved_precision(const ls_checkpoint *checkpoint, char precision[LS_SAVED_WORD_MAX],
                             char unit[LS_SAVED_WORD_MAX]);
/* Reads the recorded hash of its weights; "" if there is none. */
enum { LS_SAVED_HASH_MAX = 33 };
ls_status ls_saved_weights(const ls_checkpoint *checkpoint, char hash[LS_SAVED_HASH_MAX]);
/* Reads its position in the data. */
ls_status ls_saved_samples(const ls_checkpoint *checkpoint, int64_t *out);
/* Loads the step and this worker's part of weights and optimizer state. Each worker opens the checkpoint itself; one of
 * them has verified its checksums and compared the identity before. */
ls_status ls_load(ls_trainer *trainer, const ls_checkpoint *checkpoint);
/* The same for a fork: a loss scale that its settings do not allow starts again. */
ls_status ls_load_fork(ls_trainer *trainer, const ls_checkpoint *checkpoint);
/* Loads the weights alone into any partition of the same shape. */
ls_status ls_load_weights(ls_partition *partition, const ls_checkpoint *checkpoint);

#endif
