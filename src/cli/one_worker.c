/* one_worker.c: from --model to a stage with weights in it. */
#include "cli/one_worker.h"

#include <stdlib.h>

#include "cli/cli.h"
#include "model/model.h"
#include "train/settings.h"

static ls_status check_options(const ls_options *o) {
    if (ls_cli_place_get().size > 1)
        return ls_fail(LS_ERR_INPUT, "this command is one worker on all cores: start it without mpirun or srun");
    if (o->trace) return ls_options_fail(o, LS_OPT_trace, "this command has no timeline: leave it out");
    if (!o->model)
        return ls_fail(LS_ERR_INPUT, "name a model with weights: --model RUN, CHECKPOINT or Hugging Face folder");
    return LS_OK;
}

static ls_status choose_T(const ls_options *o, size_t T, ls_one_worker *one) {
    size_t positions = one->start.shape.T;
    if (T > positions)
        return ls_options_fail(o, LS_OPT_seq, "%s has %zu positions: use at most --seq %zu", one->start.shape.name,
                               positions, positions);
    one->T = T > 0 ? T : positions < LS_ONE_WORKER_T_MAX ? positions : LS_ONE_WORKER_T_MAX;
    return LS_OK;
}

ls_status ls_one_worker_open(const ls_options *o, size_t T, size_t micro, ls_one_worker *out) {
    ls_status status = LS_OK;
    *out = (ls_one_worker){.micro = micro};
    LS_TRY(check_options(o));
    LS_TRY(ls_start_open(o->model, &out->start));
    if (!out->start.weights) {
        status = ls_options_fail(o, LS_OPT_model,
                                 "this is a shape without weights; name a run, a checkpoint or a "
                                 "Hugging Face folder");
        goto out;
    }
    LS_TRY_OUT(choose_T(o, T, out));
    LS_TRY_OUT(ls_start_tokenizer(&out->start, o->tokenizer, &out->tokenizer));
    LS_TRY_OUT(ls_placement_make(1, (int)o->threads, o->pin, &out->placement));
    LS_TRY_OUT(ls_device_open_cpu(out->placement.threads, ls_placement_cpus(&out->placement, 0), NULL, &out->device));
    int slices = o->slices > 0 ? (int)o->slices : ls_model_default_slices(&out->start.shape);
    LS_TRY_OUT(ls_model_create(&out->start.shape, slices, &out->model));
    ls_layout_task task = {.model = out->model, .B = micro, .T = out->T, .G = 1};
    ls_policy policy;
    LS_TRY_OUT(ls_settings_precision(o, &policy));
    ls_stage_setup setup = {.policy = policy, .B = micro, .T = out->T, .G = 1, .layout = ls_layout_one(&task, micro)};
    LS_TRY_OUT(ls_stage_create(out->model, out->device, &setup, &out->stage));
    LS_TRY_OUT(ls_weights_load_stage(out->start.weights, out->stage));
    return LS_OK;
out:
    ls_one_worker_close(out);
    return status;
}

void ls_one_worker_close(ls_one_worker *one) {
    ls_stage_destroy(one->stage);
    ls_model_destroy(one->model);
    ls_device_destroy(one->device);
    ls_placement_free(&one->placement);
    ls_tokenizer_close(one->tokenizer);
    ls_start_close(&one->start);
    *one = (ls_one_worker){0};
}
