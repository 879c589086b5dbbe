/* cmd_verify_unit.c: `lockstep verify --unit` compares the tensor cores of this machine's GPUs with the formulas of
 * their matrix units, and prints a report. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/print.h"
#include "device/choose.h"
#include "device/cuda/cuda.h"
#include "lockstep.h"

/* Shows a line of progress while kernels are compiled. */
static void show_progress(void *ctx, const char *text) {
    (void)ctx;
    ls_cli_progress("%s", text);
}

/* Returns the report of one GPU as JSON, a new reference; NULL if memory is short. "first" is left out if nothing
 * differs. */
static json_t *make_unit_json(int number, const ls_gpu *gpu, const ls_unit_report found[LS_UNIT_TYPES]) {
    static const char *const types[LS_UNIT_TYPES] = {"bf16", "fp16"};
    json_t *json = json_pack("{s:i, s:s, s:i, s:s, s:b}", "gpu", number, "name", gpu->name, "capability",
                             gpu->capability, "matrix_unit", ls_unit_name(ls_cuda_unit_of(gpu->capability)), "measured",
                             gpu->capability == LS_CUDA_MEASURED_CAPABILITY);
    for (int i = 0; i < LS_UNIT_TYPES; i++)
        json_object_set_new(json, types[i],
                            json_pack("{s:I, s:I, s:s*}", "compared", (json_int_t)found[i].compared, "different",
                                      (json_int_t)found[i].different, "first",
                                      found[i].different ? found[i].first : NULL));
    return json;
}

/* Prints the report of one GPU for people. */
static void print_unit_report(const json_t *json) {
    static const char *const types[LS_UNIT_TYPES] = {"bf16", "fp16"};
    int capability = (int)json_integer_value(json_object_get(json, "capability"));
    printf("GPU %lld: %s, compute capability %d.%d, matrix unit %s, %s\n",
           (long long)json_integer_value(json_object_get(json, "gpu")),
           json_string_value(json_object_get(json, "name")), capability / 10, capability % 10,
           json_string_value(json_object_get(json, "matrix_unit")),
           json_is_true(json_object_get(json, "measured")) ? "whose formula was measured"
                                                           : "whose formula is a published one");
    for (int i = 0; i < LS_UNIT_TYPES; i++) {
        const json_t *type = json_object_get(json, types[i]);
        const char *first = json_string_value(json_object_get(type, "first"));
        printf("  %s: %lld numbers compared, %lld differ%s%s\n", types[i],
               (long long)json_integer_value(json_object_get(type, "compared")),
               (long long)json_integer_value(json_object_get(type, "different")), first ? "; the first: " : "",
               first ? first : "");
    }
}

/* Returns whether a GPU differs from its formula in one of the types. */
static bool has_differences(const ls_unit_report found[LS_UNIT_TYPES]) {
    return found[0].different || found[1].different;
}

/* Compares all GPUs, or the one that --device names (cuda:1). Prints a report of each, or all as JSON at the end, and
 * counts in *different those that differ from their formula. Appends the reports to `list`. */
static ls_status compare_gpus(const ls_options *opts, json_t *list, int *different) {
    ls_gpu_survey survey;
    ls_unit_report found[LS_UNIT_TYPES];
    const char *colon = opts->device ? strchr(opts->device, ':') : NULL;
    int only = colon ? atoi(colon + 1) : -1;
    LS_TRY(ls_cuda_survey(0, &survey));
    for (int i = 0; i < survey.count && i < LS_GPUS_LISTED; i++) {
        if (only >= 0 && i != only) continue;
        LS_TRY(ls_device_compare_gpu(i, show_progress, NULL, found));
        ls_cli_progress_end();
        json_t *json = make_unit_json(i, &survey.gpu[i], found);
        if (!json || json_array_append_new(list, json) != 0) return ls_fail(LS_ERR_RESOURCE, "out of memory for JSON");
        if (!opts->json) print_unit_report(json);
        *different += has_differences(found);
    }
    if (json_array_size(list) == 0) return ls_fail_here(LS_ERR_INPUT, "there is no GPU %d here", only);
    if (!opts->json) return LS_OK;
    return ls_cli_print_json_lines(
        json_pack("{s:s, s:i, s:O}", "version", LS_VERSION, "driver", survey.driver, "gpus", list));
}

ls_status ls_cmd_verify_unit(const ls_options *opts) {
    json_t *list = json_array();
    int different = 0;
    if (!list) return ls_fail(LS_ERR_RESOURCE, "out of memory for JSON");
    if (!opts->json) printf("lockstep %s\n", LS_VERSION);
    ls_status status = compare_gpus(opts, list, &different);
    ls_cli_progress_end();
    json_decref(list);
    if (status != LS_OK || !different) return status;
    return ls_fail(
        LS_ERR_FAILED,
        "%d GPU%s not compute by the formula of the matrix unit, and runs there use chain: please report this",
        different, different == 1 ? " does" : "s do");
}
