/* dry.c: `lockstep train --dry-run`: prints the memory, traffic and schedule that a run would have, as text or as one
 * JSON object. */
#include <stdio.h>
#include <string.h>

#include "cli/print.h"
#include "cli/train/report.h"
#include "run/dry_run.h"
#include "run/settings.h"

enum { TEXT_MAX = 512 };

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Returns whether two workers need the same memory of every kind. */
static bool is_alike(const ls_dry_worker *a, const ls_dry_worker *b) {
    return a->arena == b->arena && a->outside == b->outside && memcmp(a->kind, b->kind, sizeof a->kind) == 0;
}

/* Writes the workers that need the same memory as worker r, as "0-3,8"; "" if an earlier worker is equal, so its row
 * names r. */
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

/* Returns whether any worker has memory of kind k. */
static bool has_kind(const ls_dry_run *dry, int k) {
    for (int r = 0; r < dry->workers; r++)
        if (dry->worker[r].kind[k] > 0) return true;
    return false;
}

/* Returns the width of the column of kind k. */
static int kind_width(int k) {
    int length = (int)strlen(ls_dry_kind_names[k]);
    return length < 13 ? 13 : length;
}

/* Prints exact bytes, and below them the same in readable units. */
static void print_memory_row(const ls_dry_run *dry, const char *name, const ls_dry_worker *worker) {
    printf("%-12s %15zu", name, worker->arena);
    for (int k = 0; k < LS_DRY_KINDS; k++)
        if (has_kind(dry, k)) printf(" %*zu", kind_width(k), worker->kind[k]);
    printf(" %13zu\n%-12s %15s", worker->outside, "", ls_cli_bytes(worker->arena).text);
    for (int k = 0; k < LS_DRY_KINDS; k++)
        if (has_kind(dry, k)) printf(" %*s", kind_width(k), ls_cli_bytes(worker->kind[k]).text);
    printf(" %13s\n", ls_cli_bytes(worker->outside).text);
}

/* Prints a row for each distinct worker, and memory in addition to it: snapshots, journal, copies. */
static void print_memory(const ls_dry_run *dry) {
    char name[TEXT_MAX];
    printf("%-12s %15s", "worker", "tensors");
    for (int k = 0; k < LS_DRY_KINDS; k++)
        if (has_kind(dry, k)) printf(" %*s", kind_width(k), ls_dry_kind_names[k]);
    printf(" %13s\n", "other, about");
    for (int r = 0; r < dry->workers; r++) {
        name_alike(dry, r, name);
        if (name[0]) print_memory_row(dry, name, &dry->worker[r]);
    }
    if (dry->settings->options.save_mode == LS_SAVE_STREAM)
        printf("checkpoints: training waits while they are written (--save-mode stream)\n");
    else
        printf("checkpoints: a snapshot takes %zu bytes (%s) of host memory%s, in addition\n", dry->snapshot,
               ls_cli_bytes(dry->snapshot).text, dry->workers > 1 ? " on all workers together" : "");
    if (dry->journal > 0)
        printf("recovery: the update journal takes %zu bytes (%s) of host memory%s, in addition\n", dry->journal,
               ls_cli_bytes(dry->journal).text, dry->workers > 1 ? " on all workers together" : "");
    if (dry->settings->options.state_copies > 0)
        printf("recovery: copies of state that only one worker has take %zu bytes (%s) on all workers together, in "
               "addition\n",
               dry->copies, ls_cli_bytes(dry->copies).text);
    if (dry->workers > 1)
        printf("all workers: tensors %zu bytes (%s), other about %s\n", dry->arena, ls_cli_bytes(dry->arena).text,
               ls_cli_bytes(dry->outside).text);
}

/* Prints calls and bytes of a step by axis of the mesh and kind; nothing for one worker. */
static void print_traffic(const ls_dry_run *dry) {
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
                   (unsigned long long)all->bytes, ls_cli_bytes(all->bytes).text, (unsigned long long)most);
        }
}

/* Prints the row of stage s: its slots (memory for micro-batches), bubble and blocks. */
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

/* Prints the schedule, the micro-batches of a replica and, with a pipeline, a row for each stage. */
static void print_schedule(const ls_dry_run *dry) {
    const ls_layout *layout = &dry->layout;
    int least = dry->micros[0], most = dry->micros[0];
    for (int d = 1; d < layout->dp; d++) {
        if (dry->micros[d] < least) least = dry->micros[d];
        if (dry->micros[d] > most) most = dry->micros[d];
    }
    printf("\nschedule %s: ", ls_schedule_kind_name(layout->schedule));
    if (least < most) printf("%d to ", least);
    printf("%d micro-batch%s of at most %zu sequence%s per replica", most, most == 1 ? "" : "es", layout->micro,
           layout->micro == 1 ? "" : "s");
    if (layout->pp == 1) {
        putchar('\n');
        return;
    }
    printf("; predicted bubble %.1f %% (replica %d)\n%-8s %6s %10s  blocks\n", 100 * ls_dry_bubble(dry), dry->row,
           "stage", "slots", "bubble");
    for (int s = 0; s < layout->pp; s++) print_stage(dry, s);
}

/* Prints "bf16; matrix unit chain" and, for mixed precision, the type of each kind of number. */
static void print_types(const ls_settings *s) {
    const ls_loss_scale_settings *scale = &s->loss_scale;
    ls_dry_types types = ls_dry_types_of(&s->policy);
    printf("types    %s", types.precision);
    if (s->policy.act == LS_BF16)
        printf("; matrix unit %s, %s", types.unit,
               s->policy.unit == LS_UNIT_CHAIN ? "same bits on every CPU" : "bits that only this unit gives");
    if (s->policy.act == LS_F16 && scale->constant) printf("; loss scale 2^%d", scale->initial);
    if (s->policy.act == LS_F16 && !scale->constant)
        printf("; loss scale 2^%d at first, doubled after %lld steps without overflow, halved after overflows, at "
               "least 2^%d",
               scale->initial, (long long)scale->window, scale->floor);
    putchar('\n');
    if (types.count == 1) return;
    printf("\n%-22s %-5s  why\n", "numbers", "type");
    for (int i = 0; i < types.count; i++)
        printf("%-22s %-5s  %s\n", types.row[i].what, types.row[i].type, types.row[i].why);
}

/* Prints all of it as text. */
static void print_dry_run(const ls_dry_run *dry) {
    const ls_settings *s = dry->settings;
    char text[TEXT_MAX], lr[LS_SETTINGS_LR_TEXT_MAX];
    ls_layout_text(&dry->layout, text, sizeof text);
    printf("layout   %s\n", text);
    printf("batch    %zu sequences of %zu tokens, %d gradient groups, %d slices\n", s->B, s->T, s->groups, s->slices);
    ls_settings_lr_text(s, lr);
    if (*lr) printf("lr       %s\n", lr);
    print_types(s);
    putchar('\n');
    print_memory(dry);
    print_traffic(dry);
    print_schedule(dry);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Returns a new number. */
static json_t *json_bytes(uint64_t bytes) { return json_integer((json_int_t)bytes); }

/* Returns a new object {"dp": {"all-reduce": {"calls": …, "bytes": …}}}, without entries that are 0. */
static json_t *json_traffic(const ls_step_traffic *traffic) {
    json_t *axes = json_object();
    for (int a = 0; a < LS_TRAFFIC_AXES; a++) {
        json_t *kinds = json_object();
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
            const ls_traffic *of = &traffic->of[a][k];
            if (of->calls > 0)
                json_object_set_new(
                    kinds, ls_traffic_kind_name((ls_traffic_kind)k),
                    json_pack("{s:o, s:o}", "calls", json_bytes(of->calls), "bytes", json_bytes(of->bytes)));
        }
        json_object_set_new(axes, ls_traffic_axis_name(a), kinds);
    }
    return axes;
}

/* Returns a new object with the memory and traffic of a worker. */
static json_t *json_worker(const ls_dry_worker *worker, int rank) {
    json_t *kinds = json_object();
    for (int k = 0; k < LS_DRY_KINDS; k++)
        json_object_set_new(kinds, ls_dry_kind_names[k], json_bytes(worker->kind[k]));
    return json_pack("{s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "worker", rank, "dp", worker->place.dp,
                     "tp", worker->place.tp, "pp", worker->place.pp, "bytes", json_bytes(worker->arena), "kinds", kinds,
                     "outside_bytes", json_bytes(worker->outside), "snapshot_bytes", json_bytes(worker->snapshot),
                     "copies_bytes", json_bytes(worker->copies), "journal_bytes", json_bytes(worker->journal),
                     "traffic", json_traffic(&worker->traffic));
}

/* Returns a new object with the chunks and the bubble of stage s. */
static json_t *json_stage(const ls_dry_run *dry, int s) {
    const ls_layout *layout = &dry->layout;
    json_t *chunks = json_array();
    for (int c = 0; c < layout->virtual_stages; c++) {
        int number = c * layout->pp + s, first = layout->chunk_first[number];
        json_array_append_new(chunks, json_pack("{s:i, s:i, s:i, s:i}", "first_block", first, "blocks",
                                                layout->chunk_first[number + 1] - first, "slots",
                                                ls_schedule_slots(&dry->schedule, s, c), "kept_slots",
                                                ls_schedule_kept(&dry->schedule, s, c)));
    }
    return json_pack("{s:i, s:o, s:f}", "stage", s, "chunks", chunks, "bubble",
                     ls_simulation_bubble(&dry->simulation, s));
}

/* Returns a new object with the schedule of all stages. */
static json_t *json_schedule(const ls_dry_run *dry) {
    json_t *micros = json_array(), *stages = json_array();
    for (int d = 0; d < dry->layout.dp; d++) json_array_append_new(micros, json_integer(dry->micros[d]));
    for (int s = 0; s < dry->layout.pp; s++) json_array_append_new(stages, json_stage(dry, s));
    return json_pack("{s:s, s:o, s:i, s:o, s:f}", "kind", ls_schedule_kind_name(dry->layout.schedule), "micro_batches",
                     micros, "row", dry->row, "stages", stages, "bubble", ls_dry_bubble(dry));
}

/* Returns a new object with the element type of each kind of number. */
static json_t *json_types(const ls_settings *s) {
    ls_dry_types types = ls_dry_types_of(&s->policy);
    json_t *rows = json_array();
    for (int i = 0; i < types.count; i++)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s}", "what", types.row[i].what, "type", types.row[i].type,
                                              "why", types.row[i].why));
    return json_pack("{s:s, s:s, s:o}", "precision", types.precision, "matrix_unit", types.unit, "kept", rows);
}

/* Prints all of it as JSON. */
static ls_status print_dry_run_json(const ls_dry_run *dry) {
    json_t *workers = json_array();
    for (int r = 0; r < dry->workers; r++) json_array_append_new(workers, json_worker(&dry->worker[r], r));
    json_t *object =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "layout", ls_layout_to_json(&dry->layout),
                  "types", json_types(dry->settings), "workers", workers, "bytes", json_bytes(dry->arena),
                  "outside_bytes", json_bytes(dry->outside), "snapshot_bytes", json_bytes(dry->snapshot),
                  "copies_bytes", json_bytes(dry->copies), "journal_bytes", json_bytes(dry->journal), "traffic",
                  json_traffic(&dry->traffic), "schedule", json_schedule(dry));
    return ls_cli_print_json(object);
}

ls_status ls_train_print_dry(const ls_settings *settings, const ls_layout *layout, bool json) {
    ls_dry_run dry;
    ls_status status = ls_dry_run_make(settings, layout, &dry);
    if (status == LS_OK && json) status = print_dry_run_json(&dry);
    if (status == LS_OK && !json) print_dry_run(&dry);
    ls_dry_free(&dry);
    return status;
}
