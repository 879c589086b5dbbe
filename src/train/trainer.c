/* trainer.c: from settings to steps. */
#include "train/trainer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "model/model.h"

/* ---- data -------------------------------------------------------------------------------------------------------- */

static ls_status open_samplers(ls_trainer *t) {
    const ls_settings *s = &t->settings;
    uint64_t tokens = ls_corpus_count(t->corpus), held = 0;
    if (t->val_corpus) {
        t->has_val = true;
        LS_TRY(ls_sampler_init(&t->val_sampler, 0, ls_corpus_count(t->val_corpus), s->T, false));
    } else {
        held = (uint64_t)((double)tokens * s->val_fraction);
        t->has_val = held > s->T;
        if (!t->has_val) held = 0;
        t->val_first = tokens - held;
        if (t->has_val) LS_TRY(ls_sampler_init(&t->val_sampler, 0, held, s->T, false));
    }
    return ls_sampler_init(&t->sampler, s->seed, tokens - held, s->T, true);
}

/* Sequence `row` of the micro-batch: window `start` of the corpus. */
static ls_status read_window(ls_trainer *t, const ls_corpus *corpus, uint64_t start, size_t row) {
    size_t T = t->settings.T;
    LS_TRY(ls_corpus_read(corpus, start, T + 1, t->window));
    for (size_t i = 0; i < T; i++) {
        t->ids[row * T + i] = t->window[i];
        t->targets[row * T + i] = t->window[i + 1];
    }
    return LS_OK;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static ls_stage_setup setup_of(const ls_settings *s, size_t micro) {
    return (ls_stage_setup){.train = true,
                            .B = s->B,
                            .T = s->T,
                            .micro = micro,
                            .G = s->groups,
                            .moments = ls_optimizer_moments(&s->optimizer),
                            .dropout = s->dropout,
                            .seed = s->seed};
}

/* The largest micro-batch, halving from the whole batch, that the memory of this machine holds. */
static ls_status choose_micro(ls_trainer *t) {
    size_t micro = t->settings.micro > 0 ? t->settings.micro : t->settings.B;
    for (;; micro = (micro + 1) / 2) {
        ls_arena arena;
        ls_stage_setup setup = setup_of(&t->settings, micro);
        LS_TRY(ls_stage_measure(t->model, &setup, &arena));
        if (micro == 1 || t->settings.micro > 0 || ls_memory_check(arena.peak + arena.peak / 16) == LS_OK) break;
    }
    t->settings.micro = micro;
    return LS_OK;
}

static ls_status alloc_tokens(ls_trainer *t) {
    size_t rows = t->settings.micro * t->settings.T;
    t->ids = malloc(rows * sizeof *t->ids);
    t->targets = malloc(rows * sizeof *t->targets);
    t->window = malloc((t->settings.T + 1) * sizeof *t->window);
    if (t->ids && t->targets && t->window) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE, "out of memory for the tokens of a micro-batch");
}

ls_status ls_trainer_create(const ls_settings *settings, ls_device *device, const ls_corpus *corpus,
                            const ls_corpus *val_corpus, ls_trainer **out) {
    *out = NULL;
    ls_status status = LS_OK;
    ls_trainer *t = calloc(1, sizeof *t);
    if (!t) return ls_fail(LS_ERR_RESOURCE, "out of memory for a trainer");
    t->settings = *settings;
    t->device = device;
    t->corpus = corpus;
    t->val_corpus = val_corpus;
    t->last_loss = (double)NAN;
    LS_TRY_OUT(open_samplers(t));
    LS_TRY_OUT(ls_model_create(&settings->shape, settings->slices, &t->model));
    LS_TRY_OUT(choose_micro(t));
    ls_stage_setup setup = setup_of(&t->settings, t->settings.micro);
    LS_TRY_OUT(ls_stage_create(t->model, device, &setup, &t->stage));
    LS_TRY_OUT(alloc_tokens(t));
    *out = t;
    return LS_OK;
out:
    ls_trainer_destroy(t);
    return status;
}

void ls_trainer_destroy(ls_trainer *t) {
    if (!t) return;
    ls_stage_destroy(t->stage);
    ls_model_destroy(t->model);
    free(t->ids);
    free(t->targets);
    free(t->window);
    free(t);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

uint64_t ls_trainer_samples(const ls_trainer *t) {
    return t->base_samples + (uint64_t)(t->step - t->base_step) * t->settings.B;
}

static ls_status run_batch(ls_trainer *t, ls_loss_sum *loss) {
    const ls_settings *s = &t->settings;
    for (size_t begin = 0; begin < s->B; begin += s->micro) {
        size_t end = s->B - begin < s->micro ? s->B : begin + s->micro;
        for (size_t i = begin; i < end; i++) {
            uint64_t sample = ls_trainer_samples(t) + i;
            LS_TRY(read_window(t, t->corpus, ls_sampler_start(&t->sampler, sample), i - begin));
        }
        LS_TRY(ls_stage_micro_batch(t->stage, begin, end, t->ids, t->targets, loss));
    }
    return LS_OK;
}

ls_status ls_trainer_step(ls_trainer *t, ls_step_result *result) {
    const ls_settings *s = &t->settings;
    int64_t tokens = (int64_t)(s->B * s->T);
    ls_loss_sum loss = {0};
    ls_exact_sum squares = {0};
    LS_TRY(ls_stage_step_begin(t->stage, (uint64_t)t->step, ls_clip_backward_start(tokens, 0)));
    LS_TRY(run_batch(t, &loss));
    LS_TRY(ls_stage_step_end(t->stage));
    LS_TRY(ls_stage_square_norm(t->stage, &squares));
    double value = ls_exact_sum_value(&squares);
    ls_clip clip = ls_clip_factor(value, ls_exact_sum_non_finite(&squares), ls_clip_token_scale(tokens, 0), s->clip);
    *result = (ls_step_result){.loss = loss.bad ? (double)NAN : ls_loss_sum_mean(&loss),
                               .norm = clip.norm,
                               .lr = ls_lr_at(&s->lr, t->step),
                               .finite = clip.finite && loss.bad == 0};
    if (result->finite) {
        ls_adamw_powers_move(&t->powers, &s->optimizer.adamw, ++t->updates);
        LS_TRY(ls_optimizer_step(&s->optimizer, t->device, t->model, &t->powers, result->lr, clip.factor));
    }
    t->last_loss = result->loss;
    t->step++;
    return LS_OK;
}

ls_status ls_trainer_evaluate(ls_trainer *t, int64_t batches, double *loss) {
    const ls_settings *s = &t->settings;
    uint64_t samples = (uint64_t)batches * s->B;
    const ls_corpus *corpus = t->val_corpus ? t->val_corpus : t->corpus;
    ls_loss_sum sum = {0};
    assert(t->has_val);
    if (samples > t->val_sampler.windows) samples = t->val_sampler.windows;
    for (uint64_t begin = 0; begin < samples; begin += s->micro) {
        size_t count = samples - begin < s->micro ? (size_t)(samples - begin) : s->micro;
        for (size_t i = 0; i < count; i++)
            LS_TRY(read_window(t, corpus, t->val_first + ls_sampler_start(&t->val_sampler, begin + i), i));
        LS_TRY(ls_stage_evaluate(t->stage, count, s->T, t->ids, t->targets, &sum));
    }
    *loss = sum.bad ? (double)NAN : ls_loss_sum_mean(&sum);
    return LS_OK;
}
