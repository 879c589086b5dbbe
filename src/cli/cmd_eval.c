/* cmd_eval.c: `lockstep eval`: how well a model predicts data: loss, perplexity, bits per byte.
 *
 * Every token but the first is scored once, in windows that overlap where --stride is below --seq (data/windows.h). The
 * loss is exact: it does not depend on micro-batch or threads. */
#include <math.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "cli/eval_images.h"
#include "run/inputs/bos.h"
#include "cli/cli.h"
#include "cli/one_worker.h"
#include "cli/print_json.h"
#include "data/text/corpus.h"
#include "data/windows.h"
#include "numerics/elementary.h"
#include "run/settings.h"
#include "run/stop.h"

enum { MICRO_TOKENS = 4096 };

typedef struct result {
    ls_loss_sum sum;
    double loss, perplexity, bits_per_byte, seconds; /* bits 0: the text is not known */
    uint64_t tokens;                                 /* scored */
    ls_windows windows;
} result;

static void say(void *ctx, const char *message) {
    (void)ctx;
    fprintf(stderr, "%s\n", message);
}

static ls_status open_data(const ls_options *o, const ls_one_worker *one, ls_corpus **corpus) {
    char cache[512];
    ls_frame frame;
    LS_TRY(ls_bos_option(o, one->tokenizer, &frame));
    LS_TRY(ls_cache_dir(cache, sizeof cache));
    ls_corpus_options options = {.tokenizer = one->tokenizer,
                                 .vocab = (uint32_t)one->start.shape.V,
                                 .cache_dir = cache,
                                 .frame = frame,
                                 .text_field = o->text_field,
                                 .split = LS_SPLIT_ALL,
                                 .say = say};
    return ls_corpus_open(o->data, &options, corpus);
}

static void show_progress(uint64_t done, uint64_t all, double *shown) {
    double now = ls_clock_seconds();
    if (!isatty(STDERR_FILENO) || (now - *shown < 0.2 && done < all)) return;
    *shown = now;
    fprintf(stderr, "\r%3.0f %% of %llu windows%s", 100 * (double)done / (double)all, (unsigned long long)all,
            done < all ? "" : "\r\033[K");
}

/* What the stage reads its windows from. */
typedef struct source {
    const ls_corpus *corpus;
    const ls_windows *windows;
    uint64_t first; /* window of the call */
} source;

static ls_status read_windows(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets) {
    const source *s = ctx;
    for (size_t i = 0; i < end - begin; i++) {
        ls_token_window w = ls_windows_get(s->windows, s->first + begin + i);
        LS_TRY(ls_corpus_read(s->corpus, w.begin, w.length, ids + i * w.length));
        LS_TRY(ls_corpus_read(s->corpus, w.begin + 1, w.length, targets + i * w.length));
    }
    return LS_OK;
}

static ls_status measure(ls_one_worker *one, const ls_corpus *corpus, result *r) {
    const ls_windows *windows = &r->windows;
    source from = {.corpus = corpus, .windows = windows};
    ls_partition_feed feed = {.read = read_windows, .ctx = &from};
    double shown = 0;
    for (size_t count; from.first < windows->count; from.first += count) {
        ls_token_window w = ls_windows_get(windows, from.first);
        count = ls_windows_alike(windows, from.first, one->micro);
        feed.context = w.context;
        LS_TRY(ls_partition_evaluate(one->partition, count, w.length, &feed, &r->sum, NULL));
        show_progress(from.first + count, windows->count, &shown);
        LS_TRY(ls_stop_status());
    }
    return LS_OK;
}

static void finish(result *r, const ls_corpus *corpus) {
    double bytes = (double)ls_corpus_text_bytes(corpus), all = (double)ls_corpus_count(corpus);
    r->loss = r->sum.bad ? (double)NAN : ls_loss_sum_mean(&r->sum);
    r->tokens = (uint64_t)(r->sum.count + r->sum.bad);
    r->perplexity = ls_exp_f64(r->loss);
    /* Bytes of the tokens that were predicted, from the mean length of a token. */
    r->bits_per_byte = bytes > 0 ? r->loss / 0x1.62e42fefa39efp-1 * all / bytes : 0;
}

static ls_status print(const ls_options *o, const ls_policy *policy, const result *r) {
    const char *precision = ls_dtype_word(policy->act), *unit = ls_unit_name(policy->unit);
    if (!o->json) {
        printf("loss        %.6f (%a)\n", r->loss, r->loss);
        printf("perplexity  %.4f\n", r->perplexity);
        if (r->bits_per_byte > 0)
            printf("bits/byte   %.4f\n", r->bits_per_byte);
        else
            printf("bits/byte   unknown: these token files do not record the size of their text\n");
        printf("precision   %s, matrix unit %s\n", precision, unit);
        printf("windows     %llu of %zu tokens, stride %zu\n", (unsigned long long)r->windows.count,
               (size_t)r->windows.length, (size_t)r->windows.stride);
        printf("tokens      %llu scored in %.1f s (%.0f tok/s)\n", (unsigned long long)r->tokens, r->seconds,
               (double)r->tokens / r->seconds);
        return LS_OK;
    }
    char hex[64];
    snprintf(hex, sizeof hex, "%a", r->loss);
    json_t *object = json_pack(
        "{s:o, s:s, s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:f}", "loss", json_real(r->loss), "loss_hex", hex, "perplexity",
        json_real(r->perplexity), "bits_per_byte", r->bits_per_byte > 0 ? json_real(r->bits_per_byte) : json_null(),
        "precision", precision, "matrix_unit", unit, "tokens", (json_int_t)r->tokens, "seq",
        (json_int_t)r->windows.length, "stride", (json_int_t)r->windows.stride, "seconds", r->seconds);
    if (!object) return ls_fail(LS_ERR_FAILED, "the loss is not finite (%s)", hex);
    return ls_cli_print_json(object);
}

static ls_status evaluate(const ls_options *o, ls_one_worker *one) {
    ls_corpus *corpus = NULL;
    result r = {0};
    size_t stride = o->stride > 0 ? (size_t)o->stride : one->T;
    if (stride > one->T)
        return ls_options_fail(o, LS_OPT_stride,
                               "a stride above the window of %zu tokens would skip tokens; use at most --stride %zu",
                               one->T, one->T);
    LS_TRY(open_data(o, one, &corpus));
    ls_status status = ls_windows_init(&r.windows, ls_corpus_count(corpus), one->T, stride);
    double start = ls_clock_seconds();
    if (status == LS_OK) status = measure(one, corpus, &r);
    r.seconds = ls_clock_seconds() - start;
    if (status == LS_OK) {
        finish(&r, corpus);
        status = print(o, &one->policy, &r);
    }
    ls_corpus_close(corpus);
    return status;
}

/* Images need no file; whether it is a model of images is seen without its weights. */
static ls_status check_data(const ls_options *o) {
    ls_start start;
    if (o->data) return LS_OK;
    bool sees_images = o->model && ls_start_look(o->model, &start) == LS_OK;
    if (sees_images) {
        sees_images = ls_shape_sees_images(&start.shape);
        ls_start_close(&start);
    }
    return sees_images ? LS_OK : ls_fail(LS_ERR_INPUT, "eval needs data: add --data FILE");
}

ls_status ls_cmd_eval(const ls_options *opts) {
    ls_one_worker one;
    size_t T = (size_t)opts->seq, per = MICRO_TOKENS / (T > 0 ? T : 1024);
    size_t micro = opts->micro_batch > 0 ? (size_t)opts->micro_batch : per > 0 ? per : 1;
    ls_fpenv_set();
    LS_TRY(check_data(opts));
    LS_TRY(ls_stop_install());
    ls_status status = ls_one_worker_open(opts, T, micro, &one);
    if (status == LS_OK) {
        status = ls_shape_sees_images(&one.start.shape) ? ls_eval_images(opts, &one) : evaluate(opts, &one);
        ls_one_worker_close(&one);
    }
    ls_stop_restore();
    return status;
}
