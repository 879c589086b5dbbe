/* dry.c: `lockstep train --dry-run`: what each worker of the layout would hold, from the function that carves its
 * memory; what it would send in a step, from the formulas of docs/parallelism.md; and how its schedule would go. */
#include "cli/train/dry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/kernels.h"
#include "model/model.h"
#include "parallel/layout/micro_batches.h"
#include "run/settings.h"

enum { TEXT_MAX = 512, NUMBER_MAX = 32 };

const char *const ls_dry_kind_names[LS_DRY_KINDS] = {"parameters",
                                                     "16-bit parameters",
                                                     "gathered parameters",
                                                     "gradients",
                                                     "optimizer state",
                                                     "activations",
                                                     "communication",
                                                     "scratch",
                                                     "logits",
                                                     "tokens",
                                                     "images",
                                                     "tables"};

/* ---- finding out ------------------------------------------------------------------------------------------------- */

static ls_status measure(ls_dry_run *dry, const ls_layout_task *task, int rank) {
    ls_dry_worker *worker = &dry->worker[rank];
    ls_arena arena;
    LS_TRY(ls_trainer_measure(dry->settings, &dry->layout, rank, &arena));
    worker->place = ls_layout_place(&dry->layout, rank);
    worker->arena = arena.peak;
    for (int k = 0; k < LS_DRY_KINDS; k++) worker->kind[k] = ls_arena_kind_bytes(&arena, ls_dry_kind_names[k]);
    worker->outside = ls_predict_outside_bytes(task, &dry->layout, worker->place, &ls_kernels_get()->gemm);
    LS_TRY(ls_traffic_of_step(task, &dry->layout, worker->place, &worker->traffic));
    dry->arena += worker->arena;
    dry->outside += worker->outside;
    ls_traffic_add(&dry->traffic, &worker->traffic);
    return LS_OK;
}

static ls_status count_micros(ls_dry_run *dry) {
    ls_layout layout = dry->layout;
    size_t most = 0;
    if (layout.dp == 1) layout.zero = 0;
    for (int d = 0; d < layout.dp; d++) {
        ls_micro_list list;
        size_t sequences = 0;
        LS_TRY(ls_micro_list_make(&layout, dry->settings->B, dry->settings->groups, d, &list));
        for (int m = 0; m < list.count; m++) sequences += list.micro[m].end - list.micro[m].begin;
        dry->micros[d] = list.count;
        if (sequences > most) dry->row = d;
        if (sequences > most) most = sequences;
        ls_micro_list_free(&list);
    }
    return LS_OK;
}

static ls_status find_out(ls_dry_run *dry) {
    const ls_settings *s = dry->settings;
    ls_status status = LS_OK;
    ls_model *model = NULL;
    dry->workers = ls_layout_workers(&dry->layout);
    dry->worker = calloc((size_t)dry->workers, sizeof *dry->worker);
    dry->micros = calloc((size_t)dry->layout.dp, sizeof *dry->micros);
    if (!dry->worker || !dry->micros) return ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", dry->workers);
    LS_TRY(ls_model_create(&s->shape, s->slices, &model));
    ls_layout_task task = {.model = model, .B = s->B, .T = s->T, .G = s->groups, .policy = s->policy};
    task.checks_replicas = s->checks_replicas;
    for (int r = 0; r < dry->workers; r++) LS_TRY_OUT(measure(dry, &task, r));
    LS_TRY_OUT(count_micros(dry));
    LS_TRY_OUT(ls_predict_schedule(&task, &dry->layout, dry->row, &dry->schedule, &dry->simulation));
out:
    ls_model_destroy(model);
    return status;
}

double ls_dry_bubble(const ls_dry_run *dry) {
    double busy = 0, all = dry->simulation.seconds * dry->simulation.stages;
    for (int s = 0; s < dry->simulation.stages; s++) busy += dry->simulation.busy[s];
    return all > 0 ? 1 - busy / all : 0;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static const char *readable(size_t bytes, char text[NUMBER_MAX]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int u = 0;
    for (; value >= 1024 && u < 4; u++) value /= 1024;
    snprintf(text, NUMBER_MAX, "%.*f %s", u == 0 ? 0 : 1, value, units[u]);
    return text;
}

static bool is_alike(const ls_dry_worker *a, const ls_dry_worker *b) {
    return a->arena == b->arena && a->outside == b->outside && memcmp(a->kind, b->kind, sizeof a->kind) == 0;
}

/* "0-3,8": the workers that are like worker r; empty where an earlier one is. */
static void name_alike(const ls_dry_run *dry, int r, char text[TEXT_MAX]) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < r; i++)
        if (is_alike(&dry->worker[i], &dry->worker[r])) return;
    for (int i = r; i < dry->workers; i++) {
        int end = i;
        while (end < dry->workers && is_alike(&dry->worker[end], &dry->worker[r])) end++;
        if (end == i) continue;
        const char *comma = used > 0 ? "," : "";
        int length = end - i == 1 ? snprintf(text + used, TEXT_MAX - used, "%s%d", comma, i)
                                  : snprintf(text + used, TEXT_MAX - used, "%s%d-%d", comma, i, end - 1);
        used += (size_t)length;
        if (used >= TEXT_MAX) return;
        i = end;
    }
}

static bool has_kind(const ls_dry_run *dry, int k) {
    for (int r = 0; r < dry->workers; r++)
        if (dry->worker[r].kind[k] > 0) return true;
    return false;
}

static int kind_width(int k) {
    int length = (int)strlen(ls_dry_kind_names[k]);
    return length < 13 ? 13 : length;
}

/* Exact bytes, and below them the same in readable units. */
static void print_memory_row(const ls_dry_run *dry, const char *name, const ls_dry_worker *worker) {
    char text[NUMBER_MAX];
    printf("%-12s %15zu", name, worker->arena);
    for (int k = 0; k < LS_DRY_KINDS; k++)
        if (has_kind(dry, k)) printf(" %*zu", kind_width(k), worker->kind[k]);
    printf(" %13zu\n%-12s %15s", worker->outside, "", readable(worker->arena, text));
    for (int k = 0; k < LS_DRY_KINDS; k++)
        if (has_kind(dry, k)) printf(" %*s", kind_width(k), readable(worker->kind[k], text));
    printf(" %13s\n", readable(worker->outside, text));
}

static void print_memory(const ls_dry_run *dry) {
    char name[TEXT_MAX], arena[NUMBER_MAX], outside[NUMBER_MAX];
    printf("%-12s %15s", "memory of", "arena");
    for (int k = 0; k < LS_DRY_KINDS; k++)
        if (has_kind(dry, k)) printf(" %*s", kind_width(k), ls_dry_kind_names[k]);
    printf(" %13s\n", "outside ~");
    for (int r = 0; r < dry->workers; r++) {
        name_alike(dry, r, name);
        if (name[0]) print_memory_row(dry, name, &dry->worker[r]);
    }
    if (dry->workers > 1)
        printf("all workers: arenas %zu bytes (%s), outside them about %s\n", dry->arena, readable(dry->arena, arena),
               readable(dry->outside, outside));
}

static void print_traffic(const ls_dry_run *dry) {
    char text[NUMBER_MAX];
    if (dry->workers == 1) return;
    printf("\n%-8s %-15s %12s %17s %12s %17s\n", "per step", "kind", "calls", "bytes", "", "max per worker");
    for (int a = 0; a < LS_TRAFFIC_AXES; a++)
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
            const ls_traffic *all = &dry->traffic.of[a][k];
            uint64_t most = 0;
            if (all->calls == 0) continue;
            for (int r = 0; r < dry->workers; r++)
                if (dry->worker[r].traffic.of[a][k].bytes > most) most = dry->worker[r].traffic.of[a][k].bytes;
            printf("%-8s %-15s %12llu %17llu %12s %17llu\n", ls_traffic_axis_name(a),
                   ls_traffic_kind_name((ls_traffic_kind)k), (unsigned long long)all->calls,
                   (unsigned long long)all->bytes, readable((size_t)all->bytes, text), (unsigned long long)most);
        }
}

static void print_stage(const ls_dry_run *dry, int s) {
    const ls_layout *layout = &dry->layout;
    char blocks[TEXT_MAX];
    size_t used = 0;
    int slots = 0;
    blocks[0] = '\0';
    for (int c = 0; c < layout->virtual_stages; c++) {
        int number = c * layout->pp + s, first = layout->chunk_first[number],
            last = layout->chunk_first[number + 1] - 1;
        slots += ls_schedule_slots(&dry->schedule, s, c);
        if (used >= sizeof blocks) continue;
        used += (size_t)snprintf(blocks + used, sizeof blocks - used, first == last ? "%s%d" : "%s%d-%d",
                                 used > 0 ? "," : "", first, last);
    }
    printf("%-8d %6d %8.1f %%  %s\n", s, slots, 100 * ls_simulation_bubble(&dry->simulation, s), blocks);
}

static void print_schedule(const ls_dry_run *dry) {
    const ls_layout *layout = &dry->layout;
    int least = dry->micros[0], most = dry->micros[0];
    for (int d = 1; d < layout->dp; d++) {
        if (dry->micros[d] < least) least = dry->micros[d];
        if (dry->micros[d] > most) most = dry->micros[d];
    }
    printf("\nschedule %s: ", ls_schedule_kind_name(layout->schedule));
    if (least < most) printf("%d to ", least);
    printf("%d micro-batch%s of at most %zu sequence%s in each row", most, most == 1 ? "" : "es", layout->micro,
           layout->micro == 1 ? "" : "s");
    if (layout->pp == 1) {
        putchar('\n');
        return;
    }
    printf("; predicted bubble %.1f %% (row %d)\n%-8s %6s %10s  blocks\n", 100 * ls_dry_bubble(dry), dry->row, "stage",
           "slots", "bubble");
    for (int s = 0; s < layout->pp; s++) print_stage(dry, s);
}

/* "bf16; matrix unit chain" and, where types are mixed, who is what. */
static void print_types(const ls_settings *s) {
    const ls_loss_scale_settings *scale = &s->loss_scale;
    ls_dry_types types = ls_dry_types_of(&s->policy);
    printf("types    %s", types.precision);
    if (s->policy.act == LS_BF16)
        printf("; matrix unit %s, %s", types.unit,
               s->policy.unit == LS_UNIT_CHAIN ? "same bits on every CPU" : "bits of its own");
    if (s->policy.act == LS_F16 && scale->constant) printf("; loss scale 2^%d", scale->initial);
    if (s->policy.act == LS_F16 && !scale->constant)
        printf("; loss scale from 2^%d on, doubled after %lld good steps, halved by overflows, at least 2^%d",
               scale->initial, (long long)scale->window, scale->floor);
    putchar('\n');
    if (types.count == 1) return;
    printf("\n%-22s %-5s  why\n", "numbers", "type");
    for (int i = 0; i < types.count; i++)
        printf("%-22s %-5s  %s\n", types.row[i].what, types.row[i].type, types.row[i].why);
}

static void print_text(const ls_dry_run *dry) {
    const ls_settings *s = dry->settings;
    char text[TEXT_MAX], lr[LS_SETTINGS_LR_TEXT_MAX];
    ls_layout_text(&dry->layout, text, sizeof text);
    printf("layout   %s\n", text);
    printf("batch    %zu sequences of %zu tokens, %d groups, %d slices\n", s->B, s->T, s->groups, s->slices);
    ls_settings_lr_text(s, lr);
    if (*lr) printf("lr       %s\n", lr);
    print_types(s);
    putchar('\n');
    print_memory(dry);
    print_traffic(dry);
    print_schedule(dry);
}

ls_status ls_train_print_dry(const ls_settings *settings, const ls_layout *wanted, bool json) {
    ls_dry_run dry = {.settings = settings, .layout = *wanted};
    if (dry.layout.micro == 0) LS_TRY(ls_trainer_choose_micro(settings, &dry.layout));
    ls_status status = find_out(&dry);
    if (status == LS_OK && json) status = ls_dry_print_json(&dry);
    if (status == LS_OK && !json) print_text(&dry);
    ls_simulation_free(&dry.simulation);
    ls_schedule_free(&dry.schedule);
    free(dry.worker);
    free(dry.micros);
    return status;
}
