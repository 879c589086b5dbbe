/* inputs.h: opens what options name: model and tokenizer, BOS tokens, images, layout. Local unless a function takes the
 * world; failures are LS_ERR_INPUT that names the option, and leave nothing to release. */
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
    ls_weights *weights; /* NULL: weights are initialised from the seed */
} ls_start;

/* Opens a preset, a shape file or anything with weights. */
ls_status ls_start_open(const char *model, ls_start *out);
/* The same in two halves, for workers that a launcher started: only rank 0 verifies weights. Each worker looks before
 * the world exists, so that a user's mistake ends it early; then all workers open what they have found. */
ls_status ls_start_look(const char *model, ls_start *out);
ls_status ls_start_open_together(ls_world *world, const char *model, ls_start *start);
void ls_start_close(ls_start *start);
/* Opens the option's tokenizer, else the model's, else bytes if the vocabulary is 256; *out is NULL if there is none.
 * LS_ERR_INPUT if the tokenizer has more tokens than the model's vocabulary. */
ls_status ls_start_tokenizer(const ls_start *start, const char *option, ls_tokenizer **out);

/* Finds the cache folder for tokenized text: $XDG_CACHE_HOME/lockstep, ~/.cache/lockstep, or one in the working
 * directory. */
ls_status ls_cache_dir(char *path, size_t room);

/* ---- --bos: tokens around text (data/tokenizer/frame.h), and their field of the identity ------------------------- */

/* Resolves --bos; without a tokenizer (NULL) there are no such tokens. */
ls_status ls_bos_option(const ls_options *o, const ls_tokenizer *tokenizer, ls_frame *out);
/* The same for a resumed run or a fork, whose --bos auto means the choice of the run before. `before` is the identity
 * of that run, which has no field "bos" if it had no such tokens or is of version 0.1.0. NULL: a new run. */
ls_status ls_bos_option_go_on(const ls_options *o, const ls_tokenizer *tokenizer, const ls_identity *before,
                              ls_frame *out);
/* Adds the field "bos" to the identity if text of a corpus has tokens around it. val_corpus may be NULL. */
ls_status ls_bos_option_identify(const ls_frame *frame, const ls_corpus *corpus, const ls_corpus *val_corpus,
                                 ls_identity *identity);

/* ---- --data and --augment of image models ------------------------------------------------------------------------ */

/* Resolves --augment for an image model. */
ls_status ls_image_option_augment(const ls_options *options, const ls_shape *shape, ls_augment *out);
/* Opens images of the size that the model takes, or `larger` ones that are cropped. `source` NULL: drawings, which have
 * that size. `count`: uses only the first so many; 0: all. */
ls_status ls_image_option_open(const char *source, const ls_shape *shape, bool larger, ls_images_part part,
                               uint64_t count, ls_images **out);
/* Returns the size, channels and classes that data must have for the model. */
ls_images_about ls_image_option_about(const ls_shape *shape);
/* Fails if a flag is for the other kind of model. */
ls_status ls_image_option_check(const ls_options *options, const ls_shape *shape);
/* Fails if the model is an image model, which `what` does not support. */
ls_status ls_image_option_refuse(const ls_shape *shape, const char *what);

/* ---- --layout, and the workers ----------------------------------------------------------------------------------- */

/* Reads the file of --layout, if any, and applies the options that were given at the same origin or a stronger one: a
 * flag overrides the file, and a file that a flag names overrides a --config file. Texts of the request belong to the
 * options and to *file, which the caller releases with json_decref(); it is NULL without a file, and on failure. */
ls_status ls_layout_request_from_options(const ls_options *o, json_t **file, ls_layout_request *out);

/* Resolves the options of ls_workers_run(). */
ls_status ls_workers_options_from(const ls_options *options, ls_workers_options *workers);

#endif
