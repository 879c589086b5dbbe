/* one_worker.c: from --model to a stage with weights in it. */
#include "cli/one_worker.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "model/model.h"
#include "run/folder/save.h"
#include "run/settings.h"

static ls_status check_options(const ls_options *o) {
    if (ls_launcher_place().size > 1)
        return ls_fail(LS_ERR_INPUT, "this command runs as one process on all cores: start it without mpirun or srun");
    if (o->trace) return ls_options_fail(o, LS_OPT_trace, "this command writes no trace: leave it out");
    if (!o->model)
        return ls_fail(LS_ERR_INPUT, "--model is missing: name a run, a checkpoint or a Hugging Face folder");
    return LS_OK;
}

static ls_status choose_T(const ls_options *o, size_t T, ls_one_worker *one) {
    size_t positions = one->start.shape.T;
    if (T > positions)
        return ls_options_fail(o, LS_OPT_seq, "%s has %zu positions; use --seq %zu or less", one->start.shape.name,
                               positions, positions);
    one->T = T > 0 ? T : positions < LS_ONE_WORKER_T_MAX ? positions : LS_ONE_WORKER_T_MAX;
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
static ls_status choose_policy(const ls_options *o, ls_one_worker *one) {
    ls_options mine = *o; /* borrows all texts */
    recorded r;
    int was = LS_PLAN_TYPES;
    LS_TRY(read_recorded(one->start.weights, &r));
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
    return ls_settings_precision(&mine, &one->policy);
}

ls_status ls_one_worker_open(const ls_options *o, size_t T, size_t micro, ls_one_worker *out) {
    ls_status status = LS_OK;
    *out = (ls_one_worker){.micro = micro};
    LS_TRY(check_options(o));
    LS_TRY(ls_start_open(o->model, &out->start));
    if (!out->start.weights) {
        status = ls_options_fail(o, LS_OPT_model,
                                 "this is a model's shape without weights; name a run, a checkpoint or a "
                                 "Hugging Face folder");
        goto out;
    }
    LS_TRY_OUT(choose_T(o, T, out));
    if (!ls_shape_sees_images(&out->start.shape))
        LS_TRY_OUT(ls_start_tokenizer(&out->start, o->tokenizer, &out->tokenizer));
    LS_TRY_OUT(ls_placement_make(1, (int)o->threads, o->pin, &out->placement));
    LS_TRY_OUT(ls_device_open_cpu(out->placement.threads, ls_placement_cpus(&out->placement, 0), NULL, &out->device));
    int slices = o->slices > 0 ? (int)o->slices : ls_model_default_slices(&out->start.shape);
    LS_TRY_OUT(ls_model_create(&out->start.shape, slices, &out->model));
    ls_layout_task task = {.model = out->model, .B = micro, .T = out->T, .G = 1};
    LS_TRY_OUT(choose_policy(o, out));
    ls_partition_setup setup = {
        .policy = out->policy, .B = micro, .T = out->T, .G = 1, .layout = ls_layout_one(&task, micro)};
    LS_TRY_OUT(ls_partition_create(out->model, out->device, &setup, &out->partition));
    LS_TRY_OUT(ls_weights_load_partition(out->start.weights, out->partition));
    return LS_OK;
out:
    ls_one_worker_close(out);
    return status;
}

void ls_one_worker_close(ls_one_worker *one) {
    ls_partition_destroy(one->partition);
    ls_model_destroy(one->model);
    ls_device_destroy(one->device);
    ls_placement_free(&one->placement);
    ls_tokenizer_close(one->tokenizer);
    ls_start_close(&one->start);
    *one = (ls_one_worker){0};
}
