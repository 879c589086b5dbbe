/* native.c: `lockstep plan` for a machine that `lockstep probe` measured: layouts of this program, with the memory
 * that train --dry-run prints and times from what was measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/inputs/inputs.h"
#include "cli/plan/command.h"
#include "cli/print_json.h"
#include "plan/native/native.h"

#define MIB (1024.0 * 1024.0)

enum { TEXT_MAX = 256 };

typedef struct native_answer {
    const ls_options *opts;
    ls_native_machine machine;
    ls_settings settings;
    ls_native_found found;
} native_answer;

static double rate_of(const native_answer *a, const ls_prediction *p) {
    return (double)a->settings.B * (double)a->settings.T / p->seconds;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* The bytes of every worker, as a dry run has them. */
static ls_status workers_to_json(const native_answer *a, const ls_layout *layout, json_t **out) {
    *out = json_array();
    for (int rank = 0; rank < ls_layout_workers(layout); rank++) {
        ls_dry_worker w;
        LS_TRY(ls_dry_measure(&a->settings, layout, rank, &w));
        json_array_append_new(*out, json_pack("{s:i, s:I, s:I}", "worker", rank, "bytes", (json_int_t)w.arena,
                                              "outside_bytes", (json_int_t)w.outside));
    }
    return LS_OK;
}

static ls_status choice_to_json(const native_answer *a, const ls_native_choice *c, json_t **out) {
    const ls_prediction *p = &c->prediction;
    json_t *workers = NULL;
    ls_status status = workers_to_json(a, &c->layout, &workers);
    double lacks = p->memory_bytes - p->capacity_bytes;
    *out = json_pack("{s:o, s:o, s:o, s:b, s:f, s:f, s:i, s:f, s:f, s:f, s:o}", "time_seconds",
                     ls_plan_times_to_json(p->time), "memory", ls_plan_memory_to_json(p->memory), "layout",
                     ls_layout_to_json(&c->layout), "fits", lacks <= 0, "seconds", p->seconds, "tokens_per_second",
                     rate_of(a, p), "micro_batches", p->micros, "memory_bytes", p->memory_bytes, "capacity_bytes",
                     p->capacity_bytes, "lacks_bytes", lacks > 0 ? lacks : 0.0, "workers", workers);
    return status;
}

static ls_status print_json(const native_answer *a) {
    json_t *list = json_array(), *misfit = json_null();
    ls_status status = LS_OK;
    for (int i = 0; status == LS_OK && i < a->found.fitting; i++) {
        json_t *one = NULL;
        status = choice_to_json(a, &a->found.fits[i], &one);
        json_array_append_new(list, one);
    }
    if (status == LS_OK && a->found.missing > 0) status = choice_to_json(a, &a->found.lacks, &misfit);
    json_t *all = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:o, s:o}", "model", a->settings.shape.name, "machine",
                            a->machine.cpu, "program", "lockstep", "cores", a->machine.cores, "tried", a->found.tried,
                            "fit", a->found.tried - a->found.missing, "layouts", list, "nearest_misfit", misfit);
    if (status == LS_OK) return ls_cli_print_json(all);
    json_decref(all);
    return status;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_parts(const ls_prediction *p) {
    printf("\n%-22s %10s\n", "time of a step", "s");
    for (int k = 0; k < LS_TIME_KINDS; k++)
        ls_plan_print_part(ls_time_kind_label((ls_time_kind)k), p->time[k], p->time[k] / p->seconds);
    printf("  %-20s %10.4g\n\n%-22s %10s\n", "sum", p->seconds, "memory per worker", "MiB");
    for (int k = 0; k < LS_MEMORY_KINDS; k++)
        ls_plan_print_part(ls_memory_kind_label((ls_memory_kind)k), p->memory[k] / MIB, p->memory[k] / p->memory_bytes);
    printf("  %-20s %10.4g\n", "sum", p->memory_bytes / MIB);
}

static void print_misfit(const native_answer *a) {
    const ls_native_choice *c = &a->found.lacks;
    char text[TEXT_MAX];
    if (a->found.missing == 0) return;
    ls_layout_text(&c->layout, text, sizeof text);
    printf("\n%d do not fit; the closest, %s, lacks %.1f MiB on its most loaded worker\n", a->found.missing, text,
           (c->prediction.memory_bytes - c->prediction.capacity_bytes) / MIB);
}

static void print_others(const native_answer *a) {
    const ls_prediction *best = &a->found.fits[0].prediction;
    char text[TEXT_MAX];
    if (a->found.fitting > 1) printf("\nothers\n");
    for (int i = 1; i < a->found.fitting; i++) {
        const ls_prediction *p = &a->found.fits[i].prediction;
        ls_layout_text(&a->found.fits[i].layout, text, sizeof text);
        printf("  %10.4g s  %+6.1f %%  %+9.1f MiB  %s\n", p->seconds, 100 * (p->seconds / best->seconds - 1),
               (p->memory_bytes - best->memory_bytes) / MIB, text);
    }
}

static void print_text(const native_answer *a) {
    const ls_settings *s = &a->settings;
    char text[TEXT_MAX];
    printf("model    %s: %.4g M parameters, %zu layers\n", s->shape.name, ls_plan_params(&s->shape) / 1e6, s->shape.L);
    printf("machine  %s, %d cores, as measured by lockstep probe\n", a->machine.cpu, a->machine.cores);
    printf("step     %zu sequences of %zu tokens, %d groups, %d slices; program lockstep\n", s->B, s->T, s->groups,
           s->slices);
    printf("layouts  %d tried, %d fit\n", a->found.tried, a->found.tried - a->found.missing);
    if (a->found.fitting > 0) {
        const ls_prediction *p = &a->found.fits[0].prediction;
        ls_layout_text(&a->found.fits[0].layout, text, sizeof text);
        printf("\nbest     %s\n         a step takes %.4g s: %.0f tokens/s\n", text, p->seconds, rate_of(a, p));
        print_parts(p);
        print_others(a);
    }
    print_misfit(a);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static ls_status search(native_answer *a) {
    const ls_options *o = a->opts;
    ls_layout_request request;
    json_t *file = NULL;
    LS_TRY(ls_layout_request_from_options(o, &file, &request));
    if (o->gpus > 0 && request.workers == 0) request.workers = (int)o->gpus;
    ls_native_task task = ls_native_task_of(&a->settings, &a->machine);
    ls_status status = ls_native_search(&a->machine, &task, &request, 0, &a->found);
    json_decref(file);
    return status;
}

static ls_status answer(native_answer *a, const ls_shape *shape, const json_t *measured) {
    const ls_options *o = a->opts;
    LS_TRY(ls_native_machine_from_json(o->cluster, measured, &a->machine));
    LS_TRY(ls_settings_resolve(o, shape, &a->settings));
    LS_TRY(search(a));
    if (o->out && a->found.fitting > 0)
        LS_TRY(ls_plan_layout_write(o->out, ls_layout_to_json(&a->found.fits[0].layout)));
    if (o->json) return print_json(a);
    print_text(a);
    return LS_OK;
}

ls_status ls_plan_native_command(const ls_options *options, const ls_shape *shape, const json_t *measured) {
    native_answer *a = calloc(1, sizeof *a);
    if (!a) return ls_fail(LS_ERR_RESOURCE, "out of memory for a plan");
    a->opts = options;
    ls_status status = answer(a, shape, measured);
    free(a);
    return status;
}
