/* inputs.h: opens what options name: model and tokenizer, BOS tokens, images, layout. */
#ifndef LS_RUN_INPUTS_INPUTS_H
#define LS_RUN_INPUTS_INPUTS_H

#include <jansson.h>

#include "config/options.h"
#include "data/images/images.h"
#include "data/text/corpus.h"
#include "data/tokenizer/tokenizer.h"
#include "interop/weights.h"
#include "parallel/layout/layout.h"
#include "run/folder/identity.h"

/* ---- --model, --preset, --fork: a shape, maybe weights, maybe a tokenizer ---------------------------------------- */

typedef struct ls_start {
    ls_shape shape;
    ls_weights *weights; /* NULL: to be made from the seed */
} ls_start;

/* `model` is a preset, a shape or anything with weights. On failure nothing is left to release. */
ls_status ls_start_open(const char *model, ls_start *out);
/* The same in two halves, for workers that a launcher started: only rank 0 verifies weights. Each worker looks before
 * the world exists, so that a user's mistake ends it early; then all workers open what they have found. */
ls_status ls_start_look(const char *model, ls_start *out);
ls_status ls_start_open_together(ls_world *world, const char *model, ls_start *start);
void ls_start_close(ls_start *start);
/* Opens the option's tokenizer, else the model's, else bytes if the vocabulary is 256; *out is NULL if there is none.
 * LS_ERR_INPUT if the tokenizer has more tokens than the model's vocabulary. */
ls_status ls_start_tokenizer(const ls_start *start, const char *option, ls_tokenizer **out);

/* The folder of tokenized text: $XDG_CACHE_HOME/lockstep, ~/.cache/lockstep, or one in the working directory. */
ls_status ls_cache_dir(char *path, size_t room);

/* ---- --bos: tokens around text (data/tokenizer/frame.h), and their field of the identity ------------------------- */

/* As the option says; without a tokenizer (NULL) nothing. */
ls_status ls_bos_option(const ls_options *o, const ls_tokenizer *tokenizer, ls_frame *out);
/* The same for a run that goes on, or a fork of it: with --bos auto as it began. `before` is its identity; runs of
 * version 0.1.0 have no field "bos" there, nor do runs without such tokens. NULL: a new run. */
ls_status ls_bos_option_go_on(const ls_options *o, const ls_tokenizer *tokenizer, const ls_identity *before,
                              ls_frame *out);
/* Adds the field "bos" where text of the corpora (the second may be NULL) has tokens around it; no field: none. */
ls_status ls_bos_option_identify(const ls_frame *frame, const ls_corpus *corpus, const ls_corpus *val_corpus,
                                 ls_identity *identity);

/* ---- --data and --augment of image models ------------------------------------------------------------------------ */

/* --augment, of a model that sees images. */
ls_status ls_image_option_augment(const ls_options *options, const ls_shape *shape, ls_augment *out);
/* Images of a size that the model sees, or `larger` where a part of them is taken; `source` NULL: drawings, which have
 * that size. `count`: only the first so many; 0: all. */
ls_status ls_image_option_open(const char *source, const ls_shape *shape, bool larger, ls_images_part part,
                               uint64_t count, ls_images **out);
/* What own data must be for the model: its size, channels and classes. */
ls_images_about ls_image_option_about(const ls_shape *shape);
/* LS_ERR_INPUT if a flag is for the other kind of model. */
ls_status ls_image_option_check(const ls_options *options, const ls_shape *shape);
/* LS_ERR_INPUT if the model is an image model, which `what` does not support. */
ls_status ls_image_option_refuse(const ls_shape *shape, const char *what);

/* ---- --layout, and the workers ----------------------------------------------------------------------------------- */

/* The file that --layout names, if any, and over it the options that were given in the same place or a stronger one: a
 * flag wins over the file, and a file that a flag names wins over a --config file. Texts of the request belong to the
 * options and to *file, which the caller ends with json_decref(); it is NULL where there is no file, and on failure. */
ls_status ls_layout_request_from_options(const ls_options *o, json_t **file, ls_layout_request *out);

/* The part of the options that ls_workers_run() takes. */
ls_status ls_workers_options_from(const ls_options *options, ls_workers_options *workers);

#endif
