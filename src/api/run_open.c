/* run_open.c: ls_run_open(): opens model, settings, layout, data and folder of a run before workers start, in the order
 * in which errors are cheapest to find. */
#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "api/plan.h"
#include "api/run.h"
#include "base/cpu.h"
#include "base/files.h"
#include "base/log.h"
#include "comm/launch/launcher.h"
#include "model/model.h"
#include "run/inputs/inputs.h"

ls_status ls_run_tell(const ls_run *r, ls_run_event event) {
    return r->setup.event ? r->setup.event(r->setup.event_ctx, &event) : LS_OK;
}

/* Reports a preparation that takes time; a callback of corpus and device. The status of the caller's callback is
 * ignored here. */
static void report_preparing(void *ctx, const char *message) {
    (void)ls_run_tell(ctx, (ls_run_event){.kind = LS_RUN_PREPARES, .text = message});
}

/* Reports that kernels are compiled, from the first process only, if a launcher started several. */
static void report_compiling(void *ctx, const char *text) {
    if (ls_launcher_place().rank == 0) report_preparing(ctx, text);
}

ls_status ls_run_prepare_device(ls_run *r, ls_unit unit) {
    return ls_device_prepare(r->chosen.name, unit, r->setup.event ? report_compiling : NULL, r);
}

/* Sets r->out: --out, else the first name of runs/MODEL-1, runs/MODEL-2 … that does not exist. Creates nothing. */
static ls_status choose_out(ls_run *r) {
    char path[512];
    if (r->options.out) {
        r->out = strdup(r->options.out);
        return r->out ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a path");
    }
    for (int n = 1; n < 1000000; n++) {
        snprintf(path, sizeof path, "runs/%s-%d", r->start.shape.name, n);
        if (ls_file_exists(path)) continue;
        r->out = strdup(path);
        return r->out ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a path");
    }
    return ls_fail(LS_ERR_INPUT, "no free name left in runs/; choose a folder with --out");
}

ls_status ls_run_make_layout(ls_run *r) {
    ls_model *model = NULL;
    LS_TRY(ls_model_create(&r->settings.shape, r->settings.slices, &model));
    ls_layout_task task = ls_trainer_task(&r->settings, model);
    ls_status status = ls_layout_make(&r->request, &task, &r->layout);
    ls_model_destroy(model);
    return status;
}

/* Sets the number of workers to that of the launcher (mpirun or srun); LS_ERR_INPUT if --workers differs. */
static ls_status accept_launcher(ls_layout_request *request) {
    ls_launcher launcher = ls_launcher_detect();
    if (request->workers > 0 && request->workers != launcher.size)
        return ls_fail(LS_ERR_INPUT, "--workers %d: %s started %d: use --workers %d, or leave it out", request->workers,
                       launcher.name, launcher.size, launcher.size);
    request->workers = launcher.size;
    request->launcher = launcher.name;
    return LS_OK;
}

/* Reports what is being measured for --auto-layout; NULL: finished. */
static void report_measuring(void *ctx, const char *what) {
    (void)ls_run_tell(ctx, (ls_run_event){.kind = LS_RUN_MEASURES, .text = what});
}

/* Chooses CPU or GPU for `workers` workers of this machine, and, except in a dry run, compiles its kernels. */
static ls_status choose_device(ls_run *r, int workers) {
    const ls_options *o = &r->options;
    LS_TRY(
        ls_options_blame(o, LS_OPT_device, ls_device_choose(o->device, workers, r->settings.policy.unit, &r->chosen)));
    r->settings.options.device = r->chosen.name;
    return o->dry_run ? LS_OK : ls_run_prepare_device(r, r->settings.policy.unit);
}

/* Completes r->request with the fastest layout for --auto-layout, planned for the device that one worker would get, and
 * reports the plan. */
static ls_status plan_layout(ls_run *r) {
    ls_plan *plan = NULL;
    LS_TRY(ls_image_option_refuse(&r->settings.shape, "--auto-layout"));
    LS_TRY(choose_device(r, 1));
    ls_status status = ls_plan_complete(&r->options, &r->settings, report_measuring, r, &r->request, &plan);
    if (status == LS_OK && ls_launcher_place().rank == 0)
        status = ls_run_tell(r, (ls_run_event){.kind = LS_RUN_PLANNED, .plan = plan});
    ls_plan_destroy(plan);
    return status;
}

/* Reads the layout options, has them completed by the plan if --auto-layout asks for it, and makes r->layout. */
static ls_status choose_layout(ls_run *r) {
    const ls_options *o = &r->options;
    LS_TRY(ls_layout_request_from_options(o, &r->layout_file, &r->request));
    if (r->launched) LS_TRY(accept_launcher(&r->request));
    if (o->probe_again && !o->auto_layout)
        return ls_options_fail(o, LS_OPT_probe_again, "the machine is only measured for --auto-layout");
    if (o->auto_layout) LS_TRY(plan_layout(r));
    ls_status status = ls_run_make_layout(r);
    return status != LS_OK && o->layout ? ls_fail_at(status, "--layout %s: ", o->layout) : status;
}

/* Opens the model, resolves settings and layout, and chooses device and folder name; opens no data and creates
 * nothing. */
static ls_status prepare_run(ls_run *r) {
    ls_options *o = &r->options;
    r->launched = ls_launcher_place().size > 0;
    LS_TRY(ls_run_options_check(o));
    bool together = r->launched && !o->dry_run;
    LS_TRY((together ? ls_start_look : ls_start_open)(ls_run_model_name(o), &r->start));
    if (o->fork && (!r->start.weights || ls_weights_kind_of(r->start.weights) != LS_WEIGHTS_CHECKPOINT))
        return ls_options_fail(o, LS_OPT_fork, "not a run or a checkpoint; to start from other weights use --model");
    if (!o->data && !r->setup.data && !o->dry_run && !ls_shape_sees_images(&r->start.shape))
        return ls_fail(LS_ERR_INPUT, "train needs training data: --data FILE");
    LS_TRY(ls_image_option_check(o, &r->start.shape));
    LS_TRY(ls_settings_resolve(o, &r->start.shape, &r->settings));
    if (ls_settings_lr_is_sudden(&r->settings) && ls_launcher_place().rank == 0)
        ls_log_warn(
            "the learning rate was raised with the batch, %g to %g, and there is no warm-up: the linear rule does "
            "not hold for the first steps, while weights change fast; add --warmup N",
            r->settings.options.lr, r->settings.lr.peak);
    LS_TRY(ls_run_options_pin(o, &r->settings));
    LS_TRY(choose_layout(r));
    int workers = r->launched ? 1 : ls_layout_workers(&r->layout); /* of a launcher each looks for itself */
    LS_TRY(choose_device(r, workers));
    return choose_out(r);
}

/* Reads the identity of the run that is resumed or forked, only to take over its tokens around documents; *out is NULL
 * if none can be read, which is no failure. Whether a resumed run has the same identity is checked later, against its
 * checkpoint. */
static void find_identity(const ls_run *r, ls_identity **out) {
    enum { IDENTITY_BYTES_MAX = 1 << 20 };
    char path[PATH_MAX], *text = NULL;
    size_t bytes;
    ls_checkpoint *checkpoint = NULL;
    *out = NULL;
    if (r->options.fork && ls_checkpoint_open(ls_weights_path(r->start.weights), &checkpoint) == LS_OK) {
        if (ls_saved_identity(checkpoint, out) != LS_OK) *out = NULL;
        ls_checkpoint_close(checkpoint);
    }
    if (!r->options.resume || snprintf(path, sizeof path, "%s/identity.json", r->out) >= PATH_MAX) return;
    if (ls_file_read(path, IDENTITY_BYTES_MAX, &text, &bytes) != LS_OK) return;
    if (ls_identity_from_text(path, text, bytes, out) != LS_OK) *out = NULL;
    free(text);
}

/* Chooses the tokens around documents (r->frame); a resumed or forked run keeps those of its identity. */
static ls_status choose_frame(ls_run *r) {
    ls_identity *before = NULL;
    if (r->options.resume || r->options.fork) find_identity(r, &before);
    ls_status status = ls_bos_option_go_on(&r->options, r->tokenizer, before, &r->frame);
    ls_identity_destroy(before);
    return status;
}

ls_status ls_run_open_corpus(ls_run *r, const char *paths, ls_split split, ls_corpus **out) {
    char cache[512];
    LS_TRY(ls_cache_dir(cache, sizeof cache));
    ls_corpus_options options = {.tokenizer = r->tokenizer,
                                 .vocab = (uint32_t)r->start.shape.V,
                                 .cache_dir = cache,
                                 .frame = r->frame,
                                 .wait_s = r->options.timeout,
                                 .text_field = r->options.text_field,
                                 .split = split,
                                 .say = report_preparing,
                                 .say_ctx = r};
    return ls_corpus_open(paths, &options, out);
}

/* Opens training and validation data: the caller's own, from files, or the validation files of folders. Without any,
 * validation takes the end of the training data, if at all. */
static ls_status open_corpora(ls_run *r) {
    const ls_options *o = &r->options;
    const ls_run_setup *own = &r->setup;
    uint32_t vocab = (uint32_t)r->start.shape.V;
    if (own->data) LS_TRY(ls_corpus_open_source(own->data, vocab, &r->data.corpus));
    if (own->validation) LS_TRY(ls_corpus_open_source(own->validation, vocab, &r->data.val_corpus));
    if (!own->data) LS_TRY(ls_run_open_corpus(r, o->data, LS_SPLIT_TRAIN, &r->data.corpus));
    bool has_files = o->val_data || (!own->data && ls_paths_any(o->data, LS_SPLIT_VAL));
    if (own->validation || !has_files) return LS_OK;
    return ls_run_open_corpus(r, o->val_data ? o->val_data : o->data, LS_SPLIT_VAL, &r->data.val_corpus);
}

/* Opens images of the caller's callbacks, in the size that the model has. */
static ls_status open_own_images(const ls_run *r, const ls_source *source, ls_images **out) {
    ls_images_about about = ls_image_option_about(&r->start.shape);
    return ls_images_open_source(out, source, &about);
}

/* Opens training and test images, the caller's or from files. The caller's own training data is validated only with
 * data that the caller gives, too. */
static ls_status open_image_files(ls_run *r) {
    const ls_options *o = &r->options;
    const ls_run_setup *own = &r->setup;
    const ls_shape *shape = &r->settings.shape;
    bool larger = r->data.augment.crop > 0;
    LS_TRY(own->data ? open_own_images(r, own->data, &r->data.images)
                     : ls_image_option_open(o->data, shape, larger, LS_IMAGES_TRAIN, 0, &r->data.images));
    if (own->validation) return open_own_images(r, own->validation, &r->data.val_images);
    if (own->data && !o->val_data) return LS_OK;
    return ls_image_option_open(o->val_data ? o->val_data : o->data, shape, larger, LS_IMAGES_TEST, 0,
                                &r->data.val_images);
}

/* Creates r->identity from the settings and the data: the hash of the files, or the text by which the caller identifies
 * its own data. */
static ls_status identify_data(ls_run *r) {
    ls_hash128 hash;
    LS_TRY(ls_identity_create(&r->identity));
    LS_TRY(ls_settings_identity(&r->settings, r->identity));
    if (r->setup.data) return ls_identity_add_text(r->identity, "data", r->setup.data->identity, LS_IDENTITY_FIXED);
    LS_TRY(r->data.images ? ls_images_hash(r->data.images, &hash) : ls_corpus_hash(r->data.corpus, &hash));
    return ls_identity_add_hash(r->identity, "data", hash, LS_IDENTITY_FIXED);
}

/* Opens the data of an image model and makes the identity; LS_ERR_INPUT if there are fewer images than a batch has. */
static ls_status open_images(ls_run *r) {
    const ls_options *o = &r->options;
    LS_TRY(ls_image_option_augment(o, &r->settings.shape, &r->data.augment));
    LS_TRY(open_image_files(r));
    uint64_t count = ls_images_get_about(r->data.images)->count;
    if (count < r->settings.B)
        return ls_options_fail(o, LS_OPT_global_batch, "the data has only %llu images; use --global-batch %llu or less",
                               (unsigned long long)count, (unsigned long long)count);
    LS_TRY(identify_data(r));
    return ls_identity_add_text(r->identity, "augment", o->augment, LS_IDENTITY_FIXED);
}

ls_status ls_run_open_data(ls_run *r) {
    if (ls_shape_sees_images(&r->settings.shape)) return open_images(r);
    LS_TRY(ls_start_tokenizer(&r->start, r->options.tokenizer, &r->tokenizer));
    LS_TRY(choose_frame(r));
    LS_TRY(open_corpora(r));
    LS_TRY(identify_data(r));
    LS_TRY(ls_bos_option_identify(&r->frame, r->data.corpus, r->data.val_corpus, r->identity));
    return ls_identity_add_f64(r->identity, "val-fraction", r->data.val_corpus ? 0 : r->settings.val_fraction,
                               LS_IDENTITY_FIXED);
}

/* Creates and opens the first free runs/MODEL-N, and updates r->out: another run may have taken the number since
 * choose_out(). */
static ls_status open_next(ls_run *r) {
    char stem[512];
    snprintf(stem, sizeof stem, "runs/%s", r->start.shape.name);
    LS_TRY(ls_run_dir_open_next(stem, &r->dir));
    free(r->out);
    r->out = strdup(ls_run_dir_path(r->dir));
    return r->out ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a path");
}

ls_status ls_run_open_folder(ls_run *r) {
    if (!r->options.out) return open_next(r);
    return ls_run_dir_open(r->out, r->options.resume ? LS_RUN_RESUME : LS_RUN_START, &r->dir);
}

void ls_run_abandon(ls_run *r) {
    ls_run_dir_abandon(r->dir);
    r->dir = NULL;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

/* Fails if a file of the list does not exist; NULL and "drawings" (generated images) pass. */
static ls_status check_image_files(const char *source) {
    if (!source || strcmp(source, "drawings") == 0 || ls_file_exists(source)) return LS_OK;
    ls_status status = LS_OK;
    for (const char *at = source; status == LS_OK; at++) {
        size_t length = strcspn(at, ",");
        ls_path name = ls_path_format("%.*s", (int)length, at);
        if (!ls_file_exists(name.text)) status = ls_file_fail_open(name.text);
        at += length;
        if (*at == '\0') break;
    }
    return status;
}

/* Fails if a file or pattern of the list does not exist; NULL passes. */
static ls_status check_text_files(const char *list, ls_split split) {
    ls_paths paths;
    if (!list) return LS_OK;
    LS_TRY(ls_paths_expand(list, split, &paths));
    ls_paths_fini(&paths);
    return LS_OK;
}

/* Checks for a dry run that the files it was given exist, as the run itself would; none needs to be given. Opens the
 * tokenizer, but no data. */
static ls_status check_inputs(ls_run *r) {
    const ls_options *o = &r->options;
    if (ls_shape_sees_images(&r->settings.shape)) {
        if (!r->setup.data) LS_TRY(check_image_files(o->data));
        return check_image_files(o->val_data);
    }
    if (!r->setup.data) LS_TRY(check_text_files(o->data, LS_SPLIT_TRAIN));
    LS_TRY(check_text_files(o->val_data, LS_SPLIT_VAL));
    return ls_start_tokenizer(&r->start, o->tokenizer, &r->tokenizer);
}

/* Opens a run of train in the parent. An existing folder is opened early, because it may be refused; a new one is
 * created after everything that can be wrong was checked: one without --out here, so that all workers know its name,
 * others by rank 0 or the supervisor. Opens data before the workers are forked, which inherit it; under a launcher each
 * worker opens its own. */
static ls_status open_training(ls_run *r) {
    bool has_folder = !r->is_trial;
    LS_TRY(ls_options_blame(&r->options, LS_OPT_isa, ls_cpu_set_isa(r->options.isa)));
    LS_TRY(ls_workers_options_from(&r->options, &r->workers));
    LS_TRY(prepare_run(r));
    if (r->options.dry_run) return check_inputs(r);
    if (r->launched) return LS_OK;
    if (has_folder && (r->options.resume || ls_file_exists(r->out))) LS_TRY(ls_run_open_folder(r));
    LS_TRY(ls_run_open_data(r));
    return r->options.out || !has_folder ? LS_OK : ls_run_open_folder(r);
}

/* Opens a run of train, eval or generate, by the command of its options; NULL in *out on failure. */
static ls_status open_run(const ls_run_setup *setup, bool is_trial, ls_run **out) {
    ls_command command = setup->options->command;
    *out = NULL;
    if (command != LS_COMMAND_TRAIN && command != LS_COMMAND_EVAL && command != LS_COMMAND_GENERATE)
        return ls_fail(LS_ERR_INPUT, "a run has the options of train, eval or generate, not of %s",
                       ls_command_info_get(command)->name);
    ls_run *r = calloc(1, sizeof *r);
    if (!r) return ls_fail(LS_ERR_RESOURCE, "out of memory for a run");
    r->setup = *setup;
    r->is_trial = is_trial;
    ls_status status = ls_run_options_inherit(setup->options, &r->options);
    r->options.command = command;
    if (status == LS_OK) status = command == LS_COMMAND_TRAIN ? open_training(r) : ls_run_load(r);
    if (status == LS_OK)
        *out = r;
    else
        ls_run_close(r);
    return status;
}

ls_status ls_run_open(const ls_run_setup *setup, ls_run **out) { return open_run(setup, false, out); }

ls_status ls_run_open_trial(const ls_run_setup *setup, ls_run **out) { return open_run(setup, true, out); }

void ls_run_close(ls_run *r) {
    if (!r) return;
    if (!r->worked) ls_run_abandon(r);
    ls_run_unload(r);
    ls_run_dir_close(r->dir);
    ls_identity_destroy(r->identity);
    ls_corpus_close(r->data.corpus);
    ls_corpus_close(r->data.val_corpus);
    ls_images_close(r->data.images);
    ls_images_close(r->data.val_images);
    ls_tokenizer_close(r->tokenizer);
    ls_start_close(&r->start);
    json_decref(r->layout_file);
    ls_options_fini(&r->options);
    free(r->out);
    free(r);
}

ls_run_state ls_run_get_state(const ls_run *r) {
    ls_run_state state = {.folder = r->out, .workers = 1};
    if (ls_run_is_loaded(r)) {
        state.parameters = ls_model_elems(r->loaded.model);
        return state;
    }
    state.identity = r->identity_hash[0] ? r->identity_hash : NULL;
    state.steps = r->settings.options.steps;
    state.workers = ls_layout_workers(&r->layout);
    if (!r->trainer) return state;
    state.step = r->trainer->step;
    state.rank = r->trainer->rank;
    state.parameters = ls_model_elems(r->trainer->model);
    return state;
}
