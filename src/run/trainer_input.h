/* trainer_input.h: the order in which a trainer (trainer.h) reads its data, and the callbacks with which a partition
 * (the part of the model that a worker computes) reads its batch.
 *
 * Step n, counted from 0, takes samples n·B … n·B + B − 1 of a keyed permutation (data/sampler.h), B sequences or
 * images in each step, so the position in the data is one number. A fork continues from the position of its parent. Not
 * collective: each worker reads its own sequences only. */
#ifndef LS_RUN_TRAINER_INPUT_H
#define LS_RUN_TRAINER_INPUT_H

#include "data/images/images.h"
#include "data/sampler.h"
#include "data/text/corpus.h"
#include "parallel/partition/partition.h"

typedef struct ls_trainer ls_trainer;

/* Training and validation data of the caller, which must outlive the trainer: token corpora for a language model,
 * images for an image model; the others are NULL. val_corpus NULL: validation takes the end of the corpus
 * (--val-fraction); val_images NULL: there is no validation. */
typedef struct ls_trainer_data {
    ls_corpus *corpus, *val_corpus;
    ls_images *images, *val_images;
    ls_augment augment; /* the trainer sets seed and step */
} ls_trainer_data;

typedef struct ls_trainer_input {
    ls_trainer_data data;            /* borrowed */
    ls_sampler sampler, val_sampler; /* map the number of a sample to its place in the data */
    uint64_t val_first; /* token with which validation begins: of the training corpus if its end is held out; else 0 */
    bool has_val;       /* there is validation data, enough for a sequence */
    /* private */
    int32_t *window; /* one sequence, on the host */
    uint64_t *index; /* the images of a micro-batch, on the host */
} ls_trainer_input;

/* Initializes the samplers of trainer->input.data: splits validation off the end of the corpus if it has no data of its
 * own, and sets has_val. Fails if the data has too few tokens for a sequence. Called by ls_trainer_create(), before
 * there is a layout. */
ls_status ls_trainer_open_samplers(ls_trainer *trainer);
/* Allocates the host buffers; LS_ERR_RESOURCE. Call it when layout.micro (sequences of a micro-batch) is settled. */
ls_status ls_trainer_open_input(ls_trainer *trainer);
/* Frees the buffers, also after a failure. Call it once. */
void ls_trainer_close_input(ls_trainer *trainer);

/* Returns the number of samples (sequences or images) taken before the next step: the position in the data. Those of a
 * fork's parent count. */
uint64_t ls_trainer_samples(const ls_trainer *trainer);
/* Returns the callbacks that read the batch of the step after trainer->step. Reads nothing yet and does not advance.
 * Sequences from B on are those of the step after that one, for a prefetch. The feed borrows the trainer; it is valid
 * for one step. */
ls_partition_feed ls_trainer_feed(ls_trainer *trainer);
/* Returns the callbacks that read the validation data, from its beginning. */
ls_partition_feed ls_trainer_validation_feed(ls_trainer *trainer);

#endif
