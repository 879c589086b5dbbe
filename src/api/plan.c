/* plan.c: plans for programs: layouts as options to train with, and their costs by name. */
#include "api/plan.h"

#include <stdlib.h>
#include <string.h>

#include "plan/native/native.h"
#include "run/inputs/inputs.h"

struct ls_plan {
    int count;
    char *text;
    json_t *layouts; /* of each: what to train with, and what it costs */
};

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static json_t *choice_to_json(json_t *layout, const ls_prediction *p) {
    json_t *time = json_object(), *memory = json_object();
    for (int k = 0; k < LS_TIME_KINDS; k++)
        json_object_set_new(time, ls_time_kind_name((ls_time_kind)k), json_real(p->time[k]));
    for (int k = 0; k < LS_MEMORY_KINDS; k++)
        json_object_set_new(memory, ls_memory_kind_name((ls_memory_kind)k), json_real(p->memory[k]));
    return json_pack("{s:o, s:f, s:f, s:f, s:i, s:f, s:o, s:o}", "layout", layout, "seconds", p->seconds,
                     "memory_bytes", p->memory_bytes, "capacity_bytes", p->capacity_bytes, "micro_batches", p->micros,
                     "model_flops", p->model_flops, "time_seconds", time, "memory", memory);
}

/* Of this program, on a machine that was measured. */
typedef struct native {
    ls_settings settings;
    ls_native_machine machine;
    ls_native_found found;
} native;

static ls_status search_native(const ls_options *o, const ls_shape *shape, const json_t *measured, native *n) {
    ls_layout_request request;
    json_t *file = NULL;
    LS_TRY(ls_native_machine_from_json(o->cluster, measured, &n->machine));
    LS_TRY(ls_settings_resolve(o, shape, &n->settings));
    LS_TRY(ls_layout_request_from_options(o, &file, &request));
    if (o->gpus > 0 && request.workers == 0) request.workers = (int)o->gpus;
    ls_native_task task = ls_native_task_of(&n->settings, &n->machine);
    ls_status status = ls_native_search(&n->machine, &task, &request, 0, &n->found);
    json_decref(file);
    return status;
}

static ls_status find_native(const ls_options *o, const ls_shape *shape, const json_t *measured, json_t *list) {
    native *n = malloc(sizeof *n);
    if (!n) return ls_fail(LS_ERR_RESOURCE, "out of memory for a plan");
    ls_status status = search_native(o, shape, measured, n);
    for (int i = 0; status == LS_OK && i < n->found.fitting; i++) {
        const ls_native_choice *c = &n->found.fits[i];
        json_array_append_new(list, choice_to_json(ls_layout_to_json(&c->layout), &c->prediction));
    }
    free(n);
    return status;
}

static ls_status find_layouts(const ls_plan_question *q, json_t *list) {
    ls_plan_found *found = malloc(sizeof *found);
    if (!found) return ls_fail(LS_ERR_RESOURCE, "out of memory for a plan");
    ls_status status = ls_plan_search(&q->task, &q->request, found);
    for (int i = 0; status == LS_OK && i < found->fitting; i++) {
        const ls_plan_choice *c = &found->fits[i];
        json_array_append_new(list, choice_to_json(ls_plan_to_json(&q->task, &c->layout, 0), &c->prediction));
    }
    free(found);
    return status;
}

ls_status ls_plan_make(const ls_options *options, ls_plan **out) {
    ls_plan_question question;
    json_t *measured = NULL;
    *out = NULL;
    if (options->command != LS_COMMAND_PLAN) return ls_fail(LS_ERR_INPUT, "a plan has the options of plan");
    LS_TRY(ls_plan_question_read(options, &question, &measured));
    ls_plan *plan = calloc(1, sizeof *plan);
    ls_status status = LS_OK;
    if (plan) plan->layouts = json_array();
    if (!plan || !plan->layouts)
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a plan");
    else if (measured && question.task.cluster.sites == 1 && !options->stack)
        status = find_native(options, &question.task.shape, measured, plan->layouts);
    else
        status = find_layouts(&question, plan->layouts);
    json_decref(measured);
    if (status == LS_OK) {
        plan->count = (int)json_array_size(plan->layouts);
        plan->text = json_dumps(plan->layouts, JSON_COMPACT);
        if (!plan->text) status = ls_fail(LS_ERR_RESOURCE, "out of memory for the text of a plan");
    }
    if (status == LS_OK)
        *out = plan;
    else
        ls_plan_destroy(plan);
    return status;
}

void ls_plan_destroy(ls_plan *plan) {
    if (!plan) return;
    json_decref(plan->layouts);
    free(plan->text);
    free(plan);
}

int ls_plan_count(const ls_plan *plan) { return plan->count; }

const char *ls_plan_json(const ls_plan *plan) { return plan->text; }

double ls_plan_number(const ls_plan *plan, int index, const char *name) {
    const json_t *choice = index >= 0 ? json_array_get(plan->layouts, (size_t)index) : NULL;
    static const char *const inside[] = {"layout", "time_seconds", "memory"};
    const json_t *value = json_object_get(choice, name);
    for (size_t i = 0; !value && i < sizeof inside / sizeof *inside; i++)
        value = json_object_get(json_object_get(choice, inside[i]), name);
    return json_is_number(value) ? json_number_value(value) : -1;
}

/* A member of a layout is an option of train, by the same name; what other programs have and this one does not is
 * refused. */
ls_status ls_plan_apply(const ls_plan *plan, int index, ls_options *train) {
    json_t *choice = index >= 0 ? json_array_get(plan->layouts, (size_t)index) : NULL, *value;
    const char *name;
    if (!choice) return ls_fail(LS_ERR_INPUT, "the plan has %d layouts: number %d is not there", plan->count, index);
    json_object_foreach(json_object_get(choice, "layout"), name, value) {
        char number[32];
        const char *text = json_is_string(value) ? json_string_value(value) : number;
        if (json_is_boolean(value)) text = json_is_true(value) ? "true" : "false";
        if (json_is_integer(value)) snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        LS_TRY(ls_options_set(train, name, text));
    }
    return LS_OK;
}
