/* explain.c: runs two layouts again up to the step in which they differ, and fetches the tensor. */
#include "cli/verify/explain.h"

#include <stdio.h>
#include <sys/mman.h>

static ls_status run_again(const ls_verify_place *place, const ls_verify_order *order, int64_t steps,
                           const ls_verify_tensor *fetch) {
    ls_verify_order again = *order;
    again.job.steps = steps;
    again.job.record = NULL;
    again.job.fetch = fetch;
    again.traced = false;
    return ls_verify_run(place, &again);
}

/* A gradient of the first of a number of tensors, or a weight. */
static void name_tensor(const ls_verify_pair *pair, const ls_param *param, char *text, size_t room) {
    const ls_verify_difference *d = &pair->difference;
    bool grad = d->kind == LS_VERIFY_GRADIENT;
    snprintf(text, room, "%s %lld, %s %s", grad ? "step" : "after step", (long long)d->step,
             grad ? "gradient of" : "weight", param->name);
}

static void say_element(const ls_verify_pair *pair, const ls_param *param, const float *alone, const float *row,
                        char text[LS_VERIFY_TEXT_MAX]) {
    char tensor[128];
    size_t elems = ls_param_elems(param), i = ls_verify_first_element(alone, row, elems);
    name_tensor(pair, param, tensor, sizeof tensor);
    if (i == elems)
        snprintf(text, LS_VERIFY_TEXT_MAX,
                 "%s: differs from one worker, but not when both ran again: the result is not deterministic", tensor);
    else
        snprintf(text, LS_VERIFY_TEXT_MAX,
                 "%s, element %zu: %a (%.9g), with one worker %a (%.9g); %d of %d tensors differ there", tensor, i,
                 (double)row[i], (double)row[i], (double)alone[i], (double)alone[i], pair->difference.params,
                 pair->alone_record->params);
}

static ls_status explain_tensor(const ls_verify_place *place, const ls_verify_pair *pair,
                                char text[LS_VERIFY_TEXT_MAX]) {
    const ls_verify_difference *d = &pair->difference;
    const ls_param *param = ls_model_param(pair->one->model, d->param);
    size_t elems = ls_param_elems(param), bytes = 2 * elems * sizeof(float);
    ls_status status = LS_OK;
    float *values = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (values == MAP_FAILED)
        return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for two tensors of %zu elements", elems);
    ls_verify_tensor alone = {
        .param = d->param,
        .which = d->kind == LS_VERIFY_GRADIENT ? LS_TENSOR_GRAD : LS_TENSOR_WEIGHT,
        .values = values,
    };
    ls_verify_tensor row = alone;
    row.values = values + elems;
    LS_TRY_OUT(run_again(place, pair->alone, d->step, &alone));
    LS_TRY_OUT(run_again(place, pair->row, d->step, &row));
    say_element(pair, param, alone.values, row.values, text);
out:
    munmap(values, bytes);
    return status;
}

ls_status ls_verify_explain(const ls_verify_place *place, const ls_verify_pair *pair, char text[LS_VERIFY_TEXT_MAX]) {
    const ls_verify_difference *d = &pair->difference;
    if (d->kind == LS_VERIFY_GRADIENT || d->kind == LS_VERIFY_WEIGHT) return explain_tensor(place, pair, text);
    if (d->kind == LS_VERIFY_LOSS)
        snprintf(text, LS_VERIFY_TEXT_MAX, "step %lld, loss %a, with one worker %a, although the gradients are equal",
                 (long long)d->step, pair->row_record->loss[d->step - 1], pair->alone_record->loss[d->step - 1]);
    else
        snprintf(text, LS_VERIFY_TEXT_MAX, "validation loss %a, with one worker %a, although the weights are equal",
                 pair->row_record->totals->validation, pair->alone_record->totals->validation);
    return LS_OK;
}
