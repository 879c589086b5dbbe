/* Traffic of a training step of image models: what parallel/traffic.h says is what every worker counts, also where
 * batch norm brings its statistics together. As test_traffic.c has it for language models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ask.h"
#include "count_traffic.h"
#include "model/shape_file.h"
#include "tiny_trainer.h"

typedef struct layout_case {
    const char *model;
    bool sync;
    int dp, pp, zero;
    size_t micro;
    int recompute, schedule;
    const char *shares;
} layout_case;

enum {
    NONE = LS_RECOMPUTE_NONE,
    SOME = LS_RECOMPUTE_SELECTIVE,
    FULL = LS_RECOMPUTE_FULL,
    F1B = LS_SCHEDULE_1F1B,
    GPIPE = LS_SCHEDULE_GPIPE,
    ZERO_BUBBLE = LS_SCHEDULE_ZERO_BUBBLE
};

static const layout_case cases[] = {
    {"lenet", false, 2, 1, 1, 3, NONE, F1B, NULL},         {"resnet18", true, 2, 2, 1, 8, NONE, ZERO_BUBBLE, "1,3"},
    {"resnet18", false, 2, 2, 2, 4, SOME, GPIPE, "3,1"},   {"resnet18", true, 3, 2, 1, 8, SOME, ZERO_BUBBLE, NULL},
    {"resnet18", true, 3, 1, 0, 8, FULL, F1B, NULL},       {"resnet18", true, 2, 1, 1, 8, NONE, F1B, NULL},
    {"lenet", false, 3, 2, 3, 2, FULL, ZERO_BUBBLE, NULL}, {"resnet18", true, 4, 1, 3, 8, NONE, F1B, NULL},
};

static ls_status settings_of(const layout_case *c, ls_settings *out) {
    ls_shape shape;
    LS_TRY(ls_shape_preset(c->model, &shape));
    if (shape.arch == LS_ARCH_RESNET18) shape.image.height = shape.image.width = 16;
    *out = tiny_settings(&shape, adamw);
    out->options.check = LS_CHECK_OFF;
    out->slices = 1;
    out->B = 8;
    out->T = 1;
    out->options.dropout = 0;
    if (shape.arch == LS_ARCH_RESNET18) out->ghost = 2;
    out->bn_sync = c->sync;
    return LS_OK;
}

static ls_status run(ls_world *world, const layout_case *c, const ls_settings *settings, ls_device *device,
                     ls_images *images, ls_model *model) {
    ls_layout_request request = ls_layout_request_none();
    ls_trainer *trainer = NULL;
    ls_trainer_place place = {.device = device, .world = world};
    ls_layout_task task = {.model = model,
                           .B = settings->B,
                           .T = settings->T,
                           .G = settings->groups,
                           .ghost = settings->ghost,
                           .bn_sync = settings->bn_sync};
    ls_status status;
    ask(&request, LS_KNOB_dp, c->dp);
    ask(&request, LS_KNOB_pp, c->pp);
    ask(&request, LS_KNOB_zero, c->zero);
    ask(&request, LS_KNOB_micro, (double)c->micro);
    ask(&request, LS_KNOB_recompute, c->recompute);
    ask(&request, LS_KNOB_schedule, c->schedule);
    request.shares = c->shares;
    LS_TRY(ls_layout_make(&request, &task, &place.layout));
    LS_TRY_OUT(ls_trainer_create(settings, &place, &(ls_trainer_data){.images = images}, &trainer));
    LS_TRY_OUT(ls_partition_init_weights(trainer->partition, 11));
    LS_TRY_OUT(trainer_run(trainer, 1));
    ls_step_traffic before = look(trainer);
    LS_TRY_OUT(trainer_run(trainer, 2));
    ls_step_traffic now = look(trainer);
    LS_TRY_OUT(compare_traffic(&task, trainer, &before, &now));
out:
    ls_trainer_destroy(trainer);
    return status;
}

static ls_status work(ls_world *world, void *arg) {
    const layout_case *c = arg;
    ls_settings settings;
    ls_device *device = NULL;
    ls_images *images = NULL;
    ls_model *model = NULL;
    ls_status status;
    ls_fpenv_set();
    LS_TRY(settings_of(c, &settings));
    ls_images_options options = {.source = "drawings",
                                 .count = 64,
                                 .size = (uint32_t)settings.shape.image.height,
                                 .channels = (uint32_t)settings.shape.image.channels};
    LS_TRY_OUT(ls_device_open_cpu(1, NULL, NULL, &device));
    LS_TRY_OUT(ls_images_open(&images, &options));
    LS_TRY_OUT(ls_model_create(&settings.shape, settings.slices, &model));
    status = run(world, c, &settings, device, images, model);
out:
    ls_model_destroy(model);
    ls_images_close(images);
    ls_device_destroy(device);
    return status;
}

static void workers_count_what_the_formulas_say(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += getenv("LS_TEST_LONG") ? 1 : 3) {
        layout_case c = cases[i];
        ls_workers_options options = {.workers = c.dp * c.pp, .threads = 1, .no_pin = 1};
        if (ls_workers_run(&options, work, &c) != LS_OK) fail_msg("layout %zu: %s", i, ls_status_message());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(workers_count_what_the_formulas_say)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
