/* choose.c: devices by name. */
#include "device/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/log.h"
#include "device/cuda/compile.h"
#include "device/cuda/cuda.h"

static const char cuda[] = "cuda";

/* Parses the name of a GPU: returns 7 for "cuda:7", −1 for "cuda", −2 for any other name. */
static int gpu_number(const char *name) {
    enum { GPUS_MAX = 1024 };
    if (strcmp(name, cuda) == 0) return -1;
    if (strncmp(name, "cuda:", sizeof cuda) != 0 || name[sizeof cuda] < '0' || name[sizeof cuda] > '9') return -2;
    char *end;
    long number = strtol(name + sizeof cuda, &end, 10);
    return *end == '\0' && number < GPUS_MAX ? (int)number : -2;
}

bool ls_device_is_gpu(const char *name) { return name && gpu_number(name) >= -1; }

ls_status (*ls_device_fake)(ls_device **out);

/* Returns whether `name` is "fake" in a test program that has set ls_device_fake. */
static bool is_fake(const char *name) { return ls_device_fake && strcmp(name, "fake") == 0; }

bool ls_device_is_apart(const char *name) { return name && (ls_device_is_gpu(name) || is_fake(name)); }

/* Returns LS_ERR_INPUT for a name that no device has. */
static ls_status refuse_name(const char *name) {
    return ls_fail(LS_ERR_INPUT,
                   "no device is called %.40s; choose auto, cpu, cuda or cuda:N, N the number of a GPU from 0", name);
}

/* Opens GPU `local` modulo the number of GPUs, for "cuda" without a number. */
static ls_status open_gpu_in_turn(int local, ls_device **out) {
    int count;
    LS_TRY(ls_cuda_count(&count));
    return ls_device_open_cuda(local % count, out);
}

ls_status ls_device_open_named(const char *name, int local, ls_device **out) {
    *out = NULL;
    if (strcmp(name, "cpu") == 0) return LS_OK;
    if (is_fake(name)) return ls_device_fake(out);
    int number = gpu_number(name);
    if (number < -1) return refuse_name(name);
    return number < 0 ? open_gpu_in_turn(local, out) : ls_device_open_cuda(number, out);
}

ls_status ls_device_open_dry(const char *name, size_t *align, ls_device **dry) {
    *dry = NULL;
    *align = 0;
    if (!ls_device_is_gpu(name)) return LS_OK;
    LS_TRY(ls_device_open_cuda_dry(dry));
    *align = (*dry)->align;
    return LS_OK;
}

/* The answer of the survey that tried the most GPUs (`opened`) so far; kept for the life of the process. */
static struct {
    bool done;
    int opened;
    ls_status status;
    char message[200];
    ls_gpu_survey survey;
} known;

/* Fills `known` by a survey that tries the first `workers` GPUs, unless an earlier one tried as many. */
static void survey_gpus(int workers) {
    if (known.done && (workers <= known.opened || known.survey.count <= known.opened)) return;
    known.status = ls_cuda_survey(workers, &known.survey);
    known.opened = workers;
    known.done = true;
    (void)snprintf(known.message, sizeof known.message, "%s", known.status == LS_OK ? "" : ls_status_message());
}

/* Writes out->about for GPUs that "auto" has chosen: as many as the workers use, with the properties of the first. */
static void describe_gpus(ls_device_choice *out, int workers) {
    const ls_gpu *gpu = known.survey.gpu;
    int used = workers < known.survey.count ? workers : known.survey.count;
    (void)snprintf(out->about, sizeof out->about, "%d × %s, %zu GiB, compute capability %d.%d (--device auto; %s)",
                   used, gpu->name, gpu->bytes >> 30, gpu->capability / 10, gpu->capability % 10,
                   gpu->kernels == LS_GPU_KERNELS_BUILT_IN ? "kernels built in" : "kernels compiled by NVRTC");
}

/* Returns the unit of GPU `number`, or of all GPUs if it is negative; LS_UNIT_CHAIN if they have none or differ;
 * LS_UNIT_HGMMA if there is no such GPU. */
static ls_unit unit_of_gpus(int number) {
    const ls_gpu_survey *s = &known.survey;
    int first = number < 0 ? 0 : number, end = number < 0 ? s->count : number + 1;
    if (end > LS_GPUS_LISTED) end = LS_GPUS_LISTED;
    ls_unit unit = first < s->count ? ls_cuda_unit_of(s->gpu[first].capability) : LS_UNIT_HGMMA;
    for (int i = first; i < end && i < s->count; i++)
        if (ls_cuda_unit_of(s->gpu[i].capability) != unit) return LS_UNIT_CHAIN;
    return unit;
}

/* ---- units that were not measured -------------------------------------------------------------------------------- */

static const ls_dtype unit_types[LS_UNIT_TYPES] = {LS_BF16, LS_F16};

/* Opens GPU *ctx and compares it for both types into `result`: the function of a child process, because a process that
 * has started the driver can no longer fork workers. */
static ls_status compare_gpu_types(void *ctx, void *result) {
    const int *number = ctx;
    ls_unit_report *reports = result;
    ls_unit unit = ls_cuda_unit_of(known.survey.gpu[*number].capability);
    ls_device *device;
    LS_TRY(ls_device_open_cuda(*number, &device));
    ls_status status = LS_OK;
    for (int i = 0; i < LS_UNIT_TYPES && status == LS_OK; i++)
        status = ls_device_compare_unit(device, unit, unit_types[i], &reports[i]);
    ls_device_destroy(device);
    return status;
}

ls_status ls_device_compare_gpu(int number, void (*tell)(void *ctx, const char *text), void *ctx,
                                ls_unit_report out[LS_UNIT_TYPES]) {
    enum { LIMIT_S = 120 };
    survey_gpus(0);
    if (known.status != LS_OK) return ls_fail(known.status, "%s", known.message);
    if (number >= known.survey.count || number >= LS_GPUS_LISTED)
        return ls_fail_here(LS_ERR_INPUT, "there is no GPU %d here", number);
    int capability = known.survey.gpu[number].capability;
    if (ls_cuda_unit_of(capability) == LS_UNIT_CHAIN)
        return ls_fail_here(LS_ERR_INPUT, "no formula is known of tensor cores of compute capability %d.%d",
                            capability / 10, capability % 10);
    LS_TRY(ls_cuda_kernels_prepare(capability, true, tell, ctx));
    return ls_child_run("the process that compares tensor cores with their formula", LIMIT_S, compare_gpu_types,
                        &number, out, LS_UNIT_TYPES * sizeof *out);
}

/* Returns whether a GPU computes by the published formula. If not, or if the comparison fails, logs why. Compares a GPU
 * only once in this process. */
static bool is_by_formula(int number) {
    static bool is_known[LS_GPUS_LISTED], is_right[LS_GPUS_LISTED];
    ls_unit_report found[LS_UNIT_TYPES];
    if (is_known[number]) return is_right[number];
    is_known[number] = true;
    ls_status status = ls_device_compare_gpu(number, NULL, NULL, found); /* progress goes to the log */
    is_right[number] = status == LS_OK;
    if (status != LS_OK) ls_log_warn("matrix unit chain, without tensor cores: %s", ls_status_message());
    for (int i = 0; i < LS_UNIT_TYPES && is_right[number]; i++) {
        if (!found[i].different) continue;
        is_right[number] = false;
        ls_log_warn("matrix unit chain, without tensor cores: those of GPU %d do not compute by the formula of %s: %s: "
                    "%s",
                    number, ls_unit_name(ls_cuda_unit_of(known.survey.gpu[number].capability)),
                    ls_dtype_word(unit_types[i]), found[i].first);
    }
    return is_right[number];
}

/* Returns whether GPU `number`, or all GPUs if it is negative, compute by their formulas. Trusts the measured
 * capability, and compares only the first of neighbouring GPUs of the same capability: each worker compares its own GPU
 * anyway. */
static bool are_by_formula(int number) {
    const ls_gpu_survey *s = &known.survey;
    int first = number < 0 ? 0 : number, end = number < 0 ? s->count : number + 1, last = -1;
    if (end > LS_GPUS_LISTED) end = LS_GPUS_LISTED;
    for (int i = first; i < end && i < s->count; i++) {
        if (s->gpu[i].capability == LS_CUDA_MEASURED_CAPABILITY || s->gpu[i].capability == last) continue;
        last = s->gpu[i].capability;
        if (!is_by_formula(i)) return false;
    }
    return true;
}

ls_unit ls_device_default_unit(const char *name) {
    bool is_auto = strcmp(name, "auto") == 0;
    if ((!is_auto && !ls_device_is_gpu(name)) || (is_auto && !ls_cuda_is_installed())) return LS_UNIT_CHAIN;
    survey_gpus(is_auto ? 1 : 0);
    if (known.status != LS_OK) return is_auto ? LS_UNIT_CHAIN : LS_UNIT_HGMMA;
    int number = is_auto ? -1 : gpu_number(name);
    ls_unit unit = unit_of_gpus(number);
    return unit == LS_UNIT_CHAIN || are_by_formula(number) ? unit : LS_UNIT_CHAIN;
}

/* Chooses for "auto": "cuda" if the survey succeeded and `unit` is chain or the unit of all GPUs, else "cpu". Sets
 * out->about in both cases, except where there is no GPU or no CUDA. */
static void choose_auto(int workers, ls_unit unit, ls_device_choice *out) {
    (void)snprintf(out->name, sizeof out->name, "cpu");
    if (!ls_cuda_is_installed()) return;
    survey_gpus(workers);
    if (known.status != LS_OK) {
        if (!known.survey.none) (void)snprintf(out->about, sizeof out->about, "CPU, not a GPU: %s", known.message);
        return;
    }
    if (unit != LS_UNIT_CHAIN && unit != unit_of_gpus(-1)) {
        (void)snprintf(out->about, sizeof out->about, "CPU, not a GPU: GPUs have no matrix unit %s",
                       ls_unit_name(unit));
        return;
    }
    (void)snprintf(out->name, sizeof out->name, "%s", cuda);
    describe_gpus(out, workers);
}

ls_status ls_device_choose(const char *name, int workers, ls_unit unit, ls_device_choice *out) {
    *out = (ls_device_choice){0};
    if (strcmp(name, "auto") == 0) {
        choose_auto(workers, unit, out);
        return LS_OK;
    }
    if (strcmp(name, "cpu") != 0 && !ls_device_is_apart(name)) return refuse_name(name);
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    return LS_OK;
}

ls_status ls_device_prepare(const char *name, ls_unit unit, void (*tell)(void *ctx, const char *text), void *ctx) {
    if (!ls_device_is_gpu(name)) return LS_OK;
    survey_gpus(0);
    int number = gpu_number(name), first = number < 0 ? 0 : number;
    int end = number < 0 ? known.survey.count : number + 1;
    if (known.status != LS_OK || end > known.survey.count) return LS_OK;
    if (end > LS_GPUS_LISTED) end = LS_GPUS_LISTED;
    for (int i = first; i < end; i++) {
        int capability = known.survey.gpu[i].capability;
        LS_TRY(ls_cuda_kernels_prepare(capability, unit != LS_UNIT_CHAIN && unit == ls_cuda_unit_of(capability), tell,
                                       ctx));
    }
    return LS_OK;
}
