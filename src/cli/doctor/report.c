/* report.c: prints the verdict, evidence, consequences, workers, first change to make, and what was not recorded. */
#include "cli/doctor/report.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/print.h"
#include "plan/hardware/machine.h"

enum { COLUMNS = 118 };

/* Returns the number of UTF-8 characters in `bytes` bytes. */
static int count_characters(const char *text, size_t bytes) {
    int width = 0;
    for (size_t i = 0; i < bytes; i++) width += ((unsigned char)text[i] & 0xC0) != 0x80;
    return width;
}

/* Prints `first` and then the text, in lines of COLUMNS characters. Further lines are indented to the start of the
 * text. */
static void print_wrapped(const char *first, const char *text) {
    int indent = count_characters(first, strlen(first)), column = indent;
    printf("%s", first);
    for (bool begins = true; *text; begins = false) {
        size_t bytes = strcspn(text, " ");
        int width = count_characters(text, bytes);
        if (!begins && column + 1 + width > COLUMNS) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (!begins) {
            printf(" ");
            column++;
        }
        printf("%.*s", (int)bytes, text);
        column += width;
        text += bytes + (text[bytes] == ' ');
    }
    printf("\n");
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* Returns the achieved share of the peak in the data sheet of the run's GPUs; 0 if it is not known. */
static double datasheet_share(const ls_run_log_device *device, const ls_gpu_usage *gpu) {
    bool is_16 = strcmp(device->precision, "fp32") != 0;
    double sheet = device->gpus * ls_chip_datasheet_flops(device->gpu, is_16);
    return sheet > 0 && gpu->mfu > 0 ? gpu->mfu * device->peak_flops_s / sheet : 0;
}

/* Prints GPUs, MFU, and whether the GPU or the host waited; nothing for a run on CPUs. */
static void print_device(const ls_run_log *run, const ls_gpu_usage *gpu) {
    const ls_run_log_device *device = &run->device;
    double share = datasheet_share(device, gpu);
    if (!device->is_gpu) return;
    printf("device: %d × %s, %s, matrix unit %s\n", device->gpus > 0 ? device->gpus : 1,
           device->gpu[0] ? device->gpu : "GPU", device->precision, device->unit);
    if (gpu->mfu > 0) {
        printf("  MFU %.1f %% of the %.4g TFLOP/s that were measured at the start", 100 * gpu->mfu,
               1e-12 * device->peak_flops_s);
        if (share > 0) printf(", %.1f %% of the data sheet's", 100 * share);
        printf("; mean of %zu step%s\n", gpu->steps, gpu->steps == 1 ? "" : "s");
    }
    if (isfinite(gpu->waits)) {
        printf("  the host had launched all kernels and waited for the GPU for %.0f %% of a step\n", 100 * gpu->waits);
    } else {
        printf("  whether the GPU waited for the host was not recorded\n");
    }
    if (isfinite(gpu->idle))
        printf("  the GPU was idle between kernels for %.1f %% of a traced step\n", 100 * gpu->idle);
    if (gpu->action[0]) print_wrapped("  ", gpu->action);
}

/* Prints the first lines: run, steps, precision, layout, device. */
static void print_run(const char *name, const ls_run_log *run, const ls_diagnosis *d) {
    const char *precision = ls_run_log_option_get(run, "precision");
    char shown[PATH_MAX];
    printf("%s: ", ls_cli_visible(name, shown, sizeof shown));
    if (d->steps == 0) {
        printf("no steps");
    } else {
        printf("steps %lld to %lld", (long long)d->first_step, (long long)d->last_step);
        if (d->planned_steps > d->last_step) printf(" of %lld", (long long)d->planned_steps);
    }
    if (precision) printf(", %s", precision);
    if (run->dp > 0) printf(", dp %d × tp %d × pp %d", run->dp, run->tp, run->pp);
    printf("\n");
    print_device(run, &d->gpu);
    printf("\n");
}

/* Prints where a finding is: cause, steps, worker, gradient group, block, tensor, as far as known. */
static void print_place(const ls_finding *f) {
    printf("  %s, step %lld", ls_cause_name(f->cause), (long long)f->step);
    if (f->last_step > f->step) printf(" to %lld", (long long)f->last_step);
    if (f->onset < f->step) printf(", first sign at step %lld", (long long)f->onset);
    if (f->worker != LS_RUN_NONE) printf(", worker %d", f->worker);
    if (f->group != LS_RUN_NONE) printf(", group %d", f->group);
    if (f->block[0]) printf(", block %s", f->block);
    if (f->tensor[0]) printf(", tensor %s", f->tensor);
    printf("\n");
}

/* Prints the verdict with the place and evidence of the first finding. */
static void print_verdict(const ls_diagnosis *d) {
    switch (d->verdict) {
    case LS_VERDICT_CLEAN: printf("verdict: no problem found in %zu steps\n", d->steps); return;
    case LS_VERDICT_NOT_ENOUGH:
        printf("verdict: not enough recorded data%s%s\n", d->cause_count > 0 ? " to find the cause: " : "",
               d->cause_count > 0 ? d->finding[0].title : "");
        break;
    case LS_VERDICT_CAUSE: print_wrapped("verdict: ", d->finding[0].title); break;
    }
    if (d->cause_count == 0) return;
    print_place(&d->finding[0]);
    if (d->finding[0].evidence_count > 0) printf("\nevidence\n");
    for (int i = 0; i < d->finding[0].evidence_count; i++) print_wrapped("  - ", d->finding[0].evidence[i]);
}

/* Prints what followed from the cause, by step. */
static void print_followed(const ls_diagnosis *d) {
    if (d->followed_count > 0) printf("\nconsequences\n");
    for (int i = 0; i < d->followed_count; i++) {
        char step[32];
        snprintf(step, sizeof step, "  step %-8lld ", (long long)d->followed[i].step);
        print_wrapped(step, d->followed[i].text);
    }
}

/* Prints a number with its unit in a column; "-" if it is not finite, which means not recorded. */
static void print_cell(int decimals, double x, const char *unit) {
    if (isfinite(x))
        printf(" %*.*f%s", 11 - (int)strlen(unit), decimals, x, unit);
    else
        printf(" %11s", "-");
}

/* Returns whether the slowest worker computes clearly longer than the mean. */
static bool is_slower(const ls_usage *u) {
    double all = 0;
    for (int r = 0; r < u->workers; r++) all += u->worker[r].busy_ms;
    return u->worker[u->slowest].busy_ms * u->workers > 1.05 * all;
}

/* Prints a row for each worker: time computing and waiting, time relative to its peers, and in how many steps it was
 * the slowest. */
static void print_workers(const ls_usage *u) {
    char time[LS_SPELL_MAX];
    if (u->workers == 0) return;
    printf("\nworkers, mean of %zu step%s%s\n", u->steps, u->steps == 1 ? "" : "s", u->of_trace ? " of the trace" : "");
    printf("  %-7s %11s %11s %11s %11s %11s\n", "worker", "computes", "waits", "busy", "to peers", "slowest in");
    for (int r = 0; r < u->workers; r++) {
        const ls_usage_worker *w = &u->worker[r];
        printf("  %-7d %8.1f ms", r, w->busy_ms);
        print_cell(1, w->wait_ms, " ms");
        print_cell(1, 100 * w->busy, " %");
        print_cell(2, w->relative, "");
        printf(" %5zu step%s\n", w->slowest, w->slowest == 1 ? "" : "s");
    }
    printf("  worker %d is the slowest", u->slowest);
    /* If all workers compute equally long, the others do not wait for the slowest one. */
    if (isfinite(u->waited_ms))
        printf("; the others waited %s in total%s", ls_spell(u->waited_ms / 1e3, time), is_slower(u) ? " for it" : "");
    if (isfinite(u->busy)) printf("; on average workers are busy %.1f %% of the time", 100 * u->busy);
    printf("\n");
}

/* Prints the share of a step that each use of time took; omits shares below 0.1 %, except that of computing. */
static void print_use(const ls_utilisation *u) {
    if (u->steps == 0) return;
    printf("\nwhere the time went, mean of %zu step%s of %.1f ms%s\n", u->steps, u->steps == 1 ? "" : "s", u->step_ms,
           u->workers > 1 && !u->net_is_known ? " (network time is estimated from waiting)" : "");
    for (int k = 0; k < LS_USES; k++)
        if (k == LS_USE_COMPUTING || u->share[k] >= .001)
            printf("  %-26s %5.1f %%\n", ls_use_name((ls_use)k), 100 * u->share[k]);
}

/* Prints the advice of each cause, the first one first. */
static void print_actions(const ls_diagnosis *d) {
    bool any = false;
    for (int i = 0; i < d->cause_count; i++) {
        if (!d->finding[i].action[0]) continue;
        if (!any) printf("\nwhat to change\n");
        print_wrapped(i == 0 ? "  " : "  then: ", d->finding[i].action);
        any = true;
    }
}

/* Prints findings that are not causes, and the gradient noise scale. */
static void print_notes(const ls_run_log *run, const ls_diagnosis *d) {
    bool any = false;
    for (int i = d->cause_count; i < d->finding_count; i++) {
        if (!any) printf("\nalso observed\n");
        print_wrapped("  - ", d->finding[i].title);
        any = true;
    }
    if (run->noise.step == LS_RUN_NONE || !(run->noise.scale_sequences > 0)) return;
    if (!any) printf("\nalso observed\n");
    printf("  - gradient noise scale at step %lld: %.3g sequences; larger batches have diminishing returns\n",
           (long long)run->noise.step, run->noise.scale_sequences);
}

/* Prints what the diagnosis lacked because the run did not record it. */
static void print_missing(const ls_diagnosis *d) {
    if (d->missing_count > 0) printf("\nnot recorded\n");
    for (int i = 0; i < d->missing_count; i++) print_wrapped("  - ", d->missing[i]);
}

void ls_doctor_print(const char *name, const ls_run_log *run, const ls_diagnosis *d) {
    print_run(name, run, d);
    print_verdict(d);
    print_followed(d);
    print_workers(&d->usage);
    print_use(&d->use);
    print_actions(d);
    print_notes(run, d);
    print_missing(d);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Returns a new number, or null for LS_RUN_NONE. */
static json_t *step_json(int64_t step) { return step == LS_RUN_NONE ? json_null() : json_integer((json_int_t)step); }
/* Returns a new number, or null for LS_RUN_NONE. */
static json_t *rank_json(int rank) { return rank == LS_RUN_NONE ? json_null() : json_integer(rank); }
/* Returns a new text, or null for "". */
static json_t *text_json(const char *text) { return text[0] ? json_string(text) : json_null(); }

/* Returns line i of a finding's evidence as a new text. A callback of ls_cli_json_list(). */
static json_t *evidence_json(const void *finding, int i) {
    return json_string(((const ls_finding *)finding)->evidence[i]);
}

/* Returns finding i of the diagnosis as a new object. A callback of ls_cli_json_list(). */
static json_t *finding_json(const void *diagnosis, int i) {
    const ls_finding *f = &((const ls_diagnosis *)diagnosis)->finding[i];
    return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o}", "cause",
                     ls_cause_name(f->cause), "note", f->is_note, "onset", step_json(f->onset), "step",
                     step_json(f->step), "last_step", step_json(f->last_step), "worker", rank_json(f->worker), "group",
                     rank_json(f->group), "block", text_json(f->block), "tensor", text_json(f->tensor), "size",
                     ls_cli_json_number(f->size), "title", f->title, "evidence",
                     ls_cli_json_list(f->evidence_count, evidence_json, f), "action", text_json(f->action));
}

/* Returns a worker's use of time as a new object. A callback of ls_cli_json_list(). */
static json_t *worker_json(const void *usage, int rank) {
    const ls_usage_worker *w = &((const ls_usage *)usage)->worker[rank];
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:I}", "worker", rank, "busy_ms", ls_cli_json_number(w->busy_ms),
                     "wait_ms", ls_cli_json_number(w->wait_ms), "busy", ls_cli_json_number(w->busy), "beside_peers",
                     ls_cli_json_number(w->relative), "slowest_steps", (json_int_t)w->slowest);
}

/* Returns the workers' use of time as a new object; null if it was not recorded. */
static json_t *usage_json(const ls_usage *u) {
    if (u->workers == 0) return json_null();
    return json_pack("{s:I, s:b, s:i, s:o, s:o, s:o}", "steps", (json_int_t)u->steps, "of_trace", u->of_trace,
                     "slowest", u->slowest, "waited_ms", ls_cli_json_number(u->waited_ms), "busy",
                     ls_cli_json_number(u->busy), "workers", ls_cli_json_list(u->workers, worker_json, u));
}

/* Returns a new object with the share of a step by use; null if it was not recorded, NULL: out of memory. */
static json_t *use_json(const ls_utilisation *u) {
    json_t *out = u->steps > 0 ? json_object() : json_null();
    for (int k = 0; u->steps > 0 && out && k < LS_USES; k++)
        if (json_object_set_new(out, ls_use_name((ls_use)k), ls_cli_json_number(u->share[k])) != 0) {
            json_decref(out);
            return NULL;
        }
    return out;
}

/* Returns line i of what was not recorded as a new text. A callback of ls_cli_json_list(). */
static json_t *missing_json(const void *diagnosis, int i) {
    return json_string(((const ls_diagnosis *)diagnosis)->missing[i]);
}

/* Returns consequence i as a new object. A callback of ls_cli_json_list(). */
static json_t *followed_json(const void *diagnosis, int i) {
    const ls_followed *f = &((const ls_diagnosis *)diagnosis)->followed[i];
    return json_pack("{s:I, s:s}", "step", (json_int_t)f->step, "text", f->text);
}

/* Returns GPUs and MFU as a new object. */
static json_t *device_json(const ls_run_log_device *device, const ls_gpu_usage *gpu) {
    double share = datasheet_share(device, gpu);
    return json_pack("{s:s, s:i, s:s, s:s, s:f, s:o, s:o, s:o, s:o, s:o}", "gpu", device->gpu, "gpus", device->gpus,
                     "precision", device->precision, "matrix_unit", device->unit, "peak_flops_per_second",
                     device->peak_flops_s, "mfu", ls_cli_json_number(gpu->mfu), "mfu_of_datasheet",
                     share > 0 ? json_real(share) : json_null(), "host_waits", ls_cli_json_number(gpu->waits), "idle",
                     ls_cli_json_number(gpu->idle), "action", text_json(gpu->action));
}

ls_status ls_doctor_print_json(const char *name, const ls_run_log *run, const ls_diagnosis *d) {
    static const char *const verdicts[] = {
        [LS_VERDICT_CLEAN] = "clean", [LS_VERDICT_CAUSE] = "cause", [LS_VERDICT_NOT_ENOUGH] = "not enough"};
    json_t *cause = d->verdict == LS_VERDICT_CAUSE ? json_string(ls_cause_name(d->finding[0].cause)) : json_null();
    json_t *object =
        json_pack("{s:o, s:s, s:o, s:I, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "run", ls_cli_json_path(name),
                  "verdict", verdicts[d->verdict], "cause", cause, "steps", (json_int_t)d->steps, "first_step",
                  step_json(d->first_step), "last_step", step_json(d->last_step), "damaged_lines",
                  (json_int_t)run->damaged_lines, "findings", ls_cli_json_list(d->finding_count, finding_json, d),
                  "followed", ls_cli_json_list(d->followed_count, followed_json, d), "workers", usage_json(&d->usage),
                  "missing", ls_cli_json_list(d->missing_count, missing_json, d), "time", use_json(&d->use));
    if (object && run->device.is_gpu) json_object_set_new(object, "device", device_json(&run->device, &d->gpu));
    return ls_cli_print_json(object);
}
