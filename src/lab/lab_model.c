/* lab_model.c: opens a model with data from options. */
#include "lab/lab_model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "model/model.h"
#include "run/inputs/inputs.h"

/* Sequences of a batch: 13, which no number of workers divides; with batch norm 24, because its groups must be equal.
 */
enum { DEFAULT_B = 13, DEFAULT_B_NORM = 24, DEFAULT_T = 11, DEFAULT_GROUPS = 8, PURPOSE_TOKENS = 0x7EC1 };

/* Sizes are odd on purpose: nothing is a multiple of a vector, a slice or a shard. */
typedef struct own_model {
    double dropout;
    ls_shape shape;
} own_model;

static const own_model own_models[] = {
    {
        .dropout = 0.1,
        .shape = {.name = "verify-gpt2",
                  .arch = LS_ARCH_GPT2,
                  .V = 259,
                  .C = 48,
                  .L = 7,
                  .H = 6,
                  .T = 24,
                  .kv_heads = 6,
                  .head_size = 8,
                  .hidden = 100,
                  .tied = true,
                  .attention_bias = true,
                  .mlp_bias = true,
                  .eps = 1e-5,
                  .init_std = 0.02},
    },
    {
        .shape = {.name = "verify-llama",
                  .arch = LS_ARCH_LLAMA,
                  .V = 263,
                  .C = 44,
                  .L = 5,
                  .H = 10,
                  .T = 24,
                  .kv_heads = 5,
                  .head_size = 6,
                  .hidden = 58,
                  .eps = 1e-6,
                  .init_std = 0.02,
                  .rope = {.base = 10000}},
    },
};
enum { OWN_MODELS = sizeof own_models / sizeof *own_models };

bool ls_lab_model_name(const ls_options *o, int i, const char **name) {
    const char *of_user = o->preset ? o->preset : o->model;
    if (i >= (of_user ? 1 : OWN_MODELS)) return false;
    *name = of_user ? of_user : own_models[i].shape.name;
    return true;
}

/* Returns the built-in model of that name; NULL: there is none. */
static const own_model *find_own_model(const char *name) {
    for (int i = 0; i < OWN_MODELS; i++)
        if (strcmp(own_models[i].shape.name, name) == 0) return &own_models[i];
    return NULL;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* Resolves the settings. Our own models get clipping, and GPT-2 dropout: neither may depend on the layout. */
static ls_status resolve_settings(const ls_options *given, const own_model *own, int64_t default_steps,
                                  ls_lab_model *c) {
    ls_options o = *given; /* borrows texts; nothing to end */
    ls_option_origin steps = given->source[LS_OPT_steps].origin;
    size_t positions = c->start.shape.T;
    /* A file's steps are those of a training run: of its learning rate, not of ours. */
    c->steps = steps == LS_ORIGIN_ENV || steps == LS_ORIGIN_FLAG ? given->steps : default_steps;
    if (steps != LS_ORIGIN_FILE || o.steps < c->steps) o.steps = c->steps;
    /* Batch norm needs groups of one size. */
    if (o.global_batch == 0) o.global_batch = ls_shape_has_batch_norm(&c->start.shape) ? DEFAULT_B_NORM : DEFAULT_B;
    if (o.seq == 0) o.seq = positions < DEFAULT_T ? (int64_t)positions : DEFAULT_T;
    if (own && !ls_options_is_given(given, LS_OPT_dropout)) o.dropout = own->dropout;
    if (own && !ls_options_is_given(given, LS_OPT_clip)) o.clip = 0.25;
    /* As many as the layouts of every unit can use. */
    if (own && o.slices == 0) o.slices = ls_model_default_slices(&c->start.shape, LS_UNIT_CHAIN);
    if (own && o.groups == 0)
        for (o.groups = DEFAULT_GROUPS; o.groups > o.global_batch;) o.groups /= 2;
    LS_TRY(ls_settings_resolve(&o, &c->start.shape, &c->settings));
    if (c->steps > 0) return LS_OK;
    return ls_options_fail(given, LS_OPT_steps, "use at least one step, to have something to compare");
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

/* Writes random token ids as a token file. */
static ls_status write_tokens(const ls_settings *s, const char *prefix) {
    enum { SEQUENCES = 80 }; /* of them a twentieth is for validation */
    ls_status status = LS_OK;
    ls_token_writer *writer = NULL;
    ls_token_origin origin = {.vocab = (uint32_t)s->shape.V};
    ls_rng_key key = ls_rng_key_make(s->options.seed, PURPOSE_TOKENS, 0);
    size_t count = SEQUENCES * s->T + 1;
    int32_t *ids = malloc(count * sizeof *ids);
    if (!ids) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu tokens", count);
    for (size_t i = 0; i < count; i++) ids[i] = (int32_t)ls_rng_below(key, i, s->shape.V);
    LS_TRY_OUT(ls_token_writer_open(prefix, &origin, LS_SHARD_TOKENS_MAX, &writer));
    LS_TRY_OUT(ls_token_writer_add(writer, ids, count, 0));
    status = ls_token_writer_finish(writer);
out:
    ls_token_writer_close(writer);
    free(ids);
    return status;
}

/* Makes random tokens, in a file that is removed as soon as it is open. */
static ls_status make_up_data(ls_lab_model *c) {
    const char *tmp = getenv("TMPDIR");
    char folder[PATH_MAX - 64], prefix[PATH_MAX - 32];
    ls_corpus_options options = {.vocab = (uint32_t)c->settings.shape.V};
    int length = snprintf(folder, sizeof folder, "%s/lockstep-verify-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (length < 0 || (size_t)length >= sizeof folder)
        return ls_fail(LS_ERR_INPUT, "the name of TMPDIR is too long; set it to another folder");
    if (!mkdtemp(folder)) return ls_fail_errno(LS_ERR_INPUT, "cannot create a folder such as %s; set TMPDIR", folder);
    snprintf(prefix, sizeof prefix, "%s/tokens", folder);
    ls_status status = write_tokens(&c->settings, prefix);
    if (status == LS_OK) {
        ls_path path = ls_token_shard_path(prefix, 1);
        status = ls_corpus_open(path.text, &options, &c->corpus);
        unlink(path.text);
    }
    rmdir(folder);
    return status;
}

/* Opens the images of the options, or drawings that are generated if there is no --data. */
static ls_status open_images(const ls_options *o, ls_lab_model *c) {
    enum { DRAWINGS = 256 };
    const ls_shape *shape = &c->settings.shape;
    uint64_t count = o->data ? 0 : DRAWINGS;
    LS_TRY(ls_image_option_augment(o, shape, &c->augment));
    bool larger = c->augment.crop > 0;
    LS_TRY(ls_image_option_open(o->data, shape, larger, LS_IMAGES_TRAIN, count, &c->images));
    return ls_image_option_open(o->val_data ? o->val_data : o->data, shape, larger, LS_IMAGES_TEST, count,
                                &c->val_images);
}

/* Opens the training and validation data: images, random tokens, or the user's corpus. Built-in models read
 * text as bytes. */
static ls_status open_data(const ls_options *o, bool is_own, ls_lab_model *c) {
    char cache[PATH_MAX];
    ls_frame frame;
    if (ls_shape_sees_images(&c->settings.shape)) return open_images(o, c);
    if (!o->data) return make_up_data(c);
    LS_TRY(ls_start_tokenizer(&c->start, o->tokenizer || !is_own ? o->tokenizer : "bytes", &c->tokenizer));
    LS_TRY(ls_bos_option(o, c->tokenizer, &frame));
    LS_TRY(ls_cache_dir(cache, sizeof cache));
    ls_corpus_options options = {.tokenizer = c->tokenizer,
                                 .vocab = (uint32_t)c->start.shape.V,
                                 .cache_dir = cache,
                                 .frame = frame,
                                 .wait_s = o->timeout,
                                 .text_field = o->text_field,
                                 .split = LS_SPLIT_TRAIN};
    LS_TRY(ls_corpus_open(o->data, &options, &c->corpus));
    options.split = LS_SPLIT_VAL;
    if (o->val_data) return ls_corpus_open(o->val_data, &options, &c->val_corpus);
    return ls_paths_any(o->data, LS_SPLIT_VAL) ? ls_corpus_open(o->data, &options, &c->val_corpus) : LS_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

ls_status ls_lab_model_open(const ls_options *o, const char *name, int64_t default_steps, ls_lab_model *out) {
    ls_status status = LS_OK;
    const own_model *own = o->preset || o->model ? NULL : find_own_model(name);
    *out = (ls_lab_model){0};
    if (own) out->start.shape = own->shape;
    if (o->preset && o->model) return ls_options_fail(o, LS_OPT_preset, "--model is given too; use one of them");
    if (!own) LS_TRY_OUT(ls_start_open(name, &out->start));
    LS_TRY_OUT(resolve_settings(o, own, default_steps, out));
    LS_TRY_OUT(open_data(o, own != NULL, out));
    LS_TRY_OUT(ls_model_create(&out->settings.shape, out->settings.slices, &out->model));
    out->task = ls_trainer_task(&out->settings, out->model);
    return LS_OK;
out:
    ls_lab_model_close(out);
    return status;
}

void ls_lab_model_close(ls_lab_model *c) {
    ls_model_destroy(c->model);
    ls_corpus_close(c->corpus);
    ls_corpus_close(c->val_corpus);
    ls_images_close(c->images);
    ls_images_close(c->val_images);
    ls_tokenizer_close(c->tokenizer);
    ls_start_close(&c->start);
    *c = (ls_lab_model){0};
}

ls_trainer_data ls_lab_model_data(const ls_lab_model *one) {
    return (ls_trainer_data){.corpus = one->corpus,
                             .val_corpus = one->val_corpus,
                             .images = one->images,
                             .val_images = one->val_images,
                             .augment = one->augment};
}
