/* session.c: model, settings, layout, data and folder, in the order in which mistakes are cheapest to find. */
#include "cli/train/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/log.h"
#include "run/inputs/bos.h"
#include "cli/cli.h"
#include "run/inputs/image.h"
#include "run/inputs/layout.h"
#include "cli/train/auto.h"
#include "cli/train/options.h"
#include "comm/launcher.h"
#include "model/model.h"

static void say(void *ctx, const char *message) {
    (void)ctx;
    fprintf(stderr, "%s\n", message);
}

/* runs/tiny-1, runs/tiny-2 … */
static ls_status choose_out(ls_train_session *s) {
    char path[512];
    if (s->opts->out) {
        s->out = strdup(s->opts->out);
        return s->out ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a path");
    }
    for (int n = 1; n < 1000000; n++) {
        snprintf(path, sizeof path, "runs/%s-%d", s->start.shape.name, n);
        if (ls_file_exists(path)) continue;
        s->out = strdup(path);
        return s->out ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a path");
    }
    return ls_fail(LS_ERR_INPUT, "no free name left in runs/; choose a folder with --out");
}

ls_status ls_train_session_layout(ls_train_session *s) {
    ls_model *model = NULL;
    LS_TRY(ls_model_create(&s->settings.shape, s->settings.slices, &model));
    ls_layout_task task = ls_trainer_task(&s->settings, model);
    ls_status status = ls_layout_make(&s->request, &task, &s->layout);
    ls_model_destroy(model);
    return status;
}

/* There are as many workers as the launcher started. */
static ls_status take_launched(ls_layout_request *request) {
    ls_launcher launcher = ls_launcher_detect();
    if (request->workers > 0 && request->workers != launcher.size)
        return ls_fail(LS_ERR_INPUT, "--workers %d: %s started %d: use --workers %d, or leave it out", request->workers,
                       launcher.name, launcher.size, launcher.size);
    request->workers = launcher.size;
    request->launcher = launcher.name;
    return LS_OK;
}

static ls_status make_layout(ls_train_session *s) {
    const ls_options *o = s->opts;
    LS_TRY(ls_layout_request_from_options(o, &s->layout_file, &s->request));
    if (s->launched) LS_TRY(take_launched(&s->request));
    if (o->probe_again && !o->auto_layout)
        return ls_options_fail(o, LS_OPT_probe_again, "the machine is only measured for --auto-layout");
    if (o->auto_layout) LS_TRY(ls_image_option_refuse(&s->settings.shape, "--auto-layout"));
    if (o->auto_layout) LS_TRY(ls_train_auto(s));
    ls_status status = ls_train_session_layout(s);
    return status != LS_OK && o->layout ? ls_fail_at(status, "--layout %s: ", o->layout) : status;
}

ls_status ls_train_session_open(ls_train_session *s, ls_options *pinned) {
    const ls_options *o = s->opts;
    s->launched = ls_launcher_place().size > 0;
    LS_TRY(ls_train_options_check(o));
    bool together = s->launched && !o->dry_run;
    LS_TRY((together ? ls_start_look : ls_start_open)(ls_train_model_name(o), &s->start));
    if (o->fork && (!s->start.weights || ls_weights_kind_of(s->start.weights) != LS_WEIGHTS_CHECKPOINT))
        return ls_options_fail(o, LS_OPT_fork, "not a run or a checkpoint; to start from other weights use --model");
    if (!o->data && !o->dry_run && !ls_shape_sees_images(&s->start.shape))
        return ls_fail(LS_ERR_INPUT, "train needs training data: --data FILE");
    LS_TRY(ls_image_option_check(o, &s->start.shape));
    LS_TRY(ls_settings_resolve(o, &s->start.shape, &s->settings));
    if (ls_settings_lr_is_sudden(&s->settings) && ls_launcher_place().rank == 0)
        ls_log_warn(
            "the learning rate was raised with the batch, %g to %g, and there is no warm-up: the linear rule does "
            "not hold for the first steps, while weights change fast; add --warmup N",
            s->settings.lr_given, s->settings.lr.peak);
    LS_TRY(ls_train_options_pin(pinned, &s->settings));
    LS_TRY(make_layout(s));
    return choose_out(s);
}

/* NULL in *out: there is none that can be read. A run that goes on is compared with its checkpoint later. */
static void find_identity(const ls_train_session *s, ls_identity **out) {
    enum { IDENTITY_BYTES_MAX = 1 << 20 };
    char path[PATH_MAX], *text = NULL;
    size_t bytes;
    ls_checkpoint *checkpoint = NULL;
    *out = NULL;
    if (s->opts->fork && ls_checkpoint_open(ls_weights_path(s->start.weights), &checkpoint) == LS_OK) {
        if (ls_saved_identity(checkpoint, out) != LS_OK) *out = NULL;
        ls_checkpoint_close(checkpoint);
    }
    if (!s->opts->resume || snprintf(path, sizeof path, "%s/identity.json", s->out) >= PATH_MAX) return;
    if (ls_file_read(path, IDENTITY_BYTES_MAX, &text, &bytes) != LS_OK) return;
    if (ls_identity_from_text(path, text, bytes, out) != LS_OK) *out = NULL;
    free(text);
}

static ls_status choose_frame(ls_train_session *s) {
    ls_identity *before = NULL;
    if (s->opts->resume || s->opts->fork) find_identity(s, &before);
    ls_status status = ls_bos_option_go_on(s->opts, s->tokenizer, before, &s->frame);
    ls_identity_destroy(before);
    return status;
}

static ls_status open_corpora(ls_train_session *s) {
    const ls_options *o = s->opts;
    char cache[512];
    LS_TRY(ls_cache_dir(cache, sizeof cache));
    ls_corpus_options options = {.tokenizer = s->tokenizer,
                                 .vocab = (uint32_t)s->start.shape.V,
                                 .cache_dir = cache,
                                 .frame = s->frame,
                                 .wait_s = o->timeout,
                                 .text_field = o->text_field,
                                 .split = LS_SPLIT_TRAIN,
                                 .say = say};
    LS_TRY(ls_corpus_open(o->data, &options, &s->corpus));
    options.split = LS_SPLIT_VAL;
    if (o->val_data) return ls_corpus_open(o->val_data, &options, &s->val_corpus);
    return ls_paths_any(o->data, LS_SPLIT_VAL) ? ls_corpus_open(o->data, &options, &s->val_corpus) : LS_OK;
}

static ls_status open_images(ls_train_session *s) {
    const ls_options *o = s->opts;
    const ls_shape *shape = &s->settings.shape;
    ls_hash128 hash;
    LS_TRY(ls_image_option_augment(o, shape, &s->augment));
    bool larger = s->augment.crop > 0;
    LS_TRY(ls_image_option_open(o->data, shape, larger, LS_IMAGES_TRAIN, 0, &s->images));
    LS_TRY(ls_image_option_open(o->val_data ? o->val_data : o->data, shape, larger, LS_IMAGES_TEST, 0, &s->val_images));
    uint64_t count = ls_images_get_about(s->images)->count;
    if (count < s->settings.B)
        return ls_options_fail(o, LS_OPT_global_batch, "the data has only %llu images; use --global-batch %llu or less",
                               (unsigned long long)count, (unsigned long long)count);
    LS_TRY(ls_identity_create(&s->identity));
    LS_TRY(ls_settings_identity(&s->settings, s->identity));
    LS_TRY(ls_images_hash(s->images, &hash));
    LS_TRY(ls_identity_add_hash(s->identity, "data", hash, LS_IDENTITY_FIXED));
    return ls_identity_add_text(s->identity, "augment", o->augment, LS_IDENTITY_FIXED);
}

ls_status ls_train_session_data(ls_train_session *s) {
    ls_hash128 hash;
    if (ls_shape_sees_images(&s->settings.shape)) return open_images(s);
    LS_TRY(ls_start_tokenizer(&s->start, s->opts->tokenizer, &s->tokenizer));
    LS_TRY(choose_frame(s));
    LS_TRY(open_corpora(s));
    LS_TRY(ls_identity_create(&s->identity));
    LS_TRY(ls_settings_identity(&s->settings, s->identity));
    LS_TRY(ls_corpus_hash(s->corpus, &hash));
    LS_TRY(ls_identity_add_hash(s->identity, "data", hash, LS_IDENTITY_FIXED));
    LS_TRY(ls_bos_option_identify(&s->frame, s->corpus, s->val_corpus, s->identity));
    return ls_identity_add_f64(s->identity, "val-fraction", s->val_corpus ? 0 : s->settings.val_fraction,
                               LS_IDENTITY_FIXED);
}

/* Without --out the number that was free may be taken meanwhile: the folder is the first that can be made. */
static ls_status open_next(ls_train_session *s) {
    char stem[512];
    snprintf(stem, sizeof stem, "runs/%s", s->start.shape.name);
    LS_TRY(ls_run_dir_open_next(stem, &s->dir));
    free(s->out);
    s->out = strdup(ls_run_dir_path(s->dir));
    return s->out ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a path");
}

ls_status ls_train_session_dir(ls_train_session *s) {
    if (!s->opts->out) return open_next(s);
    return ls_run_dir_open(s->out, s->opts->resume ? LS_RUN_RESUME : LS_RUN_START, &s->dir);
}

void ls_train_session_abandon(ls_train_session *s) {
    ls_run_dir_abandon(s->dir);
    s->dir = NULL;
}

void ls_train_session_close(ls_train_session *s) {
    ls_run_dir_close(s->dir);
    ls_identity_destroy(s->identity);
    ls_corpus_close(s->corpus);
    ls_corpus_close(s->val_corpus);
    ls_images_close(s->images);
    ls_images_close(s->val_images);
    ls_tokenizer_close(s->tokenizer);
    ls_start_close(&s->start);
    json_decref(s->layout_file);
    free(s->out);
}
