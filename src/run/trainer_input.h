/* trainer_input.h: the order in which a trainer reads its data, and the callbacks with which a partition reads it.
 *
 * Step n takes samples n·B … n·B + B − 1, so the position in the data is one number. A fork continues from the position
 * of its parent. */
#ifndef LS_RUN_TRAINER_INPUT_H
#define LS_RUN_TRAINER_INPUT_H

#include "data/images/images.h"
#include "data/sampler.h"
#include "data/text/corpus.h"
#include "parallel/partition/partition.h"

typedef struct ls_trainer ls_trainer;

/* Tokens, or images for a model that sees images; for training, and for validation. They outlive the trainer.
 * val_corpus is NULL if validation takes the end of the corpus, val_images if there is no validation. */
typedef struct ls_trainer_data {
    ls_corpus *corpus, *val_corpus;
    ls_images *images, *val_images;
    ls_augment augment; /* the trainer sets seed and step */
} ls_trainer_data;

typedef struct ls_trainer_input {
    ls_trainer_data data; /* borrowed */
    ls_sampler sampler, val_sampler;
    uint64_t val_first; /* token of the corpus with which validation begins */
    bool has_val;
    /* private */
    int32_t *window; /* one sequence, on the host */
    uint64_t *index; /* the images of a micro-batch, on the host */
} ls_trainer_input;

/* Opens the samplers of trainer->input.data and sets has_val. Needs no layout. */
ls_status ls_trainer_open_samplers(ls_trainer *trainer);
/* Allocates the buffers. Call when layout.micro is settled. */
ls_status ls_trainer_open_input(ls_trainer *trainer);
/* Frees the buffers, also after a failure. Call it once. */
void ls_trainer_close_input(ls_trainer *trainer);

/* Returns the number of samples taken so far: the position in the data. */
uint64_t ls_trainer_samples(const ls_trainer *trainer);
/* Returns the callbacks that read the batch of the next step. Reads nothing yet and does not advance. The feed borrows
 * the trainer. */
ls_partition_feed ls_trainer_feed(ls_trainer *trainer);
/* The same of the validation data. */
ls_partition_feed ls_trainer_validation_feed(ls_trainer *trainer);

#endif
