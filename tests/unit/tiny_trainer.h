/* tiny_trainer.h: trainers of tiny models on random tokens, alone or as one of several workers. No assertions, but for
 * those of the fixture, so that workers can use them: a worker that fails returns its status. */
#ifndef TINY_TRAINER_H
#define TINY_TRAINER_H

#include "data_files.h"
#include "tiny_partition.h"
#include "run/folder/save.h"

enum { STEPS = 6, CUT = 3, TOKENS = 400 };

static const ls_optimizer adamw = {
    .kind = LS_OPTIMIZER_ADAMW, .adamw = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8}, .weight_decay = 0.1};

/* One worker's. */
typedef struct fixture {
    ls_device *device;
    ls_corpus *corpus;
    ls_identity *identity;
    ls_settings settings;
} fixture;

static inline ls_settings tiny_settings(const ls_shape *shape, ls_optimizer optimizer) {
    return (ls_settings){.options = {.seed = 11,
                                     .steps = STEPS,
                                     .optimizer = optimizer.kind,
                                     .beta1 = optimizer.adamw.beta1,
                                     .beta2 = optimizer.adamw.beta2,
                                     .eps = optimizer.adamw.epsilon,
                                     .momentum = optimizer.sgd.momentum,
                                     .weight_decay = optimizer.weight_decay,
                                     .master_weights = true,
                                     .clip = 1,
                                     .dropout = 0.1,
                                     .check = LS_CHECK_REPLICAS},
                         .shape = *shape,
                         .slices = 2,
                         .groups = 4,
                         .B = 5,
                         .T = 9,
                         .lr = {.kind = LS_LR_CONSTANT, .peak = 0.01},
                         .optimizer = optimizer};
}

/* The file of tokens that all fixtures read. */
static inline void put_tokens(size_t V) {
    uint16_t ids[TOKENS];
    for (size_t i = 0; i < TOKENS; i++) ids[i] = (uint16_t)ls_rng_below(ls_rng_key_make(2, 2, 0), i, V);
    (void)put_file("ids.bin", ids, sizeof ids);
}

static inline ls_status fixture_open(fixture *f, const ls_settings *settings) {
    ls_fpenv_set();
    *f = (fixture){.settings = *settings};
    ls_corpus_options options = {.vocab = (uint32_t)settings->shape.V};
    LS_TRY(ls_corpus_open(in_folder("ids.bin"), &options, &f->corpus));
    LS_TRY(ls_device_open_cpu(1, NULL, NULL, &f->device));
    LS_TRY(ls_identity_create(&f->identity));
    return ls_settings_identity(&f->settings, f->identity);
}

static inline void fixture_close(fixture *f) {
    ls_identity_destroy(f->identity);
    ls_corpus_close(f->corpus);
    ls_device_destroy(f->device);
}

/* `world` NULL: one worker alone. */
static inline ls_status trainer_open(fixture *f, ls_world *world, const ls_layout_request *request, ls_trainer **out) {
    ls_model *model = NULL;
    ls_trainer_place place = {.device = f->device, .world = world};
    LS_TRY(ls_model_create(&f->settings.shape, f->settings.slices, &model));
    ls_layout_task task = {.model = model, .B = f->settings.B, .T = f->settings.T, .G = f->settings.groups};
    ls_status status = ls_layout_make(request, &task, &place.layout);
    ls_model_destroy(model);
    return status == LS_OK ? ls_trainer_create(&f->settings, &place, &(ls_trainer_data){.corpus = f->corpus}, out)
                           : status;
}

static inline ls_status trainer_run(ls_trainer *trainer, int64_t until) {
    while (trainer->step < until) {
        ls_step_result result;
        LS_TRY(ls_trainer_step(trainer, 0, &result));
        if (!result.finite) return ls_fail(LS_ERR_FAILED, "a step that is not finite");
    }
    return LS_OK;
}

static inline const char *step_folder(const char *dir, int step) {
    char name[128];
    snprintf(name, sizeof name, "%s/checkpoints/step-%09d", dir, step);
    return in_folder(name);
}

#endif
