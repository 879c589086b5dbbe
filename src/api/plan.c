/* plan.c: finds layouts for a cluster of chips, or for this program on a machine that was measured (a native plan), and
 * measures machines: ls_plan_make(), ls_probe() and --auto-layout. */
#include "api/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "data/text/cache_folder.h"
#include "device/choose.h"
#include "comm/launch/launcher.h"
#include "run/inputs/inputs.h"

/* ---- a machine that was measured --------------------------------------------------------------------------------- */

/* Replaces plan->machine, which describes the CPUs, by the description of its GPUs; fails if the file has none. */
static ls_status use_gpus(ls_plan *plan) {
    ls_native_machine *gpus = malloc(sizeof *gpus);
    if (!gpus) return ls_fail(LS_ERR_RESOURCE, "out of memory for the figures of a machine");
    ls_status status = ls_native_on_gpus(&plan->machine, gpus);
    if (status == LS_OK) plan->machine = *gpus;
    free(gpus);
    return status;
}

/* Resolves into plan->settings what train would use on the measured machine: its GPUs with their matrix unit (the
 * instructions that multiply 16-bit matrices), if the file has them and --device does not exclude them; otherwise its
 * CPUs. */
static ls_status resolve_settings(ls_plan *plan) {
    ls_options own = *plan->options;
    ls_device_choice chosen = {0};
    bool is_auto = strcmp(own.device, "auto") == 0;
    if (!is_auto)
        LS_TRY(ls_options_blame(&own, LS_OPT_device, ls_device_choose(own.device, 1, LS_UNIT_CHAIN, &chosen)));
    bool on_gpus = is_auto ? plan->machine.gpu.rates.workers > 0 : ls_device_is_gpu(own.device);
    if (on_gpus) LS_TRY(ls_options_blame(&own, LS_OPT_device, use_gpus(plan)));
    if (on_gpus && !(plan->machine.gpu.unit_flops_per_second > 0)) {
        own.matrix_unit = LS_UNIT_CHAIN;
        own.source[LS_OPT_matrix_unit].origin = LS_ORIGIN_FLAG;
    }
    own.device = on_gpus ? "cuda" : "cpu";
    return ls_settings_resolve(&own, &plan->question.task.shape, &plan->settings);
}

/* Searches layouts for this program on the machine of the figures `measured`, into plan->found. */
static ls_status search_native(ls_plan *plan, const json_t *measured) {
    const ls_options *o = plan->options;
    ls_layout_request request;
    json_t *file = NULL;
    if (o->robust)
        return ls_options_fail(o, LS_OPT_robust,
                               "does not apply to a measured machine: its workers share one memory, and no link can "
                               "be slower than it was measured");
    LS_TRY(ls_native_machine_from_json(o->cluster, measured, &plan->machine));
    LS_TRY(resolve_settings(plan));
    LS_TRY(ls_layout_request_from_options(o, &file, &request));
    if (o->gpus > 0 && request.workers == 0) request.workers = (int)o->gpus;
    ls_native_task task = ls_native_task_of(&plan->settings, &plan->machine);
    ls_status status = ls_native_search(&plan->machine, &task, &request, 0, &plan->found);
    json_decref(file);
    return status;
}

/* Reads the file of this machine's figures into plan->machine, measuring first if it is missing, old or --probe-again.
 * Under a launcher it must have been measured, because its workers can be joined only once, for training. */
static ls_status get_machine(ls_plan *plan, ls_plan_say say, void *ctx) {
    const char *device = plan->settings.options.device;
    ls_probe_options probe = {.no_pin = !plan->options->pin, .device = device, .say = say, .ctx = ctx};
    bool on_gpus = ls_device_is_gpu(device);
    char path[PATH_MAX];
    if (ls_launcher_place().size == 0)
        return ls_probe_file_get(&probe, plan->options->probe_again, &plan->machine, &plan->measured_now);
    LS_TRY(ls_probe_file_path(path));
    if (!ls_file_exists(path) || ls_probe_file_read(path, &plan->machine) != LS_OK ||
        !ls_probe_is_current(&plan->machine) || (on_gpus && !ls_probe_gpu_is_current(device, &plan->machine.gpu)))
        return ls_fail(LS_ERR_INPUT, "--auto-layout: this machine has not been measured yet; run lockstep probe "
                                     "first, without mpirun or srun");
    return LS_OK;
}

ls_status ls_plan_complete(const ls_options *options, const ls_settings *settings, ls_plan_say say, void *ctx,
                           ls_layout_request *request, ls_plan **out) {
    ls_plan *plan = *out = calloc(1, sizeof *plan);
    const char *device = settings->options.device;
    if (!plan) return ls_fail(LS_ERR_RESOURCE, "out of memory for the figures of a machine");
    plan->options = options;
    plan->is_native = true;
    plan->settings = *settings;
    if (ls_device_is_gpu(device)) LS_TRY(ls_options_blame(options, LS_OPT_device, ls_probe_gpu_check(device)));
    LS_TRY(get_machine(plan, say, ctx));
    if (ls_device_is_gpu(device)) {
        if (!plan->measured_now) LS_TRY(ls_probe_gpu_refresh(device, &plan->machine.gpu));
        LS_TRY(use_gpus(plan));
    }
    return ls_native_complete(&plan->machine, settings, request, &plan->found);
}

ls_status ls_plan_probe(const ls_options *o, ls_plan_say say, char path[PATH_MAX], ls_native_machine *machine,
                        bool *first) {
    enum { QUICK_SECONDS = 3 };
    ls_probe_options probe = {
        .seconds = o->quick ? QUICK_SECONDS : 0, .workers = (int)o->workers, .no_pin = !o->pin, .say = say};
    LS_TRY(ls_options_expect(o, LS_COMMAND_PROBE, "ls_probe"));
    if (!o->out) LS_TRY(ls_probe_file_path(path));
    if (o->out && snprintf(path, PATH_MAX, "%s", o->out) >= PATH_MAX)
        return ls_options_fail(o, LS_OPT_out, "the name is too long");
    ls_status status = ls_file_can_write(path);
    if (status != LS_OK) return o->out ? status : ls_cache_folder_advise(status);
    ls_device_choice chosen;
    LS_TRY(ls_options_blame(o, LS_OPT_device, ls_device_choose(o->device, 1, LS_UNIT_CHAIN, &chosen)));
    probe.device = chosen.name;
    if (ls_device_is_gpu(chosen.name)) LS_TRY(ls_options_blame(o, LS_OPT_device, ls_probe_gpu_check(chosen.name)));
    LS_TRY(ls_probe_run(&probe, machine, first));
    return *first ? ls_probe_file_write(path, machine) : LS_OK;
}

ls_status ls_probe(const ls_options *o) {
    ls_native_machine *machine = malloc(sizeof *machine);
    char path[PATH_MAX];
    bool first;
    if (!machine) return ls_fail(LS_ERR_RESOURCE, "out of memory for the figures of a machine");
    ls_status status = ls_plan_probe(o, NULL, path, machine, &first);
    free(machine);
    return status;
}

/* ---- any cluster ------------------------------------------------------------------------------------------------- */

/* Fails with LS_ERR_INPUT if a flag gives an option that only this program has, for a plan of other programs. */
static ls_status refuse_native(const ls_options *o) {
    static const ls_option_id own[] = {LS_OPT_device, LS_OPT_slices, LS_OPT_groups, LS_OPT_dropout};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (o->source[own[i]].origin == LS_ORIGIN_FLAG)
            return ls_options_fail(o, own[i],
                                   "applies only to a file of lockstep probe, for which this program is planned; leave "
                                   "it out");
    return LS_OK;
}

/* Answers the question of ls_plan_make(): for this program if --cluster is one file of probe's and --stack is not
 * given; otherwise for a cluster of chips. */
static ls_status find_layouts(ls_plan *plan) {
    json_t *measured = NULL;
    LS_TRY(ls_plan_question_read(plan->options, &plan->question, &measured));
    plan->is_native = measured && plan->question.task.cluster.sites == 1 && !plan->options->stack;
    ls_status status = plan->is_native ? search_native(plan, measured) : refuse_native(plan->options);
    if (status == LS_OK && !plan->is_native) status = ls_plan_answer_find(&plan->question, &plan->answer);
    json_decref(measured);
    return status;
}

ls_status ls_plan_make(const ls_options *options, ls_plan **out) {
    *out = NULL;
    LS_TRY(ls_options_expect(options, LS_COMMAND_PLAN, "ls_plan_make"));
    ls_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return ls_fail(LS_ERR_RESOURCE, "out of memory for a plan");
    plan->options = options;
    ls_status status = find_layouts(plan);
    if (status == LS_OK)
        *out = plan;
    else
        ls_plan_destroy(plan);
    return status;
}

void ls_plan_destroy(ls_plan *plan) {
    if (!plan) return;
    json_decref(plan->json);
    free(plan->text);
    free(plan);
}

/* ---- by name ----------------------------------------------------------------------------------------------------- */

int ls_plan_count(const ls_plan *plan) { return plan->is_native ? plan->found.fitting : plan->answer.found.fitting; }

const char *ls_plan_json(ls_plan *plan) {
    json_t *json;
    if (plan->text || ls_plan_whole_json(plan, &json) != LS_OK) return plan->text;
    plan->text = json_dumps(json, JSON_COMPACT);
    return plan->text;
}

/* Returns the JSON of layout `index`, borrowed from the plan; NULL if there is none, or memory is short. */
static const json_t *find_choice(ls_plan *plan, int index) {
    json_t *all;
    if (index < 0 || ls_plan_whole_json(plan, &all) != LS_OK) return NULL;
    if (plan->is_native) return json_array_get(json_object_get(all, "layouts"), (size_t)index);
    if (index == 0) return json_object_get(all, "best");
    return json_array_get(json_object_get(all, "runners_up"), (size_t)index - 1);
}

double ls_plan_number(ls_plan *plan, int index, const char *name) {
    static const char *const inside[] = {"layout", "time_seconds", "memory"};
    const json_t *choice = find_choice(plan, index), *value = json_object_get(choice, name);
    for (size_t i = 0; !value && i < sizeof inside / sizeof *inside; i++)
        value = json_object_get(json_object_get(choice, inside[i]), name);
    return json_is_number(value) ? json_number_value(value) : -1;
}

json_t *ls_plan_layout_json(const ls_plan *plan, int index) {
    if (plan->is_native) return ls_layout_to_json(&plan->found.fits[index].layout);
    const ls_plan_choice *robust = &plan->answer.sensitivity.robust;
    bool is_robust = index == 0 && plan->options->robust && robust->prediction.seconds > 0;
    return ls_plan_to_json(&plan->answer.task, is_robust ? &robust->layout : &plan->answer.found.fits[index].layout, 0);
}

/* Sets each member of a layout as the option of train with its name; a member that train lacks is refused. */
static ls_status apply_members(json_t *layout, ls_options *train) {
    const char *name;
    json_t *value;
    json_object_foreach(layout, name, value) {
        char number[32];
        const char *text = json_is_string(value) ? json_string_value(value) : number;
        if (json_is_boolean(value)) text = json_is_true(value) ? "true" : "false";
        if (json_is_integer(value)) snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        LS_TRY(ls_options_set(train, name, text));
    }
    return LS_OK;
}

ls_status ls_plan_apply(const ls_plan *plan, int index, ls_options *train) {
    if (index < 0 || index >= ls_plan_count(plan))
        return ls_fail(LS_ERR_INPUT, "the plan has %d layouts: number %d is not there", ls_plan_count(plan), index);
    json_t *layout = ls_plan_layout_json(plan, index);
    if (!layout) return ls_fail(LS_ERR_RESOURCE, "out of memory for a layout");
    ls_status status = apply_members(layout, train);
    json_decref(layout);
    return status;
}
