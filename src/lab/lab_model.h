/* lab_model.h: a model that verify and scale train: shape, settings and data. It is opened before workers are forked,
 * which inherit it. */
#ifndef LS_LAB_LAB_MODEL_H
#define LS_LAB_LAB_MODEL_H

#include "run/inputs/inputs.h"
#include "data/text/corpus.h"
#include "data/images/images.h"
#include "run/settings.h"
#include "run/trainer.h"

typedef struct ls_lab_model {
    ls_start start; /* shape, and initial weights if --model has any */
    ls_settings settings;
    int64_t steps; /* to train; the learning-rate schedule may have more */
    ls_tokenizer *tokenizer;
    ls_corpus *corpus, *val_corpus;
    ls_images *images, *val_images; /* of an image model, in their place */
    ls_augment augment;             /* random changes of training images */
    ls_model *model;                /* whole, without memory: for names, sizes and layouts */
    ls_layout_task task;            /* what layouts are made for */
} ls_lab_model;

/* Finds the name of model i: the one of --preset or --model or, without them, a built-in small GPT-2 (0) and Llama (1).
 * Returns false behind the last. */
bool ls_lab_model_name(const ls_options *options, int i, const char **name);
/* Opens the model `name` with settings and data. Values that the options leave open are small here. Without --data,
 * tokens are random numbers from the seed, and images are generated drawings. On failure there is nothing to
 * release. */
ls_status ls_lab_model_open(const ls_options *options, const char *name, int64_t default_steps, ls_lab_model *out);
/* Closes everything that the model opened. */
void ls_lab_model_close(ls_lab_model *one);
/* Returns the data for a trainer, borrowed from `one`. */
ls_trainer_data ls_lab_model_data(const ls_lab_model *one);

#endif
