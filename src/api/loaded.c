/* loaded.c: loads --model with its weights into a partition in this process, for eval and generate, and evaluates it
 * (eval). */
#include "api/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "base/log.h"
#include "comm/launch/launcher.h"
#include "data/text/corpus.h"
#include "device/choose.h"
#include "device/unit_check.h"
#include "model/model.h"
#include "numerics/elementary.h"
#include "run/dry_run.h"
#include "run/folder/save.h"
#include "run/inputs/inputs.h"
#include "run/settings.h"
#include "run/stop.h"

/* Tokens of a micro-batch; and at most of a sequence without --seq. */
enum { MICRO_TOKENS = 4096, T_MAX = 4096 };

/* Refuses a launcher, --trace, and a missing --model. */
static ls_status check_options(const ls_options *o) {
    if (ls_launcher_place().size > 1)
        return ls_fail(LS_ERR_INPUT, "this command runs as one process on all cores: start it without mpirun or srun");
    if (o->trace) return ls_options_fail(o, LS_OPT_trace, "this command writes no trace: leave it out");
    if (!o->model)
        return ls_fail(LS_ERR_INPUT, "--model is missing: name a run, a checkpoint or a Hugging Face folder");
    return LS_OK;
}

/* Fails with LS_ERR_INPUT if eval has no data, except for an image model, which can be evaluated on generated images.
 * Reads only the shape of the model. */
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

/* Chooses tokens of a sequence (l->T) and sequences of a micro-batch (l->micro): for generate one, because it generates
 * one text, token by token. */
static ls_status choose_sizes(ls_run *r) {
    const ls_options *o = &r->options;
    ls_loaded *l = &r->loaded;
    bool scores = o->command == LS_COMMAND_EVAL;
    size_t T = scores ? (size_t)o->seq : 0, positions = r->start.shape.T, per = MICRO_TOKENS / (T > 0 ? T : 1024);
    l->micro = !scores ? 1 : o->micro_batch > 0 ? (size_t)o->micro_batch : per > 0 ? per : 1;
    if (T > positions)
        return ls_options_fail(o, LS_OPT_seq, "%s has %zu positions; use --seq %zu or less", r->start.shape.name,
                               positions, positions);
    l->T = T > 0 ? T : positions < T_MAX ? positions : T_MAX;
    return LS_OK;
}

/* ---- precision --------------------------------------------------------------------------------------------------- */

/* The words for precision and matrix unit in a checkpoint. */
typedef struct recorded {
    char precision[LS_SAVED_WORD_MAX], unit[LS_SAVED_WORD_MAX]; /* "": not known */
} recorded;

/* Reads the precision of the training run whose checkpoint the weights are; both "" for weights of other programs. */
static ls_status read_recorded(const ls_weights *weights, recorded *r) {
    ls_checkpoint *checkpoint = NULL;
    *r = (recorded){.precision = ""};
    if (ls_weights_kind_of(weights) != LS_WEIGHTS_CHECKPOINT) return LS_OK;
    LS_TRY(ls_checkpoint_open(ls_weights_path(weights), &checkpoint));
    ls_status status = ls_saved_precision(checkpoint, r->precision, r->unit);
    ls_checkpoint_close(checkpoint);
    return status;
}

/* Parses the matrix unit that the run was trained with; chain, with a warning, if this CPU lacks it. */
static ls_status usable_unit(const recorded *r, ls_unit *out) {
    LS_TRY(ls_unit_parse(r->unit, out));
    if (ls_unit_is_here(*out)) return LS_OK;
    ls_log_warn("the run was trained with --matrix-unit %s, which this CPU lacks; using chain, so results may differ "
                "in the last digits",
                r->unit);
    *out = LS_UNIT_CHAIN;
    return LS_OK;
}

/* Chooses precision and matrix unit: of the options, else of the run whose weights these are, else fp32. */
static ls_status choose_policy(ls_run *run) {
    const ls_options *o = &run->options;
    ls_options mine = *o; /* borrows all texts */
    recorded r;
    int was = LS_PLAN_TYPES;
    LS_TRY(read_recorded(run->start.weights, &r));
    bool known = ls_choice_find(LS_CHOICES(LS_RUN_TYPES), r.precision, &was);
    if (!ls_options_is_given(o, LS_OPT_precision) && r.precision[0]) {
        if (!known)
            return ls_fail(LS_ERR_INPUT,
                           "the run was trained in %s, which this version does not know; choose one with --precision",
                           r.precision);
        mine.precision = (ls_plan_type)was;
    }
    if (!ls_options_is_given(o, LS_OPT_matrix_unit) && known && was == (int)mine.precision) {
        if (r.unit[0]) LS_TRY(usable_unit(&r, &mine.matrix_unit)); /* else it was chain */
        mine.source[LS_OPT_matrix_unit].origin = LS_ORIGIN_FILE;
    }
    return ls_settings_precision(&mine, &run->loaded.policy);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

ls_status ls_run_load(ls_run *r) {
    const ls_options *o = &r->options;
    ls_loaded *l = &r->loaded;
    ls_fpenv_set();
    if (o->command == LS_COMMAND_EVAL) LS_TRY(check_data(&r->setup));
    LS_TRY(check_options(o));
    LS_TRY(ls_start_open(o->model, &r->start));
    if (!r->start.weights)
        return ls_options_fail(o, LS_OPT_model,
                               "this is a model's shape without weights; name a run, a checkpoint or a "
                               "Hugging Face folder");
    LS_TRY(choose_sizes(r));
    if (!ls_shape_sees_images(&r->start.shape)) LS_TRY(ls_start_tokenizer(&r->start, o->tokenizer, &r->tokenizer));
    LS_TRY(ls_placement_make(1, (int)o->threads, o->pin, &l->placement));
    LS_TRY(choose_policy(r));
    LS_TRY(ls_options_blame(o, LS_OPT_device, ls_device_choose(o->device, 1, l->policy.unit, &r->chosen)));
    LS_TRY(ls_run_prepare_device(r, l->policy.unit));
    LS_TRY(ls_device_open_named(r->chosen.name, 0, &l->device));
    if (!l->device)
        LS_TRY(ls_device_open_cpu(l->placement.threads, ls_placement_cpus(&l->placement, 0), NULL, &l->device));
    LS_TRY(ls_device_use_graphs(l->device, o->cuda_graphs));
    LS_TRY(ls_device_check_unit(l->device, l->policy.unit, l->policy.act));
    int slices = o->slices > 0 ? (int)o->slices : ls_model_default_slices(&r->start.shape, l->policy.unit);
    ls_model_suit_unit(&r->start.shape, l->policy.unit);
    LS_TRY(ls_model_create(&r->start.shape, slices, &l->model));
    ls_layout_task task = {.model = l->model, .B = l->micro, .T = l->T, .G = 1};
    ls_partition_setup setup = {
        .policy = l->policy, .B = l->micro, .T = l->T, .G = 1, .layout = ls_layout_one(&task, l->micro)};
    LS_TRY(ls_dry_reserve_forward(&r->start.shape, slices, r->chosen.name, o->command == LS_COMMAND_GENERATE, &setup));
    LS_TRY(ls_partition_create(l->model, l->device, &setup, &l->partition));
    LS_TRY(ls_weights_load_partition(r->start.weights, l->partition));
    return o->command == LS_COMMAND_GENERATE ? ls_image_option_refuse(&r->start.shape, "generate") : LS_OK;
}

void ls_run_unload(ls_run *r) {
    ls_loaded *l = &r->loaded;
    ls_partition_destroy(l->partition);
    ls_model_destroy(l->model);
    ls_device_destroy(l->device);
    ls_placement_free(&l->placement);
}

/* Sets *loss to the mean of the sum. LS_ERR_FAILED if a loss is not finite, because the mean would say nothing; `unit`
 * is for the message. */
static ls_status take_mean(const ls_loss_sum *sum, const char *unit, double *loss) {
    long long bad = (long long)sum->bad, all = (long long)(sum->count + sum->bad);
    if (bad > 0)
        return ls_fail(LS_ERR_FAILED,
                       "the loss of %lld of %lld %s is not finite (NaN or infinity): the model's weights are ruined or "
                       "too large for its precision; use an earlier checkpoint, or --precision fp32",
                       bad, all, unit);
    *loss = ls_loss_sum_mean(sum);
    return LS_OK;
}

/* ---- evaluating text --------------------------------------------------------------------------------------------- */

/* The source from which the partition reads its windows. */
typedef struct window_source {
    const ls_corpus *corpus;
    const ls_windows *windows;
    uint64_t first; /* window of the call */
} window_source;

/* Reads windows begin … end − 1 of the call for the partition: ids, and targets, which are the ids one token further. A
 * read callback of ls_partition_feed. */
static ls_status read_windows(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets) {
    const window_source *s = ctx;
    for (size_t i = 0; i < end - begin; i++) {
        ls_token_window w = ls_windows_get(s->windows, s->first + begin + i);
        LS_TRY(ls_corpus_read(s->corpus, w.begin, w.length, ids + i * w.length));
        LS_TRY(ls_corpus_read(s->corpus, w.begin + 1, w.length, targets + i * w.length));
    }
    return LS_OK;
}

/* Adds the losses of all windows to *sum, in micro-batches of windows of equal length and context, and reports
 * progress. A signal ends it with ls_stop_status(). */
static ls_status score_windows(ls_run *r, ls_loss_sum *sum) {
    const ls_loaded *l = &r->loaded;
    const ls_windows *windows = &l->windows;
    window_source from = {.corpus = r->data.corpus, .windows = windows};
    ls_partition_feed feed = {.read = read_windows, .ctx = &from};
    for (size_t count; from.first < windows->count; from.first += count) {
        ls_token_window w = ls_windows_get(windows, from.first);
        count = ls_windows_alike(windows, from.first, l->micro);
        feed.context = w.context;
        LS_TRY(ls_partition_evaluate(l->partition, count, w.length, &feed, sum, NULL));
        LS_TRY(
            ls_run_tell(r, (ls_run_event){.kind = LS_RUN_SCORED, .done = from.first + count, .all = windows->count}));
        LS_TRY(ls_stop_status());
    }
    return LS_OK;
}

/* Opens the text to evaluate, unless an earlier evaluation has: the caller's data, else all files of --data. */
static ls_status open_corpus(ls_run *r) {
    if (r->data.corpus) return LS_OK;
    if (r->setup.data) return ls_corpus_open_source(r->setup.data, (uint32_t)r->start.shape.V, &r->data.corpus);
    LS_TRY(ls_bos_option(&r->options, r->tokenizer, &r->frame));
    return ls_run_open_corpus(r, r->options.data, LS_SPLIT_ALL, &r->data.corpus);
}

/* Evaluates all text. Every token but the first is scored once; bits per byte are 0 if the size of the text is not
 * known. */
static ls_status evaluate_text(ls_run *r, ls_evaluation *out) {
    ls_loaded *l = &r->loaded;
    size_t stride = r->options.stride > 0 ? (size_t)r->options.stride : l->T;
    ls_loss_sum sum = {0};
    if (stride > l->T)
        return ls_options_fail(&r->options, LS_OPT_stride,
                               "a stride above the window of %zu tokens would skip tokens; use at most --stride %zu",
                               l->T, l->T);
    LS_TRY(open_corpus(r));
    double bytes = (double)ls_corpus_text_bytes(r->data.corpus), all = (double)ls_corpus_count(r->data.corpus);
    LS_TRY(ls_windows_init(&l->windows, ls_corpus_count(r->data.corpus), l->T, stride));
    double start = ls_clock_seconds();
    LS_TRY(score_windows(r, &sum));
    out->seconds = ls_clock_seconds() - start;
    LS_TRY(take_mean(&sum, "tokens", &out->loss));
    out->accuracy = -1;
    out->samples = (uint64_t)sum.count;
    /* Bytes of the tokens that were predicted, from the mean length of a token. */
    out->bits_per_byte = bytes > 0 ? out->loss / 0x1.62e42fefa39efp-1 * all / bytes : 0;
    return LS_OK;
}

/* ---- evaluating images ------------------------------------------------------------------------------------------- */

/* The source from which the partition reads its images; `first` is the first image of the call, and `index` has room
 * for a micro-batch. */
typedef struct image_source {
    const ls_images *images;
    uint64_t first;
    uint64_t *index;
    uint32_t side; /* of the model's square input: the middle of larger images is used; 0: images are used whole */
} image_source;

/* Reads images begin … end − 1 of the call for the partition: the middle of larger ones, without augmentation. An
 * images callback of ls_partition_feed. */
static ls_status read_images(void *ctx, size_t begin, size_t end, float *pixels, int32_t *classes) {
    image_source *s = ctx;
    ls_augment plain = {.fixed = true, .crop = s->side};
    for (size_t i = begin; i < end; i++) s->index[i - begin] = s->first + i;
    return ls_images_fill(s->images, s->index, end - begin, &plain, LS_IMAGES_NHWC, pixels, classes);
}

/* Evaluates all images of the source: fills loss, accuracy, number and seconds of *out, and l->right. A signal ends it
 * with ls_stop_status(). */
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
    LS_TRY(take_mean(&sum, "images", &out->loss));
    out->accuracy = (double)l->right / (double)out->samples;
    return LS_OK;
}

/* Opens the test images of --data, or the caller's, unless an earlier evaluation has. `square`: files may have larger
 * ones, of which the middle is used. */
static ls_status open_images(ls_run *r, bool square) {
    const ls_shape *shape = &r->start.shape;
    ls_images_about about = ls_image_option_about(shape);
    if (r->data.images) return LS_OK;
    if (r->setup.data) return ls_images_open_source(&r->data.images, r->setup.data, &about);
    return ls_image_option_open(r->options.data, shape, square, LS_IMAGES_TEST, 0, &r->data.images);
}

/* Evaluates the test images. Refuses --stride if it was given as a flag. */
static ls_status evaluate_images(ls_run *r, ls_evaluation *out) {
    const ls_image_shape *sees = &r->start.shape.image;
    bool square = sees->height == sees->width;
    if (r->options.source[LS_OPT_stride].origin == LS_ORIGIN_FLAG)
        return ls_options_fail(&r->options, LS_OPT_stride,
                               "%s is an image model, which has no windows of tokens: leave it out",
                               r->start.shape.name);
    LS_TRY(open_images(r, square));
    image_source from = {.images = r->data.images, .index = malloc(r->loaded.micro * sizeof *from.index)};
    if (square) from.side = (uint32_t)sees->height;
    ls_status status =
        from.index ? score_images(&r->loaded, &from, out) : ls_fail(LS_ERR_RESOURCE, "out of memory for a batch");
    free(from.index);
    return status;
}

ls_status ls_run_score(ls_run *r, ls_evaluation *out) {
    *out = (ls_evaluation){0};
    ls_fpenv_set();
    if (r->options.command != LS_COMMAND_EVAL)
        return ls_fail(LS_ERR_INPUT, "this run was opened to generate: evaluating takes the options of eval");
    return ls_shape_sees_images(&r->start.shape) ? evaluate_images(r, out) : evaluate_text(r, out);
}
