/* trainer.h: one model, its data and its optimizer, step by step. It prints nothing and writes no file; the loop around
 * it (loop.h) does.
 *
 * Step n takes samples n·B … n·B + B − 1 of the data, so the position in the data is one number. A fork counts on from
 * the position of its parent. */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include "data/corpus.h"
#include "data/sampler.h"
#include "optim/clip.h"
#include "parallel/stage.h"
#include "train/settings.h"

typedef struct ls_trainer {
    ls_settings settings;
    ls_device *device; /* borrowed */
    ls_model *model;
    ls_stage *stage;
    const ls_corpus *corpus, *val_corpus; /* borrowed; the second is NULL where the first has both */
    ls_sampler sampler, val_sampler;
    uint64_t val_first; /* token of the corpus with which validation begins */
    bool has_val;
    int64_t step;          /* done */
    int64_t base_step;     /* of a fork: where it began, */
    uint64_t base_samples; /* and the position in the data there */
    int64_t updates;       /* of the optimizer */
    double last_loss;      /* of the last step; NaN before the first */
    ls_adamw_powers powers;
    int32_t *ids, *targets; /* of a micro-batch, host */
    int32_t *window;
} ls_trainer;

typedef struct ls_step_result {
    double loss; /* mean over the tokens of the batch, before the update */
    double norm; /* of the gradient, before clipping */
    double lr;
    bool finite;
} ls_step_result;

/* Chooses the micro-batch where settings leave it open. `corpus` and `val_corpus` (may be NULL) outlive the trainer.
 * On failure nothing is left to release. */
ls_status ls_trainer_create(const ls_settings *settings, ls_device *device, const ls_corpus *corpus,
                            const ls_corpus *val_corpus, ls_trainer **out);
void ls_trainer_destroy(ls_trainer *trainer);

/* Samples taken so far: the position in the data. */
uint64_t ls_trainer_samples(const ls_trainer *trainer);
/* One step. A gradient that is not finite leaves the weights alone and is told in the result. */
ls_status ls_trainer_step(ls_trainer *trainer, ls_step_result *result);
/* Mean loss over the first `batches` batches of the validation data (all of it when it has fewer). */
ls_status ls_trainer_evaluate(ls_trainer *trainer, int64_t batches, double *loss);

#endif
