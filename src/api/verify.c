/* verify.c: the steps of a layout beside those of one worker, bit for bit. */
#include "api/run.h"
#include "lab/trial.h"
#include "lab/verify/steps.h"
#include "model/model.h"

/* In workers of its own. */
static ls_status record(const ls_run *r, const ls_layout *layout, ls_verify_record *out) {
    ls_verify_job job = {.steps = out->steps, .record = out};
    ls_trial trial = {.settings = &r->settings,
                      .data = {.corpus = r->corpus,
                               .val_corpus = r->val_corpus,
                               .images = r->images,
                               .val_images = r->val_images,
                               .augment = r->augment},
                      .weights = r->start.weights,
                      .layout = *layout,
                      .threads = (int)r->options.threads,
                      .steps = ls_verify_steps,
                      .ctx = &job};
    return ls_trial_run(&(ls_trial_place){.options = &r->options}, &trial);
}

static ls_status tell_difference(const ls_model *model, const ls_verify_difference *d) {
    static const char *const kinds[] = {[LS_VERIFY_GRADIENT] = "the gradient of",
                                        [LS_VERIFY_LOSS] = "the loss",
                                        [LS_VERIFY_WEIGHT] = "the weight",
                                        [LS_VERIFY_VALIDATION] = "the validation loss"};
    bool has_name = d->kind == LS_VERIFY_GRADIENT || d->kind == LS_VERIFY_WEIGHT;
    return ls_fail(LS_ERR_FAILED, "the layout gives other bits than one worker: %s%s%s differs first, in step %lld",
                   kinds[d->kind], has_name ? " " : "", has_name ? ls_model_param(model, d->param)->name : "",
                   (long long)d->step);
}

static ls_status compare(const ls_run *r, int64_t steps, ls_model *model) {
    ls_verify_record one = {0}, all = {0};
    ls_verify_difference d;
    ls_layout_task task = ls_trainer_task(&r->settings, model);
    ls_layout alone = ls_layout_one(&task, 0);
    ls_status status = LS_OK;
    LS_TRY_OUT(ls_verify_record_open(steps, ls_model_params(model), &one));
    LS_TRY_OUT(ls_verify_record_open(steps, ls_model_params(model), &all));
    LS_TRY_OUT(record(r, &alone, &one));
    LS_TRY_OUT(record(r, &r->layout, &all));
    d = ls_verify_compare(&one, &all);
    if (d.kind != LS_VERIFY_EQUAL) status = tell_difference(model, &d);
out:
    ls_verify_record_close(&one);
    ls_verify_record_close(&all);
    return status;
}

ls_status ls_verify(const ls_run_setup *setup, int64_t steps) {
    ls_run *r = NULL;
    ls_model *model = NULL;
    if (steps < 1 || setup->options->command != LS_COMMAND_TRAIN)
        return ls_fail(LS_ERR_INPUT, "verifying takes the options of train and at least one step");
    LS_TRY(ls_run_open_trial(setup, &r));
    ls_status status = r->launched || !(r->corpus || r->images)
                           ? ls_fail(LS_ERR_INPUT, "a layout is verified without mpirun or srun, on data")
                           : ls_model_create(&r->settings.shape, r->settings.slices, &model);
    if (status == LS_OK) status = compare(r, steps, model);
    ls_model_destroy(model);
    ls_run_close(r);
    return status;
}
