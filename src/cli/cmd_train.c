/* cmd_train.c: `lockstep train`: opens model, data, tokenizer and run directory in the order in which mistakes are
 * cheapest to find, then runs the loop. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/fpenv.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/model_option.h"
#include "comm/placement.h"
#include "train/begin.h"
#include "train/loop.h"
#include "train/run_dir.h"

typedef struct session {
    const ls_options *opts;
    char *out; /* owned */
    ls_start start;
    ls_settings settings;
    ls_tokenizer *tokenizer;
    ls_corpus *corpus, *val_corpus;
    ls_placement placement;
    ls_device *device;
    ls_run_dir *dir;
    ls_store *store;
    ls_metrics *metrics;
    ls_identity *identity, *parent_identity;
    ls_trainer *trainer;
    ls_tokens prompt;
} session;

static bool has_checkpoint(const char *run) {
    ls_store *store = NULL;
    ls_store_entry *entries = NULL;
    int count = 0;
    if (ls_store_open(run, LS_STORE_READ, &store) != LS_OK) return false;
    bool has = ls_store_list(store, &entries, &count) == LS_OK && count > 0;
    free(entries);
    ls_store_close(store);
    return has;
}

/* What the weights begin from: --fork's checkpoint, --model, or the seed. The model of a fork is in its checkpoints. */
static const char *model_name(const ls_options *o) {
    const char *named = o->fork ? o->fork : o->preset ? o->preset : o->model;
    return named ? named : o->resume && has_checkpoint(o->out) ? o->out : "tiny";
}

static ls_status check_options(const ls_options *o) {
    if (o->workers > 1 || ls_cli_place_get().size > 1)
        return ls_fail(LS_ERR_INPUT, "train runs as one worker on all cores: leave --workers and mpirun out");
    if (o->trace) return ls_options_fail(o, LS_OPT_trace, "train has no timeline: leave it out");
    if (o->resume && !o->out) return ls_options_fail(o, LS_OPT_resume, "name the run to go on with: --out DIR");
    if (o->preset && o->model)
        return ls_options_fail(o, LS_OPT_preset, "--model names a model too; leave one of them out");
    if (o->fork && (o->preset || o->model))
        return ls_options_fail(o, LS_OPT_fork, "the model is that of the run: leave --model and --preset out");
    if (o->resume && o->fork) return ls_options_fail(o, LS_OPT_fork, "a run is resumed or forked, not both");
    if (!o->data) return ls_fail(LS_ERR_INPUT, "train needs something to learn from: --data FILE");
    return LS_OK;
}

static void say(void *ctx, const char *message) {
    (void)ctx;
    fprintf(stderr, "%s\n", message);
}

/* runs/tiny-1, runs/tiny-2 … */
static ls_status choose_out(session *s) {
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
    return ls_fail(LS_ERR_INPUT, "runs/ is full of runs; name a folder with --out");
}

static ls_status open_data(session *s) {
    const ls_options *o = s->opts;
    char cache[512];
    LS_TRY(ls_cli_cache_dir(cache, sizeof cache));
    ls_corpus_options options = {.tokenizer = s->tokenizer,
                                 .vocab = (uint32_t)s->start.shape.V,
                                 .cache_dir = cache,
                                 .text_field = o->text_field,
                                 .split = LS_SPLIT_TRAIN,
                                 .say = say};
    LS_TRY(ls_corpus_open(o->data, &options, &s->corpus));
    options.split = LS_SPLIT_VAL;
    if (o->val_data) return ls_corpus_open(o->val_data, &options, &s->val_corpus);
    return ls_paths_any(o->data, LS_SPLIT_VAL) ? ls_corpus_open(o->data, &options, &s->val_corpus) : LS_OK;
}

static ls_status make_identity(session *s) {
    ls_hash128 hash;
    LS_TRY(ls_identity_create(&s->identity));
    LS_TRY(ls_settings_identity(&s->settings, s->identity));
    LS_TRY(ls_corpus_hash(s->corpus, &hash));
    LS_TRY(ls_identity_add_hash(s->identity, "data", hash, LS_IDENTITY_FIXED));
    return ls_identity_add_f64(s->identity, "val-fraction", s->val_corpus ? 0 : s->settings.val_fraction,
                               LS_IDENTITY_FIXED);
}

static ls_status open_device(session *s) {
    LS_TRY(ls_placement_make(1, (int)s->opts->threads, s->opts->pin, &s->placement));
    return ls_device_open_cpu(s->placement.threads, ls_placement_cpus(&s->placement, 0), NULL, &s->device);
}

/* ---- where the run begins ------------------------------------------------------------------------------------------
 */

static ls_status begin(session *s) {
    if (s->opts->resume) {
        bool anew;
        return ls_begin_resume(s->trainer, s->store, s->dir, s->start.weights, s->identity, &anew);
    }
    if (s->opts->fork) return ls_begin_fork(s->trainer, s->start.weights, s->identity, &s->parent_identity);
    if (s->start.weights) return ls_begin_weights(s->trainer, s->start.weights, s->identity);
    return ls_begin_seed(s->trainer);
}

static ls_status open_store(session *s) {
    LS_TRY(ls_store_open(s->out, LS_STORE_WRITE, &s->store));
    ls_store_set_keep(s->store, s->settings.keep);
    return LS_OK;
}

/* A new folder gets its checkpoints/ after its identity: a run that is killed in between must not look like one. What a
 * fork began with is saved at once, since nobody could begin it anew. */
static ls_status open_run(session *s) {
    const ls_options *o = s->opts;
    if (o->resume) LS_TRY(open_store(s));
    LS_TRY(begin(s));
    ls_run_parent parent = {.path = o->fork, .step = s->trainer->step, .identity = s->parent_identity};
    LS_TRY(ls_run_dir_begin(s->dir, s->identity, o, LS_COMMAND_TRAIN, o->fork ? &parent : NULL));
    if (!o->resume) LS_TRY(open_store(s));
    if (o->fork) LS_TRY(ls_save(s->store, s->trainer, s->identity, s->tokenizer));
    return ls_run_dir_open_metrics(s->dir, s->trainer->step, &s->metrics);
}

/* ---- telling -------------------------------------------------------------------------------------------------------
 */

static void print_header(const session *s) {
    const ls_settings *set = &s->settings;
    const ls_arena *arena = ls_stage_arena(s->trainer->stage);
    printf("model     %s: %.1f M parameters, vocabulary %zu, %zu layers of width %zu\n", set->shape.name,
           (double)ls_model_elems(s->trainer->model) / 1e6, set->shape.V, set->shape.L, set->shape.C);
    printf("data      %.3f M tokens in an epoch of %llu sequences%s\n", (double)s->trainer->sampler.tokens / 1e6,
           (unsigned long long)s->trainer->sampler.windows, s->trainer->has_val ? "" : "; none for evaluation");
    printf("batch     %zu sequences of %zu tokens, micro-batch %zu, %d groups, %d slices\n", set->B, set->T,
           s->trainer->settings.micro, set->groups, set->slices);
    printf("memory    %.1f MiB: parameters %.1f, gradients %.1f, optimizer %.1f, activations %.1f\n",
           (double)arena->peak / 0x1p20, (double)ls_arena_kind_bytes(arena, "parameters") / 0x1p20,
           (double)ls_arena_kind_bytes(arena, "gradients") / 0x1p20,
           (double)ls_arena_kind_bytes(arena, "optimizer state") / 0x1p20,
           (double)ls_arena_kind_bytes(arena, "activations") / 0x1p20);
    printf("run       %s, %d threads%s\n", s->out, s->placement.threads, s->opts->resume ? ", resumed" : "");
    fflush(stdout);
}

static ls_status print_done(session *s, double loss) {
    char weights[33], identity[LS_HASH_TEXT_BYTES];
    ls_hash128 hash;
    LS_TRY(ls_stage_hash(s->trainer->stage, weights));
    LS_TRY(ls_identity_hash(s->identity, &hash));
    ls_hash_text(hash, identity);
    if (!s->opts->json) {
        printf("done: steps=%lld loss=%a weights=xxh128:%s identity=%s\n", (long long)s->trainer->step, loss, weights,
               identity);
        return LS_OK;
    }
    char hex[64];
    snprintf(hex, sizeof hex, "%a", loss);
    json_t *object = json_pack("{s:I, s:o, s:s, s:s, s:s, s:s}", "steps", (json_int_t)s->trainer->step, "loss",
                               isfinite(loss) ? json_real(loss) : json_null(), "loss_hex", hex, "weights_xxh128",
                               weights, "identity", identity, "out", s->out);
    char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!line) return ls_fail(LS_ERR_RESOURCE, "out of memory for the result");
    puts(line);
    free(line);
    return LS_OK;
}

static ls_status encode_prompt(session *s) {
    if (!s->tokenizer) return LS_OK;
    if (s->opts->prompt)
        LS_TRY(ls_tokenizer_encode(s->tokenizer, s->opts->prompt, strlen(s->opts->prompt), 0, &s->prompt));
    if (s->prompt.count > 0) return LS_OK;
    int32_t eot = ls_tokenizer_eot(s->tokenizer);
    return eot >= 0 ? ls_tokens_push(&s->prompt, eot) : ls_tokenizer_encode(s->tokenizer, "\n", 1, 0, &s->prompt);
}

static ls_status run(session *s) {
    const ls_options *o = s->opts;
    LS_TRY(encode_prompt(s));
    ls_loop loop = {.trainer = s->trainer,
                    .identity = s->identity,
                    .store = s->store,
                    .metrics = s->metrics,
                    .tokenizer = s->tokenizer,
                    .sample = {.temperature = o->temperature,
                               .top_k = o->top_k,
                               .top_p = o->top_p,
                               .seed = (uint64_t)o->seed,
                               .max_tokens = o->max_tokens},
                    .prompt = s->prompt.ids,
                    .prompt_tokens = s->prompt.count,
                    .peak_flops_s = ls_device_peak_flops_s(s->device),
                    .out = o->json ? stderr : stdout};
    if (!o->json) print_header(s);
    LS_TRY(ls_loop_run(&loop));
    return print_done(s, s->trainer->last_loss);
}

/* Values that were left open are written into the options, so that the run directory tells what the run was, and going
 * on with it does not guess again. */
static ls_status pin_open_values(ls_options *o, const ls_settings *set) {
    const struct {
        ls_option_id id;
        int64_t value;
    } open[] = {{LS_OPT_seq, (int64_t)set->T},         {LS_OPT_global_batch, (int64_t)set->B},
                {LS_OPT_groups, set->groups},          {LS_OPT_slices, set->slices},
                {LS_OPT_warmup, set->lr.warmup_steps}, {LS_OPT_eval_every, set->eval_every}};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        char text[32];
        if (o->source[open[i].id].origin != LS_ORIGIN_DEFAULT) continue;
        snprintf(text, sizeof text, "%lld", (long long)open[i].value);
        LS_TRY(ls_options_set(o, open[i].id, text, LS_ORIGIN_FILE, 0));
    }
    return LS_OK;
}

static ls_status open_dir(session *s) {
    return ls_run_dir_open(s->out, s->opts->resume ? LS_RUN_RESUME : LS_RUN_START, &s->dir);
}

static ls_status set_up(session *s, ls_options *pinned) {
    const ls_options *o = s->opts;
    LS_TRY(check_options(o));
    LS_TRY(ls_start_open(model_name(o), &s->start));
    if (o->fork && (!s->start.weights || ls_weights_kind_of(s->start.weights) != LS_WEIGHTS_CHECKPOINT))
        return ls_options_fail(o, LS_OPT_fork,
                               "this is no run and no checkpoint; begin from other weights with --model");
    LS_TRY(ls_settings_resolve(o, &s->start.shape, &s->settings));
    LS_TRY(pin_open_values(pinned, &s->settings));
    LS_TRY(choose_out(s));
    /* A folder that is there may be refused at once; a new one is made when everything that can be wrong was looked at.
     */
    if (o->resume || ls_file_exists(s->out)) LS_TRY(open_dir(s));
    LS_TRY(ls_start_tokenizer(&s->start, o->tokenizer, &s->tokenizer));
    LS_TRY(open_data(s));
    LS_TRY(make_identity(s));
    LS_TRY(open_device(s));
    LS_TRY(ls_trainer_create(&s->settings, s->device, s->corpus, s->val_corpus, &s->trainer));
    if (!s->dir) LS_TRY(open_dir(s));
    return open_run(s);
}

/* A run that goes on, and one that branches off, has the options of the run before, but for those given now. */
static ls_status inherit(const ls_options *given, ls_options *out) {
    char path[PATH_MAX];
    const char *folder = given->resume ? given->out : given->fork;
    ls_options_defaults(out);
    if (folder && !given->config && snprintf(path, sizeof path, "%s/config.json", folder) < PATH_MAX &&
        ls_run_dir_holds_run(folder) && ls_file_exists(path)) {
        LS_TRY(ls_options_set(out, LS_OPT_config, path, LS_ORIGIN_FLAG, 0));
        LS_TRY(ls_options_read_file(out, LS_COMMAND_TRAIN));
        static const ls_option_id own[] = {LS_OPT_out, LS_OPT_resume, LS_OPT_fork};
        for (size_t i = 0; i < sizeof own / sizeof *own; i++) ls_options_reset(out, own[i]);
        if (given->fork) {
            ls_options_reset(out, LS_OPT_model);
            ls_options_reset(out, LS_OPT_preset);
        }
    }
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        const ls_option_source *source = &given->source[i];
        if (source->origin != LS_ORIGIN_DEFAULT)
            LS_TRY(ls_options_set(out, (ls_option_id)i, source->text, source->origin, source->line));
    }
    return LS_OK;
}

ls_status ls_cmd_train(const ls_options *given) {
    ls_options opts;
    session s = {.opts = &opts};
    ls_fpenv_set();
    ls_status status = inherit(given, &opts);
    if (status == LS_OK) status = set_up(&s, &opts);
    if (status == LS_OK) status = run(&s);
    ls_status closed = ls_metrics_close(s.metrics);
    if (status == LS_OK) status = closed;
    ls_tokens_fini(&s.prompt);
    ls_trainer_destroy(s.trainer);
    ls_store_close(s.store);
    ls_run_dir_close(s.dir);
    ls_device_destroy(s.device);
    ls_placement_free(&s.placement);
    ls_identity_destroy(s.identity);
    ls_identity_destroy(s.parent_identity);
    ls_corpus_close(s.corpus);
    ls_corpus_close(s.val_corpus);
    ls_tokenizer_close(s.tokenizer);
    ls_start_close(&s.start);
    free(s.out);
    ls_options_fini(&opts);
    return status;
}
