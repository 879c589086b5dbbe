/* save.h: a trainer's state as a checkpoint, and back. Knows no layout: tensors are whole and in canonical order.
 *
 *     weights.safetensors     one tensor for each parameter, by name; metadata: format, shape
 *     optimizer.safetensors   "<name>.m" and "<name>.v" (SGD: "<name>.m" alone); none for SGD without momentum
 *     state.json              step, updates, samples (the position in the data), identity, shape, tokenizer, weight
 * hash */
#ifndef LS_TRAIN_SAVE_H
#define LS_TRAIN_SAVE_H

#include "checkpoint/store.h"
#include "data/tokenizer.h"
#include "train/identity.h"
#include "train/trainer.h"

/* `tokenizer` may be NULL; its files are saved too. */
ls_status ls_save(ls_store *store, ls_trainer *trainer, const ls_identity *identity, const ls_tokenizer *tokenizer);

/* The identity that a checkpoint was saved under. */
ls_status ls_saved_identity(const ls_checkpoint *checkpoint, ls_identity **out);
/* Its position in the data. */
ls_status ls_saved_samples(const ls_checkpoint *checkpoint, int64_t *out);
/* Weights, moments and step. The identity must have been compared before. */
ls_status ls_load(ls_trainer *trainer, const ls_checkpoint *checkpoint);
/* The weights alone, into any stage of the same shape. */
ls_status ls_load_weights(ls_stage *stage, const ls_checkpoint *checkpoint);

#endif
