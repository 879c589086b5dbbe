/* loaded.c: from --model to a partition with weights in it, and what it says about data and prompts. */
#include "api/loaded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "base/log.h"
#include "comm/launcher.h"
#include "data/text/corpus.h"
#include "model/model.h"
#include "numerics/elementary.h"
#include "run/folder/save.h"
#include "run/inputs/inputs.h"
#include "run/settings.h"
#include "run/stop.h"

enum { MICRO_TOKENS = 4096 };

static ls_status check_options(const ls_options *o) {
    if (ls_launcher_place().size > 1)
        return ls_fail(LS_ERR_INPUT, "this command runs as one process on all cores: start it without mpirun or srun");
    if (o->trace) return ls_options_fail(o, LS_OPT_trace, "this command writes no trace: leave it out");
    if (!o->model)
        return ls_fail(LS_ERR_INPUT, "--model is missing: name a run, a checkpoint or a Hugging Face folder");
    return LS_OK;
}

/* Images need no file; whether it is an image model is seen without its weights. */
static ls_status check_data(const ls_run_setup *setup) {
    const ls_options *o = setup->options;
    ls_start start;
    if (o->data || setup->data) return LS_OK;
    bool sees_images = o->model && ls_start_look(o->model, &start) == LS_OK;
    if (sees_images) {
        sees_images = ls_shape_sees_images(&start.shape);
        ls_start_close(&start);
    }
    return sees_images ? LS_OK : ls_fail(LS_ERR_INPUT, "eval needs data: add --data FILE");
}

/* Text is written one token at a time; data is scored some sequences at a time. */
static ls_status choose_sizes(const ls_options *o, ls_loaded *l) {
    bool scores = o->command == LS_COMMAND_EVAL;
    size_t T = scores ? (size_t)o->seq : 0, positions = l->start.shape.T, per = MICRO_TOKENS / (T > 0 ? T : 1024);
    l->micro = !scores ? 1 : o->micro_batch > 0 ? (size_t)o->micro_batch : per > 0 ? per : 1;
    if (T > positions)
        return ls_options_fail(o, LS_OPT_seq, "%s has %zu positions; use --seq %zu or less", l->start.shape.name,
                               positions, positions);
    l->T = T > 0 ? T : positions < LS_LOADED_T_MAX ? positions : LS_LOADED_T_MAX;
    return LS_OK;
}

/* ---- precision --------------------------------------------------------------------------------------------------- */

typedef struct recorded {
    char precision[LS_SAVED_WORD_MAX], unit[LS_SAVED_WORD_MAX]; /* "": not known */
} recorded;

static ls_status read_recorded(const ls_weights *weights, recorded *r) {
    ls_checkpoint *checkpoint = NULL;
    *r = (recorded){.precision = ""};
    if (ls_weights_kind_of(weights) != LS_WEIGHTS_CHECKPOINT) return LS_OK;
    LS_TRY(ls_checkpoint_open(ls_weights_path(weights), &checkpoint));
    ls_status status = ls_saved_precision(checkpoint, r->precision, r->unit);
    ls_checkpoint_close(checkpoint);
    return status;
}

/* The run's own where this CPU has it. */
static ls_status usable_unit(const recorded *r, ls_unit *out) {
    LS_TRY(ls_unit_parse(r->unit, out));
    if (ls_unit_is_here(*out)) return LS_OK;
    ls_log_warn("the run was trained with --matrix-unit %s, which this CPU lacks; using chain, so results may differ "
                "in the last digits",
                r->unit);
    *out = LS_UNIT_CHAIN;
    return LS_OK;
}

/* Those of the options; where they say nothing, those of the run whose weights these are; else fp32. */
static ls_status choose_policy(const ls_options *o, ls_loaded *l) {
    ls_options mine = *o; /* borrows all texts */
    recorded r;
    int was = LS_PLAN_TYPES;
    LS_TRY(read_recorded(l->start.weights, &r));
    bool known = ls_choice_find(LS_CHOICES(LS_RUN_TYPES), r.precision, &was);
    if (!ls_options_is_given(o, LS_OPT_precision) && r.precision[0]) {
        if (!known)
            return ls_fail(LS_ERR_INPUT,
                           "the run was trained in %s, which this version does not know; choose one with --precision",
                           r.precision);
        mine.precision = (ls_plan_type)was;
    }
    if (!ls_options_is_given(o, LS_OPT_matrix_unit) && was == LS_PLAN_BF16 && mine.precision == LS_PLAN_BF16)
        LS_TRY(usable_unit(&r, &mine.matrix_unit));
    return ls_settings_precision(&mine, &l->policy);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static ls_status load(ls_loaded *l) {
    const ls_options *o = l->options;
    LS_TRY(ls_start_open(o->model, &l->start));
    if (!l->start.weights)
        return ls_options_fail(o, LS_OPT_model,
                               "this is a model's shape without weights; name a run, a checkpoint or a "
                               "Hugging Face folder");
    LS_TRY(choose_sizes(o, l));
    if (!ls_shape_sees_images(&l->start.shape)) LS_TRY(ls_start_tokenizer(&l->start, o->tokenizer, &l->tokenizer));
    LS_TRY(ls_placement_make(1, (int)o->threads, o->pin, &l->placement));
    LS_TRY(ls_device_open_cpu(l->placement.threads, ls_placement_cpus(&l->placement, 0), NULL, &l->device));
    int slices = o->slices > 0 ? (int)o->slices : ls_model_default_slices(&l->start.shape);
    LS_TRY(ls_model_create(&l->start.shape, slices, &l->model));
    ls_layout_task task = {.model = l->model, .B = l->micro, .T = l->T, .G = 1};
    LS_TRY(choose_policy(o, l));
    ls_partition_setup setup = {
        .policy = l->policy, .B = l->micro, .T = l->T, .G = 1, .layout = ls_layout_one(&task, l->micro)};
    LS_TRY(ls_partition_create(l->model, l->device, &setup, &l->partition));
    return ls_weights_load_partition(l->start.weights, l->partition);
}

ls_status ls_loaded_open(const ls_run_setup *setup, ls_loaded **out) {
    const ls_options *o = setup->options;
    ls_fpenv_set();
    *out = NULL;
    if (o->command == LS_COMMAND_EVAL) LS_TRY(check_data(setup));
    LS_TRY(check_options(o));
    ls_loaded *l = calloc(1, sizeof *l);
    if (!l) return ls_fail(LS_ERR_RESOURCE, "out of memory for a model");
    l->setup = *setup;
    l->options = o;
    ls_status status = load(l);
    if (status == LS_OK && o->command == LS_COMMAND_GENERATE)
        status = ls_image_option_refuse(&l->start.shape, "generate");
    if (status == LS_OK)
        *out = l;
    else
        ls_loaded_close(l);
    return status;
}

void ls_loaded_close(ls_loaded *l) {
    if (!l) return;
    ls_partition_destroy(l->partition);
    ls_model_destroy(l->model);
    ls_device_destroy(l->device);
    ls_placement_free(&l->placement);
    ls_tokenizer_close(l->tokenizer);
    ls_start_close(&l->start);
    free(l);
}

/* ---- evaluating text --------------------------------------------------------------------------------------------- */

static void say(void *ctx, const char *message) {
    const ls_run_setup *setup = ctx;
    ls_run_event event = {.kind = LS_RUN_PREPARES, .text = message};
    if (setup->event) (void)setup->event(setup->event_ctx, &event);
}

static ls_status open_corpus(ls_loaded *l, ls_corpus **corpus) {
    const ls_options *o = l->options;
    uint32_t vocab = (uint32_t)l->start.shape.V;
    char cache[512];
    ls_frame frame;
    if (l->setup.data) return ls_corpus_open_source(l->setup.data, vocab, corpus);
    LS_TRY(ls_bos_option(o, l->tokenizer, &frame));
    LS_TRY(ls_cache_dir(cache, sizeof cache));
    ls_corpus_options options = {.tokenizer = l->tokenizer,
                                 .vocab = vocab,
                                 .cache_dir = cache,
                                 .frame = frame,
                                 .text_field = o->text_field,
                                 .split = LS_SPLIT_ALL,
                                 .say = say,
                                 .say_ctx = &l->setup};
    return ls_corpus_open(o->data, &options, corpus);
}

/* What the partition reads its windows from. */
typedef struct window_source {
    const ls_corpus *corpus;
    const ls_windows *windows;
    uint64_t first; /* window of the call */
} window_source;

static ls_status read_windows(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets) {
    const window_source *s = ctx;
    for (size_t i = 0; i < end - begin; i++) {
        ls_token_window w = ls_windows_get(s->windows, s->first + begin + i);
        LS_TRY(ls_corpus_read(s->corpus, w.begin, w.length, ids + i * w.length));
        LS_TRY(ls_corpus_read(s->corpus, w.begin + 1, w.length, targets + i * w.length));
    }
    return LS_OK;
}

static ls_status score_windows(ls_loaded *l, const ls_corpus *corpus, ls_loss_sum *sum) {
    const ls_windows *windows = &l->windows;
    window_source from = {.corpus = corpus, .windows = windows};
    ls_partition_feed feed = {.read = read_windows, .ctx = &from};
    for (size_t count; from.first < windows->count; from.first += count) {
        ls_token_window w = ls_windows_get(windows, from.first);
        count = ls_windows_alike(windows, from.first, l->micro);
        feed.context = w.context;
        LS_TRY(ls_partition_evaluate(l->partition, count, w.length, &feed, sum, NULL));
        ls_run_event event = {.kind = LS_RUN_SCORED, .done = from.first + count, .all = windows->count};
        if (l->setup.event) LS_TRY(l->setup.event(l->setup.event_ctx, &event));
        LS_TRY(ls_stop_status());
    }
    return LS_OK;
}

static ls_status evaluate_corpus(ls_loaded *l, const ls_corpus *corpus, size_t stride, ls_evaluation *out) {
    double bytes = (double)ls_corpus_text_bytes(corpus), all = (double)ls_corpus_count(corpus);
    ls_loss_sum sum = {0};
    LS_TRY(ls_windows_init(&l->windows, ls_corpus_count(corpus), l->T, stride));
    double start = ls_clock_seconds();
    LS_TRY(score_windows(l, corpus, &sum));
    out->seconds = ls_clock_seconds() - start;
    out->loss = sum.bad ? (double)NAN : ls_loss_sum_mean(&sum);
    out->accuracy = -1;
    out->samples = (uint64_t)(sum.count + sum.bad);
    /* Bytes of the tokens that were predicted, from the mean length of a token. */
    out->bits_per_byte = bytes > 0 ? out->loss / 0x1.62e42fefa39efp-1 * all / bytes : 0;
    return LS_OK;
}

static ls_status evaluate_text(ls_loaded *l, ls_evaluation *out) {
    const ls_options *o = l->options;
    ls_corpus *corpus = NULL;
    size_t stride = o->stride > 0 ? (size_t)o->stride : l->T;
    if (stride > l->T)
        return ls_options_fail(o, LS_OPT_stride,
                               "a stride above the window of %zu tokens would skip tokens; use at most --stride %zu",
                               l->T, l->T);
    LS_TRY(open_corpus(l, &corpus));
    ls_status status = evaluate_corpus(l, corpus, stride, out);
    ls_corpus_close(corpus);
    return status;
}

/* ---- evaluating images ------------------------------------------------------------------------------------------- */

typedef struct image_source {
    const ls_images *images;
    uint64_t first;
    uint64_t *index;
    uint32_t side; /* that the model sees, where images are larger: their middle is taken; 0: they are not */
} image_source;

static ls_status read_images(void *ctx, size_t begin, size_t end, float *pixels, int32_t *classes) {
    image_source *s = ctx;
    ls_augment plain = {.fixed = true, .crop = s->side};
    for (size_t i = begin; i < end; i++) s->index[i - begin] = s->first + i;
    return ls_images_fill(s->images, s->index, end - begin, &plain, LS_IMAGES_NHWC, pixels, classes);
}

static ls_status score_images(ls_loaded *l, image_source *from, ls_evaluation *out) {
    ls_partition_feed feed = {.ctx = from, .images = read_images};
    ls_loss_sum sum = {0};
    double start = ls_clock_seconds();
    out->samples = ls_images_get_about(from->images)->count;
    l->right = 0;
    for (; from->first < out->samples; from->first += l->micro) {
        uint64_t left = out->samples - from->first;
        size_t count = left < l->micro ? (size_t)left : l->micro;
        LS_TRY(ls_partition_evaluate(l->partition, count, 1, &feed, &sum, &l->right));
        LS_TRY(ls_stop_status());
    }
    out->seconds = ls_clock_seconds() - start;
    out->loss = sum.bad ? (double)NAN : ls_loss_sum_mean(&sum);
    out->accuracy = (double)l->right / (double)out->samples;
    return LS_OK;
}

static ls_status open_images(const ls_loaded *l, bool square, ls_images **images) {
    const ls_shape *shape = &l->start.shape;
    ls_images_about about = ls_image_option_about(shape);
    if (l->setup.data) return ls_images_open_source(images, l->setup.data, &about);
    return ls_image_option_open(l->options->data, shape, square, LS_IMAGES_TEST, 0, images);
}

static ls_status evaluate_images(ls_loaded *l, ls_evaluation *out) {
    ls_images *images = NULL;
    const ls_image_shape *sees = &l->start.shape.image;
    bool square = sees->height == sees->width;
    if (l->options->source[LS_OPT_stride].origin == LS_ORIGIN_FLAG)
        return ls_options_fail(l->options, LS_OPT_stride,
                               "%s is an image model, which has no windows of tokens: leave it out",
                               l->start.shape.name);
    LS_TRY(open_images(l, square, &images));
    image_source from = {.images = images, .index = malloc(l->micro * sizeof *from.index)};
    if (square) from.side = (uint32_t)sees->height;
    ls_status status = from.index ? score_images(l, &from, out) : ls_fail(LS_ERR_RESOURCE, "out of memory for a batch");
    free(from.index);
    ls_images_close(images);
    return status;
}

ls_status ls_loaded_evaluate(ls_loaded *l, ls_evaluation *out) {
    *out = (ls_evaluation){0};
    ls_fpenv_set();
    if (l->options->command != LS_COMMAND_EVAL)
        return ls_fail(LS_ERR_INPUT, "this run was opened to generate: evaluating takes the options of eval");
    return ls_shape_sees_images(&l->start.shape) ? evaluate_images(l, out) : evaluate_text(l, out);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static ls_status encode(ls_loaded *l, const char *text, ls_tokens *prompt) {
    ls_frame frame;
    LS_TRY(ls_bos_option(l->options, l->tokenizer, &frame));
    LS_TRY(ls_frame_prompt(l->tokenizer, &frame, text ? text : "", text ? strlen(text) : 0, LS_ENCODE_SPECIAL, prompt));
    if (prompt->count > 0) return LS_OK;
    int32_t bos = ls_tokenizer_bos(l->tokenizer), begin = bos >= 0 ? bos : ls_tokenizer_eot(l->tokenizer);
    return begin >= 0 ? ls_tokens_push(prompt, begin) : ls_tokenizer_encode(l->tokenizer, "\n", 1, 0, prompt);
}

ls_status ls_loaded_generate(ls_loaded *l, const char *prompt, ls_text_writer *writer, int64_t *tokens) {
    ls_tokens ids = {0};
    ls_generate_options options = ls_generate_options_from(l->options);
    ls_fpenv_set();
    if (l->options->command != LS_COMMAND_GENERATE)
        return ls_fail(LS_ERR_INPUT, "this run was opened to evaluate: generating takes the options of generate");
    LS_TRY(ls_weights_eos(l->start.weights, writer->eos, LS_EOS_MAX, &writer->eos_count));
    if (!l->tokenizer) return ls_fail(LS_ERR_INPUT, "this model has no tokenizer; add --tokenizer FOLDER");
    writer->tokenizer = l->tokenizer;
    writer->eot = ls_tokenizer_eot(l->tokenizer);
    writer->stop = l->options->stop;
    ls_status status = encode(l, prompt, &ids);
    if (status == LS_OK) status = ls_text_write(writer, l->partition, l->T, &options, prompt, &ids, tokens);
    ls_tokens_fini(&ids);
    return status;
}
