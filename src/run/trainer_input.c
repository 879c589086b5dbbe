/* trainer_input.c: finds which tokens or images each sequence of a batch is, and reads them. */
#include "run/trainer_input.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "run/trainer.h"

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

/* Returns the number of tokens that makes the sampler see each image as a window of its own, so that an epoch has each
 * image once. */
static uint64_t image_windows(const ls_images *images) { return ls_images_get_about(images)->count + 1; }

ls_status ls_trainer_open_samplers(ls_trainer *t) {
    const ls_trainer_data *data = &t->input.data;
    size_t T = data->images ? 1 : t->settings.T;
    uint64_t all = data->images ? image_windows(data->images) : ls_corpus_count(data->corpus), held = 0, val = 0;
    t->input.has_val = data->images ? data->val_images != NULL : data->val_corpus != NULL;
    if (t->input.has_val) {
        val = data->images ? image_windows(data->val_images) : ls_corpus_count(data->val_corpus);
    } else if (!data->images) {
        val = (uint64_t)((double)all * t->settings.val_fraction);
        t->input.has_val = val > T;
        held = t->input.has_val ? val : 0;
        t->input.val_first = all - held;
    }
    if (t->input.has_val) LS_TRY(ls_sampler_init(&t->input.val_sampler, 0, val, T, false));
    return ls_sampler_init(&t->input.sampler, (uint64_t)t->settings.options.seed, all - held, T, true);
}

ls_status ls_trainer_open_input(ls_trainer *t) {
    size_t T = t->settings.T;
    t->input.window = malloc((T + 1) * sizeof *t->input.window);
    t->input.index = malloc(t->layout.micro * sizeof *t->input.index);
    if (t->input.window && t->input.index) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE, "out of memory for a sequence of %zu tokens", T);
}

void ls_trainer_close_input(ls_trainer *t) {
    free(t->input.window);
    free(t->input.index);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

uint64_t ls_trainer_samples(const ls_trainer *t) {
    return t->origin.samples + (uint64_t)(t->step - t->origin.step) * t->settings.B;
}

/* Copies T + 1 tokens from token `start` of the corpus on to row `row` of ids and targets; targets are the ids one
 * token further. */
static ls_status read_window(ls_trainer *t, const ls_corpus *corpus, uint64_t start, size_t row, int32_t *ids,
                             int32_t *targets) {
    size_t T = t->settings.T;
    LS_TRY(ls_corpus_read(corpus, start, T + 1, t->input.window));
    for (size_t i = 0; i < T; i++) {
        ids[row * T + i] = t->input.window[i];
        targets[row * T + i] = t->input.window[i + 1];
    }
    return LS_OK;
}

/* Reads sequences begin … end − 1 of the batch of the next step; the read callback of ls_trainer_feed(). Counts the
 * time as input time of the worker; tests plant faults in it. */
static ls_status read_batch(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets) {
    ls_trainer *t = ctx;
    uint64_t begin_ns = ls_clock_ns();
    for (size_t i = begin; i < end; i++) {
        uint64_t sample = ls_trainer_samples(t) + i;
        LS_TRY(
            read_window(t, t->input.data.corpus, ls_sampler_start(&t->input.sampler, sample), i - begin, ids, targets));
        ls_fault_at(NULL, LS_FAULT_TOKENS, NULL, (int)i, ids + (i - begin) * t->settings.T, t->settings.T, sizeof *ids);
    }
    ls_fault_slow_input();
    ls_worker_time_read(&t->time, begin_ns);
    return LS_OK;
}

/* Reads images begin … end − 1 of the batch of the next step; the images callback of ls_trainer_feed(). Indices from B
 * on belong to the step after it, which the prefetch reads. */
static ls_status read_images(void *ctx, size_t begin, size_t end, float *pixels, int32_t *classes) {
    ls_trainer *t = ctx;
    uint64_t first = ls_trainer_samples(t), begin_ns = ls_clock_ns();
    for (size_t i = begin; i < end; i++) t->input.index[i - begin] = ls_sampler_start(&t->input.sampler, first + i);
    t->input.data.augment.seed = t->settings.options.seed;
    t->input.data.augment.step = (uint64_t)t->step + begin / t->settings.B;
    ls_status status = ls_images_fill(t->input.data.images, t->input.index, end - begin, &t->input.data.augment,
                                      LS_IMAGES_NHWC, pixels, classes);
    ls_fault_slow_input();
    ls_worker_time_read(&t->time, begin_ns);
    return status;
}

ls_partition_feed ls_trainer_feed(ls_trainer *t) {
    return (ls_partition_feed){.read = read_batch, .ctx = t, .images = read_images, .batch = (uint64_t)t->step + 1};
}

/* ---- validation -------------------------------------------------------------------------------------------------- */

/* Reads sequences begin … end − 1 of the validation data, which may be the end of the training corpus. */
static ls_status read_validation(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets) {
    ls_trainer *t = ctx;
    const ls_corpus *corpus = t->input.data.val_corpus ? t->input.data.val_corpus : t->input.data.corpus;
    for (size_t i = begin; i < end; i++) {
        uint64_t start = t->input.val_first + ls_sampler_start(&t->input.val_sampler, i);
        LS_TRY(read_window(t, corpus, start, i - begin, ids, targets));
    }
    ls_fault_slow_input();
    return LS_OK;
}

/* Reads images begin … end − 1 of the validation data, without random augmentation. */
static ls_status read_val_images(void *ctx, size_t begin, size_t end, float *pixels, int32_t *classes) {
    ls_trainer *t = ctx;
    ls_augment plain = t->input.data.augment;
    plain.fixed = true;
    for (size_t i = begin; i < end; i++) t->input.index[i - begin] = ls_sampler_start(&t->input.val_sampler, i);
    return ls_images_fill(t->input.data.val_images, t->input.index, end - begin, &plain, LS_IMAGES_NHWC, pixels,
                          classes);
}

ls_partition_feed ls_trainer_validation_feed(ls_trainer *t) {
    return (ls_partition_feed){.read = read_validation, .ctx = t, .images = read_val_images};
}
