/* plan.c: plans for programs: layouts as options to train with, and their costs by name. */
#include "api/plan.h"

#include <stdlib.h>
#include <string.h>

#include "run/inputs/layout.h"
#include "run/trainer.h"

static const double memory_share = .9; /* of the machine's, that a run may take */

struct ls_plan {
    int count;
    char *text;
    json_t *layouts; /* of each: what to train with, and what it costs */
};

/* ---- searching --------------------------------------------------------------------------------------------------- */

ls_native_task ls_train_native_task(const ls_settings *s) {
    ls_layout none = {.knobs = ls_knobs_neutral()};
    return (ls_native_task){.shape = s->shape,
                            .slices = s->slices,
                            .setup = ls_trainer_setup(s, &none, 0),
                            .checks_replicas = s->checks_replicas};
}

bool ls_plan_is_native(const ls_options *o, const ls_plan_question *q) {
    return q->measured && q->task.cluster.sites == 1 && !o->stack;
}

ls_status ls_plan_search_native(const ls_options *o, const ls_plan_question *q, ls_settings *settings,
                                ls_native_machine *machine, ls_native_task *task, ls_native_found *out) {
    ls_layout_request request;
    json_t *file = NULL;
    LS_TRY(ls_native_machine_from_json(o->cluster, q->measured, machine));
    LS_TRY(ls_settings_resolve(o, &q->task.shape, settings));
    *task = ls_train_native_task(settings);
    task->memory_bytes = memory_share * machine->memory_bytes;
    LS_TRY(ls_layout_request_from_options(o, &file, &request));
    if (o->gpus > 0 && request.workers == 0) request.workers = (int)o->gpus;
    ls_status status = ls_native_search(machine, task, &request, 0, out);
    json_decref(file);
    return status;
}

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

static ls_status find_native(const ls_options *o, const ls_plan_question *q, json_t *list) {
    typedef struct native {
        ls_settings settings;
        ls_native_machine machine;
        ls_native_task task;
        ls_native_found found;
    } native;
    native *n = malloc(sizeof *n);
    if (!n) return ls_fail(LS_ERR_RESOURCE, "out of memory for a plan");
    ls_status status = ls_plan_search_native(o, q, &n->settings, &n->machine, &n->task, &n->found);
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
        json_array_append_new(list, choice_to_json(ls_knobs_to_json(&c->layout, NULL, NULL, 0), &c->prediction));
    }
    free(found);
    return status;
}

ls_status ls_plan_make(const ls_options *options, ls_plan **out) {
    ls_plan_question question;
    *out = NULL;
    if (options->command != LS_COMMAND_PLAN) return ls_fail(LS_ERR_INPUT, "a plan has the options of plan");
    LS_TRY(ls_plan_question_read(options, &question));
    ls_plan *plan = calloc(1, sizeof *plan);
    ls_status status = LS_OK;
    if (plan) plan->layouts = json_array();
    if (!plan || !plan->layouts)
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a plan");
    else
        status = ls_plan_is_native(options, &question) ? find_native(options, &question, plan->layouts)
                                                       : find_layouts(&question, plan->layouts);
    ls_plan_question_end(&question);
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
