/* verify.c: runs each layout in new workers and compares it with a single worker. */
#include "lab/verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/launch/launcher.h"
#include "comm/world/world.h"
#include "device/choose.h"
#include "lab/verify/journal.h"
#include "run/agree.h"
#include "run/inputs/inputs.h"

/* Bound on workers per GPU: they run one after the other, and each switch takes longer the more there are. */
enum { WORKERS_MAX = 16, GPU_WORKERS_MAX = 8, QUICK_STEPS = 3, STEPS = 10, TEXT_MAX = 256 };

typedef struct session {
    const ls_verify_request *request;
    ls_trial_place place;
    ls_verify_journal journal;
    ls_verify_outcome *out;
    /* The current case. */
    ls_lab_model one;
    ls_trial alone_trial;
    ls_verify_record alone, record; /* of the single worker, and of the current row */
    ls_verify_row *matrix;          /* many layouts, */
    int matrix_rows;
    ls_layout layout; /* or one */
} session;

/* Keeps the first error, with its layout, for the outcome. */
static void note_error(session *s, ls_status status, const char *layout, const char *what) {
    if (s->out->status != LS_OK) return;
    s->out->status = status;
    snprintf(s->out->message, sizeof s->out->message, "%.48s, %.200s: %.250s", s->one.settings.shape.name, layout,
             what);
}

/* Runs a trial whose steps are the job's. */
static ls_status run_trial(const session *s, const ls_trial *trial, ls_verify_job *job) {
    ls_trial with_job = *trial;
    with_job.steps = ls_verify_steps;
    with_job.ctx = job;
    return ls_trial_run(&s->place, &with_job);
}

/* ---- differences: both trials run again up to the step in which they differ, to fetch the tensor ----------------- */

/* Repeats a trial up to a step and copies a tensor out. */
static ls_status fetch_again(const session *s, const ls_trial *trial, int64_t steps, const ls_verify_tensor *tensor) {
    ls_verify_job job = {.steps = steps, .fetch = tensor};
    ls_trial again = *trial;
    again.traced = false;
    if (trial != &s->alone_trial) job.fault = s->request->fault;
    return run_trial(s, &again, &job);
}

/* Writes a sentence about the first element that differs, or that the difference did not come again. */
static void describe_element(const session *s, const ls_verify_difference *d, const ls_param *param, const float *alone,
                             const float *row, char text[TEXT_MAX]) {
    char tensor[128];
    size_t elems = ls_param_elems(param), i = ls_verify_first_element(alone, row, elems);
    bool grad = d->kind == LS_VERIFY_GRADIENT;
    snprintf(tensor, sizeof tensor, "%s %lld, %s %s", grad ? "step" : "after step", (long long)d->step,
             grad ? "gradient of" : "weight", param->name);
    if (i == elems)
        snprintf(text, TEXT_MAX,
                 "%s: differs from one worker, but not when both ran again: the result is not deterministic", tensor);
    else
        snprintf(text, TEXT_MAX, "%s, element %zu: %a (%.9g), with one worker %a (%.9g); %d of %d tensors differ there",
                 tensor, i, (double)row[i], (double)row[i], (double)alone[i], (double)alone[i], d->params,
                 s->alone.params);
}

/* Repeats both trials to find the first element that differs, and describes it. */
static ls_status explain_tensor(const session *s, const ls_trial *trial, const ls_verify_difference *d,
                                char text[TEXT_MAX]) {
    const ls_param *param = ls_model_param(s->one.model, d->param);
    size_t elems = ls_param_elems(param);
    ls_status status = LS_OK;
    float *values = ls_trial_alloc(2 * elems, sizeof *values);
    if (!values) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for two tensors of %zu elements", elems);
    ls_verify_tensor alone = {
        .param = d->param,
        .which = d->kind == LS_VERIFY_GRADIENT ? LS_TENSOR_GRAD : LS_TENSOR_WEIGHT,
        .values = values,
    };
    ls_verify_tensor row = alone;
    row.values = values + elems;
    LS_TRY_OUT(fetch_again(s, &s->alone_trial, d->step, &alone));
    LS_TRY_OUT(fetch_again(s, trial, d->step, &row));
    describe_element(s, d, param, alone.values, row.values, text);
out:
    ls_trial_free(values);
    return status;
}

/* Describes the first difference of all rows for the outcome; later ones are only counted. */
static ls_status explain_difference(session *s, const ls_trial *trial, const ls_verify_difference *d,
                                    const char *layout) {
    char text[TEXT_MAX];
    if (s->out->status != LS_OK) return LS_OK;
    if (d->kind == LS_VERIFY_GRADIENT || d->kind == LS_VERIFY_WEIGHT)
        LS_TRY(explain_tensor(s, trial, d, text));
    else if (d->kind == LS_VERIFY_LOSS)
        snprintf(text, sizeof text, "step %lld, loss %a, with one worker %a, although the gradients are equal",
                 (long long)d->step, s->record.loss[d->step - 1], s->alone.loss[d->step - 1]);
    else
        snprintf(text, sizeof text, "validation loss %a, with one worker %a, although the weights are equal",
                 s->record.totals->validation, s->alone.totals->validation);
    note_error(s, LS_ERR_FAILED, layout, text);
    return LS_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Compares the record of a trial with that of the single worker, and sets the verdict and totals of the result. Only
 * rank 0 of a launcher's workers has the results and sends the verdict to the others. */
static ls_status compare_trial(session *s, const ls_trial *trial, ls_verify_result *result) {
    ls_verify_difference d = {.kind = LS_VERIFY_EQUAL};
    if (ls_trial_is_first(&s->place)) d = ls_verify_compare(&s->alone, &s->record);
    LS_TRY(ls_agree_tell(s->place.world, &d, sizeof d));
    result->totals = *s->record.totals;
    if (d.kind == LS_VERIFY_EQUAL) return LS_OK;
    result->verdict = LS_VERDICT_DIFFERS;
    s->out->different++;
    return explain_difference(s, trial, &d, result->layout);
}

/* Passes a finished row to the request's on_row callback and appends it to the journal, in this order. Does nothing
 * except in the process that prints results. */
static ls_status publish_row(session *s, const ls_verify_result *r) {
    if (!ls_trial_is_first(&s->place)) return LS_OK;
    json_t *row = json_pack("{s:s, s:s, s:s, s:i, s:s, s:f, s:I, s:b, s:b}", "model", s->one.settings.shape.name,
                            "reference", s->alone.totals->weights.text, "layout", r->layout, "workers", r->workers,
                            "weights_xxh128", r->totals.weights.text, "seconds", r->totals.seconds, "traffic_bytes",
                            (json_int_t)r->totals.traffic_bytes, "equal", r->verdict == LS_VERDICT_EQUAL, "failed",
                            r->verdict == LS_VERDICT_FAILED);
    if (!row) return ls_fail(LS_ERR_RESOURCE, "out of memory for a row");
    ls_status status = s->request->on_row(s->request->ctx, r, row);
    if (status == LS_OK) status = ls_verify_journal_add(&s->journal, row);
    json_decref(row);
    return status;
}

/* Runs and compares one layout. A trial that fails is recorded as a failed row, so that the next rows still run; with a
 * launcher's workers it ends the whole call, because they cannot continue after a failure. */
static ls_status run_row(session *s, ls_trial *trial, ls_verify_result *result) {
    ls_verify_job job = {.steps = s->one.steps, .record = &s->record, .fault = s->request->fault};
    trial->traced = true;
    ls_status status = run_trial(s, trial, &job);
    if (status == LS_OK) {
        LS_TRY(compare_trial(s, trial, result));
    } else {
        if (ls_status_is_stop(status) || s->place.world) return status;
        result->verdict = LS_VERDICT_FAILED;
        s->out->failed++;
        note_error(s, status, result->layout, ls_status_message());
    }
    s->out->rows++;
    return publish_row(s, result);
}

/* Sets *done to whether the journal already has this layout. Collective: only rank 0 of a launcher's workers reads the
 * journal. */
static ls_status look_up_row(session *s, const char *layout, bool *done) {
    *done = ls_verify_journal_has(&s->journal, s->one.settings.shape.name, s->alone.totals->weights.text, layout);
    s->out->before += *done;
    return ls_agree_tell(s->place.world, done, sizeof *done);
}

/* Tells the request's on_start callback which layout comes next. */
static void report_row(const session *s, int row, int rows, const char *layout) {
    const ls_verify_request *r = s->request;
    if (r->on_start && ls_trial_is_first(&s->place)) r->on_start(r->ctx, s->one.settings.shape.name, row, rows, layout);
}

/* Appends to the text of a layout what ls_layout_text() omits: the schedule of a single stage, and options that are not
 * part of a layout. */
static void append_rest(const ls_verify_row *row, char text[LS_VERIFY_LAYOUT_MAX]) {
    size_t used = strlen(text);
    bool one_stage = row->knobs.pp == 1;
    snprintf(text + used, LS_VERIFY_LAYOUT_MAX - used, "%s%s, %s, %d thread%s", one_stage ? ", " : "",
             one_stage ? ls_schedule_kind_name(row->knobs.schedule) : "", ls_trial_isa_name(row->isa), row->threads,
             row->threads == 1 ? "" : "s");
}

/* Makes the layout of a row and runs it, unless the journal has it. `number` counts from 1. */
static ls_status run_matrix_row(session *s, const ls_verify_row *row, int number) {
    bool done;
    ls_layout layout;
    ls_verify_result result = {.workers = row->knobs.dp * row->knobs.tp * row->knobs.pp};
    LS_TRY(ls_verify_row_layout(row, &s->one.task, &layout));
    ls_trial trial = ls_trial_make(&s->one, &layout, row->threads);
    trial.isa = row->isa;
    ls_layout_text(&layout, result.layout, sizeof result.layout);
    append_rest(row, result.layout);
    LS_TRY(look_up_row(s, result.layout, &done));
    if (done) return LS_OK;
    report_row(s, number, s->matrix_rows, result.layout);
    return run_row(s, &trial, &result);
}

/* Makes the rows for the case; under a launcher only those with its number of workers. */
static ls_status make_matrix(session *s) {
    const ls_verify_request *r = s->request;
    ls_world *world = s->place.world;
    int launched = world ? ls_world_size(world) : 0;
    int most = r->options->device && ls_device_is_gpu(r->options->device) ? GPU_WORKERS_MAX : WORKERS_MAX;
    ls_verify_limits limits = {.workers_min = world ? launched : 1,
                               .workers_max = world ? launched : most,
                               .threads = world ? ls_world_threads(world) : (int)r->options->threads,
                               .seed = (uint64_t)r->options->seed};
    LS_TRY(ls_verify_matrix_make(&s->one.task, r->tier, &limits, &s->matrix, &s->matrix_rows));
    if (s->matrix_rows > 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "no layout of %s uses %d workers: start a different number",
                   s->one.settings.shape.name, launched);
}

/* Makes s->layout, the one layout that the request names. */
static ls_status make_requested_layout(session *s) {
    json_t *file = NULL;
    ls_layout_request request;
    if (s->request->layout) s->layout = *s->request->layout;
    if (s->request->layout) return LS_OK;
    LS_TRY(ls_layout_request_from_options(s->request->options, &file, &request));
    if (s->place.world) request.workers = ls_world_size(s->place.world);
    ls_status status = ls_layout_make(&request, &s->one.task, &s->layout);
    json_decref(file);
    return status;
}

/* Runs the rows of this part: row i belongs to part i mod parts, so that each part has small and large layouts. */
static ls_status run_matrix(session *s) {
    const ls_verify_request *r = s->request;
    for (int i = r->part - 1; i < s->matrix_rows; i += r->parts) LS_TRY(run_matrix_row(s, &s->matrix[i], i + 1));
    return LS_OK;
}

/* Runs the one layout of the request. */
static ls_status run_request(session *s) {
    ls_trial trial = ls_trial_make(&s->one, &s->layout, (int)s->request->options->threads);
    ls_verify_result result = {.workers = ls_layout_workers(&s->layout)};
    ls_layout_text(&s->layout, result.layout, sizeof result.layout);
    return run_row(s, &trial, &result);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

/* Trains the case with one worker, for comparison with the rows. */
static ls_status run_alone(session *s) {
    const ls_verify_request *r = s->request;
    ls_layout one = ls_layout_one(&s->one.task, s->one.settings.B);
    ls_verify_job job = {.steps = s->one.steps, .record = &s->alone};
    s->alone_trial = ls_trial_make(&s->one, &one, (int)r->options->threads);
    report_row(s, 0, 1, "one worker");
    LS_TRY(run_trial(s, &s->alone_trial, &job));
    return r->on_case && ls_trial_is_first(&s->place) ? r->on_case(r->ctx, &s->one, &s->alone) : LS_OK;
}

/* Trains a model with one worker, then under all layouts of the request. */
static ls_status run_case(session *s, const char *name) {
    const ls_verify_request *r = s->request;
    ls_status status = LS_OK;
    if (r->one)
        s->one = *r->one;
    else
        LS_TRY(ls_lab_model_open(r->options, name, r->options->quick ? QUICK_STEPS : STEPS, &s->one));
    int params = ls_model_params(s->one.model);
    LS_TRY_OUT(ls_verify_record_open(s->one.steps, params, &s->alone));
    LS_TRY_OUT(ls_verify_record_open(s->one.steps, params, &s->record));
    LS_TRY_OUT(r->matrix ? make_matrix(s) : make_requested_layout(s));
    LS_TRY_OUT(run_alone(s));
    status = r->matrix ? run_matrix(s) : run_request(s);
out:
    free(s->matrix);
    s->matrix = NULL;
    ls_verify_record_close(&s->alone);
    ls_verify_record_close(&s->record);
    if (!r->one) ls_lab_model_close(&s->one);
    return status;
}

/* Runs the request's model or, without one, each model of the options: the function of every worker of a launcher, or
 * called with `world` NULL. */
static ls_status run_cases(ls_world *world, void *arg) {
    session *s = arg;
    double start = ls_clock_seconds();
    const char *name;
    s->place.world = world;
    if (s->request->one) LS_TRY(run_case(s, NULL));
    for (int i = 0; !s->request->one && ls_lab_model_name(s->request->options, i, &name); i++)
        LS_TRY(run_case(s, name));
    s->out->seconds = ls_clock_seconds() - start;
    return LS_OK;
}

ls_status ls_verify_run(const ls_verify_request *request, ls_verify_outcome *out) {
    session s = {.request = request, .place = {.options = request->options}, .out = out};
    ls_place place = ls_launcher_place();
    ls_workers_options workers;
    *out = (ls_verify_outcome){.status = LS_OK};
    LS_TRY(ls_workers_options_from(request->options, &workers));
    LS_TRY(ls_verify_journal_open(place.rank == 0 ? request->journal : NULL, request->options->resume, &s.journal));
    workers.workers = 0;
    ls_status status = place.size > 0 ? ls_workers_run(&workers, run_cases, &s) : run_cases(NULL, &s);
    ls_verify_journal_close(&s.journal);
    return status;
}
