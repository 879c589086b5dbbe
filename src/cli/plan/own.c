/* own.c: `lockstep plan` for a machine that `lockstep probe` measured: layouts of this program, with the memory
 * that train --dry-run prints and times from what was measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "cli/plan/command.h"
#include "cli/print_json.h"

#define MIB (1024.0 * 1024.0)

enum { TEXT_MAX = 256, BAR_MAX = 40 };

typedef struct own_answer {
    const ls_options *opts;
    ls_native_machine machine;
    ls_settings settings;
    ls_native_task task;
    ls_native_found found;
} own_answer;

static double rate_of(const own_answer *a, const ls_prediction *p) {
    return (double)a->settings.B * (double)a->settings.T / p->seconds;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *kinds_to_json(const ls_prediction *p) {
    json_t *time = json_object(), *memory = json_object();
    for (int k = 0; k < LS_TIME_KINDS; k++)
        json_object_set_new(time, ls_time_kind_name((ls_time_kind)k), json_real(p->time[k]));
    for (int k = 0; k < LS_MEMORY_KINDS; k++)
        json_object_set_new(memory, ls_memory_kind_name((ls_memory_kind)k), json_real(p->memory[k]));
    return json_pack("{s:o, s:o}", "time_seconds", time, "memory", memory);
}

/* The bytes of every worker, as a dry run has them. */
static ls_status workers_to_json(const own_answer *a, const ls_layout *layout, json_t **out) {
    *out = json_array();
    for (int rank = 0; rank < ls_layout_workers(layout); rank++) {
        ls_native_memory m;
        LS_TRY(ls_native_measure(&a->task, layout, rank, &m));
        json_array_append_new(*out, json_pack("{s:i, s:I, s:I}", "worker", rank, "bytes", (json_int_t)m.arena_bytes,
                                              "outside_bytes", (json_int_t)m.outside_bytes));
    }
    return LS_OK;
}

static ls_status choice_to_json(const own_answer *a, const ls_native_choice *c, json_t **out) {
    const ls_prediction *p = &c->prediction;
    json_t *workers = NULL;
    ls_status status = workers_to_json(a, &c->layout, &workers);
    double lacks = p->memory_bytes - p->capacity_bytes;
    *out = kinds_to_json(p);
    if (*out) {
        json_object_set_new(*out, "layout", ls_layout_to_json(&c->layout));
        json_object_set_new(*out, "fits", json_boolean(lacks <= 0));
        json_object_set_new(*out, "seconds", json_real(p->seconds));
        json_object_set_new(*out, "tokens_per_second", json_real(rate_of(a, p)));
        json_object_set_new(*out, "micro_batches", json_integer(p->micros));
        json_object_set_new(*out, "memory_bytes", json_real(p->memory_bytes));
        json_object_set_new(*out, "capacity_bytes", json_real(p->capacity_bytes));
        json_object_set_new(*out, "lacks_bytes", json_real(lacks > 0 ? lacks : 0));
        json_object_set(*out, "workers", workers);
    }
    json_decref(workers);
    return status;
}

static ls_status print_json(const own_answer *a) {
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

static void print_kinds(const char *title, const char *unit, int count, const char *(*name)(int), const double *value,
                        double whole, double scale) {
    printf("\n%-22s %10s\n", title, unit);
    for (int k = 0; k < count; k++) {
        int bar = (int)(value[k] / whole * BAR_MAX + .5);
        if (value[k] <= 0) continue;
        printf("  %-20s %10.4g %6.1f %%  ", name(k), value[k] / scale, 100 * value[k] / whole);
        for (int i = 0; i < bar && i < BAR_MAX; i++) fputs("█", stdout);
        printf("\n");
    }
    printf("  %-20s %10.4g\n", "sum", whole / scale);
}

static const char *time_name(int k) { return ls_time_kind_label((ls_time_kind)k); }
static const char *memory_name(int k) { return ls_memory_kind_label((ls_memory_kind)k); }

static void print_misfit(const own_answer *a) {
    const ls_native_choice *c = &a->found.lacks;
    char text[TEXT_MAX];
    if (a->found.missing == 0) return;
    ls_layout_text(&c->layout, text, sizeof text);
    printf("\n%d do not fit; the closest, %s, lacks %.1f MiB on its most loaded worker\n", a->found.missing, text,
           (c->prediction.memory_bytes - c->prediction.capacity_bytes) / MIB);
}

static void print_others(const own_answer *a) {
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

static void print_text(const own_answer *a) {
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
        print_kinds("time of a step", "s", LS_TIME_KINDS, time_name, p->time, p->seconds, 1);
        print_kinds("memory per worker", "MiB", LS_MEMORY_KINDS, memory_name, p->memory, p->memory_bytes, MIB);
        print_others(a);
    }
    print_misfit(a);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static ls_status write_layout(const own_answer *a) {
    json_t *json = ls_layout_to_json(&a->found.fits[0].layout);
    char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    json_decref(json);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for a layout");
    ls_status status = ls_file_write_atomic(a->opts->out, text, strlen(text));
    free(text);
    return status;
}

static ls_status answer(own_answer *a, const ls_plan_question *q) {
    const ls_options *o = a->opts;
    LS_TRY(ls_plan_search_native(o, q, &a->settings, &a->machine, &a->task, &a->found));
    if (o->out && a->found.fitting > 0) LS_TRY(write_layout(a));
    if (o->json) return print_json(a);
    print_text(a);
    return LS_OK;
}

ls_status ls_plan_own_command(const ls_options *options, const ls_plan_question *question) {
    own_answer *a = calloc(1, sizeof *a);
    if (!a) return ls_fail(LS_ERR_RESOURCE, "out of memory for a plan");
    a->opts = options;
    ls_status status = answer(a, question);
    free(a);
    return status;
}
