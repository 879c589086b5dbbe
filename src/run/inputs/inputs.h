/* inputs.h: opens what options name: model and tokenizer, tokens around documents (--bos), images, layout file. The
 * library's runs (api) and the lab call it. Local unless a function takes the world; failures are LS_ERR_INPUT that
 * names the option, and leave nothing to release. */
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

/* Where a model begins: its shape, and the source of its weights. */
typedef struct ls_start {
    ls_shape shape;
    ls_weights *weights; /* owned; NULL: weights are initialized from the seed */
} ls_start;

/* Opens a preset, a shape file or anything with weights (a run, a checkpoint, a Hugging Face folder, a file of llm.c),
 * and verifies checksums of the weights. The caller ends *out with ls_start_close(). */
ls_status ls_start_open(const char *model, ls_start *out);
/* Opens a preset, a shape file or anything with weights without verifying checksums, to know the shape: before workers
 * started by a launcher have a world, so that a user's mistake ends each of them early. The weights may be damaged. */
ls_status ls_start_look(const char *model, ls_start *out);
/* Opens the model again in all workers of a launcher, of which only rank 0 verifies the weights; closes *start first.
 * Collective. */
ls_status ls_start_open_together(ls_world *world, const char *model, ls_start *start);
/* Closes the weights and zeroes the struct. */
void ls_start_close(ls_start *start);
/* Opens the tokenizer of `option` (NULL: not given), else the model's, else bytes if the vocabulary is 256; *out is
 * NULL if there is none, which is no failure. LS_ERR_INPUT if the tokenizer has more tokens than the model's
 * vocabulary. The caller closes *out. */
ls_status ls_start_tokenizer(const ls_start *start, const char *option, ls_tokenizer **out);

/* Writes the path of the cache folder for tokenized text: $XDG_CACHE_HOME/lockstep, ~/.cache/lockstep, or
 * .lockstep-cache in the working directory. Does not create it. */
ls_status ls_cache_dir(char *path, size_t room);

/* ---- --bos: tokens around text (data/tokenizer/frame.h), and their field of the identity ------------------------- */

/* Resolves --bos to the tokens around each document; without a tokenizer (NULL) there are none. LS_ERR_INPUT for --bos
 * yes if the tokenizer has no BOS token. */
ls_status ls_bos_option(const ls_options *o, const ls_tokenizer *tokenizer, ls_frame *out);
/* Resolves --bos for a resumed run or a fork, whose --bos auto means the choice of the run before. `before` is the
 * identity of that run, which has no field "bos" if it had no such tokens or is of version 0.1.0. NULL: a new run. */
ls_status ls_bos_option_go_on(const ls_options *o, const ls_tokenizer *tokenizer, const ls_identity *before,
                              ls_frame *out);
/* Adds the field "bos" to the identity if text of a corpus has tokens around it. val_corpus may be NULL. */
ls_status ls_bos_option_identify(const ls_frame *frame, const ls_corpus *corpus, const ls_corpus *val_corpus,
                                 ls_identity *identity);

/* ---- --data and --augment of image models ------------------------------------------------------------------------ */

/* Resolves --augment for an image model: flip, shift and crop; seed and step stay 0. */
ls_status ls_image_option_augment(const ls_options *options, const ls_shape *shape, ls_augment *out);
/* Opens images of the size that the model takes, or, if `larger`, larger ones that are cropped; LS_ERR_INPUT for other
 * sizes, channels or too many classes. `source` NULL: generated drawings, which have that size. `count`: uses only the
 * first so many; 0: all. The caller closes *out. */
ls_status ls_image_option_open(const char *source, const ls_shape *shape, bool larger, ls_images_part part,
                               uint64_t count, ls_images **out);
/* Returns the size, channels and classes that data must have for the model. */
ls_images_about ls_image_option_about(const ls_shape *shape);
/* Fails if a flag is for the other kind of model (text options for an image model, --augment for a language model);
 * options from a file or the environment, which may be for several models, pass. */
ls_status ls_image_option_check(const ls_options *options, const ls_shape *shape);
/* Fails with LS_ERR_INPUT if the model is an image model, which `what` (a command or option, for the message) does not
 * support. */
ls_status ls_image_option_refuse(const ls_shape *shape, const char *what);

/* ---- --layout, and the workers ----------------------------------------------------------------------------------- */

/* Reads the file of --layout, if any, and applies the options that were given at the same origin or a stronger one: a
 * flag overrides the file, and a file that a flag names overrides a --config file. Knobs given nowhere stay open. Texts
 * of the request belong to the options and to *file, which the caller releases with json_decref(); it is NULL without a
 * file, and on failure. */
ls_status ls_layout_request_from_options(const ls_options *o, json_t **file, ls_layout_request *out);

/* Fills *workers with the options of ls_workers_run(), in its units; members that no option sets are 0. */
ls_status ls_workers_options_from(const ls_options *options, ls_workers_options *workers);

#endif
