/* explain_changes.c: predicts what one change would do: a knob of the layout, or a piece of the hardware. */
#include "plan/explain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "comm/communicators/communicators.h"
#include "plan/cost/cost_case.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

typedef struct changes {
    const ls_plan_task *task;
    const ls_plan_choice *from;
    ls_plan_change *out;
    int count;
} changes;

/* Appends the layout under `task` with the formatted text as a change, if it is possible, fits, and the list has room.
 * `work`: sequences of its step for each one of the present step, so that the gain is per sequence. */
__attribute__((format(printf, 6, 7))) static ls_status consider(changes *all, const ls_plan_task *task,
                                                                const ls_knobs *layout, bool hardware, double work,
                                                                const char *format, ...) {
    if (all->count == LS_PLAN_CHANGES_MAX || ls_plan_check(task, layout) != LS_OK) return LS_OK;
    ls_plan_change *c = &all->out[all->count];
    *c = (ls_plan_change){.hardware = hardware, .to.layout = *layout};
    LS_TRY(ls_plan_predict(task, layout, &c->to.prediction));
    if (!ls_prediction_fits(&c->to.prediction)) return LS_OK;
    c->gain = 1 - c->to.prediction.seconds / work / all->from->prediction.seconds;
    va_list args;
    va_start(args, format);
    vsnprintf(c->what, sizeof c->what, format, args);
    va_end(args);
    all->count++;
    return LS_OK;
}

/* Appends another layout of the same task. */
#define CONSIDER(all, layout, ...) consider(all, (all)->task, layout, false, 1, __VA_ARGS__)

/* ---- knobs ------------------------------------------------------------------------------------------------------- */

/* Tries the next larger and the next smaller micro-batch that divide a replica's batch. */
static ls_status try_micro(changes *all) {
    const ls_knobs *l = &all->from->layout;
    size_t share = all->task->global_batch / (size_t)l->dp;
    ls_knobs to = *l;
    for (to.micro = l->micro + 1; to.micro <= share && share % to.micro != 0;) to.micro++;
    if (to.micro <= share) LS_TRY(CONSIDER(all, &to, "micro-batch %zu instead of %zu", to.micro, l->micro));
    for (to.micro = l->micro - 1; to.micro > 0 && share % to.micro != 0;) to.micro--;
    if (to.micro == 0) return LS_OK;
    return CONSIDER(all, &to, "micro-batch %zu instead of %zu", to.micro, l->micro);
}

/* Returns the next number of chunks per stage that divides the layers, above (step 1) or below (step −1); 0: none. */
static int other_chunks(const changes *all, int step) {
    int L = (int)all->task->shape.L, pp = all->from->layout.pp, v = all->from->layout.virtual_stages;
    do v += step;
    while (v >= 1 && v <= L / pp && L % (pp * v) != 0);
    return v <= L / pp ? v : 0;
}

/* Tries the next numbers of virtual stages in both directions, and the other schedules that the framework has. */
static ls_status try_schedule(changes *all) {
    const ls_knobs *l = &all->from->layout;
    if (l->pp < 2) return LS_OK;
    for (int step = -1; step <= 1; step += 2) {
        ls_knobs to = *l;
        to.virtual_stages = other_chunks(all, step);
        if (to.virtual_stages < 1) continue;
        to.schedule = to.virtual_stages > 1 ? LS_SCHEDULE_INTERLEAVED : LS_SCHEDULE_1F1B;
        LS_TRY(CONSIDER(all, &to, "%d virtual stages instead of %d", to.virtual_stages, l->virtual_stages));
    }
    if (l->virtual_stages > 1) return LS_OK;
    for (int kind = LS_SCHEDULE_1F1B; kind < LS_SCHEDULE_KINDS; kind++) {
        ls_knobs to = *l;
        to.schedule = (ls_schedule_kind)kind;
        bool has = kind == LS_SCHEDULE_1F1B || (kind == LS_SCHEDULE_ZERO_BUBBLE && all->task->stack.zero_bubble);
        if (to.schedule == l->schedule || !has) continue;
        LS_TRY(CONSIDER(all, &to, "schedule %s instead of %s", ls_schedule_kind_name(to.schedule),
                        ls_schedule_kind_name(l->schedule)));
    }
    return LS_OK;
}

/* Tries the ZeRO stages beside the present one, and every other kind of recomputation. */
static ls_status try_memory_knobs(changes *all) {
    const ls_knobs *l = &all->from->layout;
    for (int zero = l->zero - 1; zero <= l->zero + 1; zero += 2) {
        ls_knobs to = *l;
        to.zero = zero;
        if (zero > 1 && l->pp > 1 && !all->task->stack.sharded_stages) continue;
        if (l->dp > 1) LS_TRY(CONSIDER(all, &to, "ZeRO %d instead of %d", zero, l->zero));
    }
    for (int kind = 0; kind < LS_RECOMPUTE_KINDS; kind++) {
        ls_knobs to = *l;
        to.recompute = (ls_recompute)kind;
        bool same = kind == LS_RECOMPUTE_SELECTIVE && all->task->stack.flash && all->task->stack.selective_share < 0;
        if (to.recompute == l->recompute || same) continue;
        LS_TRY(CONSIDER(all, &to, "recomputation %s instead of %s", ls_recompute_name(to.recompute),
                        ls_recompute_name(l->recompute)));
    }
    return LS_OK;
}

/* Sets the micro-batch, or the next smaller one that divides the batch of a replica. */
static void fit_micro(const changes *all, ls_knobs *to) {
    size_t share = all->task->global_batch / (size_t)(to->dp > 0 ? to->dp : 1);
    while (to->micro > 1 && (share % to->micro != 0)) to->micro--;
}

/* Tries moving a factor of two between dp, tp and pp, with the knobs that depend on them adapted. */
static ls_status try_mesh(changes *all) {
    const ls_knobs *l = &all->from->layout;
    for (int up = 0; up < 3; up++)
        for (int down = 0; down < 3; down++) {
            ls_knobs to = *l;
            int *ways[] = {&to.dp, &to.tp, &to.pp};
            if (up == down || *ways[down] % 2 != 0) continue;
            *ways[up] *= 2;
            *ways[down] /= 2;
            int node = all->task->cluster.site[0].node;
            if (to.tp > node && to.tp > l->tp) continue;
            to.sequence_parallel = to.tp > 1 && (l->sequence_parallel || l->tp == 1);
            if (to.pp == 1 || (int)all->task->shape.L % (to.pp * to.virtual_stages) != 0) {
                to.virtual_stages = 1;
                if (l->virtual_stages > 1) to.schedule = LS_SCHEDULE_1F1B;
            }
            if (to.dp == 1) to.zero = 0;
            if (to.zero > 1 && to.pp > 1 && l->pp == 1 && !all->task->stack.sharded_stages) to.zero = 1;
            fit_micro(all, &to);
            LS_TRY(CONSIDER(all, &to, "%s %d and %s %d instead of %d and %d", ls_mesh_axis_name((ls_axis)up), *ways[up],
                            ls_mesh_axis_name((ls_axis)down), *ways[down], *ways[up] / 2, *ways[down] * 2));
        }
    return LS_OK;
}

/* Tries overlapped collectives, sequence parallelism, fp8 matmuls, and twice the global batch (the only change of the
 * result). */
static ls_status try_program(changes *all) {
    ls_knobs to = all->from->layout;
    const ls_plan_task *task = all->task;
    if (to.tp > 1 && !to.tp_overlap && task->stack.tp_hidden < .56) {
        to.tp_overlap = true;
        LS_TRY(CONSIDER(all, &to, "tensor-parallel collectives in chunks, overlapped with matmuls"));
    }
    to = all->from->layout;
    if (to.tp > 1 && !to.sequence_parallel) {
        to.sequence_parallel = true;
        LS_TRY(CONSIDER(all, &to, "sequence parallelism"));
    }
    to = all->from->layout;
    bool has8 = true;
    for (int i = 0; i < task->cluster.sites; i++) has8 = has8 && task->cluster.site[i].chip.peak_flops[LS_PLAN_FP8] > 0;
    if (has8 && (to.type == LS_PLAN_BF16 || to.type == LS_PLAN_FP16)) {
        to.type = LS_PLAN_FP8;
        LS_TRY(CONSIDER(all, &to, "matmuls in fp8 instead of %s (watch the loss)",
                        ls_plan_type_name(all->from->layout.type)));
    }
    ls_plan_task larger = *task;
    larger.global_batch *= 2;
    return consider(all, &larger, &all->from->layout, false, 2,
                    "global batch %zu instead of %zu, per token (changes the result)", larger.global_batch,
                    task->global_batch);
}

/* ---- hardware ---------------------------------------------------------------------------------------------------- */

/* Tries links of twice the bandwidth inside and between nodes, and of four times between sites. */
static ls_status try_links(changes *all) {
    ls_plan_task task = *all->task;
    const ls_knobs *l = &all->from->layout;
    const ls_link *inside = &all->task->cluster.site[0].inside, *between = &all->task->cluster.site[0].between;
    if (task.cluster.site[0].node > 1 && ls_cluster_chips(&task.cluster) > 1) {
        for (int i = 0; i < task.cluster.sites; i++) task.cluster.site[i].inside.bandwidth *= 2;
        LS_TRY(consider(all, &task, l, true, 1, "%s inside nodes instead of %s", ls_link_rate_text(inside, 2).text,
                        ls_link_rate_text(inside, 1).text));
    }
    task = *all->task;
    if (task.cluster.site[0].chips > task.cluster.site[0].node) {
        for (int i = 0; i < task.cluster.sites; i++) task.cluster.site[i].between.bandwidth *= 2;
        LS_TRY(consider(all, &task, l, true, 1, "%s between nodes instead of %s", ls_link_rate_text(between, 2).text,
                        ls_link_rate_text(between, 1).text));
    }
    task = *all->task;
    if (task.cluster.sites < 2) return LS_OK;
    const ls_link *across = &all->task->cluster.across;
    task.cluster.across.bandwidth *= 4;
    return consider(all, &task, l, true, 1, "%s between the sites instead of %s", ls_link_rate_text(across, 4).text,
                    ls_link_rate_text(across, 1).text);
}

/* Tries chips with twice the memory: the layout is searched again, with only the number type kept. */
static ls_status try_more_memory(changes *all) {
    ls_plan_task task = *all->task;
    ls_layout_request request = ls_layout_request_none();
    double now = all->from->prediction.capacity_bytes;
    ls_plan_choice best;
    if (all->count == LS_PLAN_CHANGES_MAX) return LS_OK;
    for (int i = 0; i < task.cluster.sites; i++) task.cluster.site[i].chip.memory_bytes *= 2;
    ls_knob_give(&request, LS_KNOB_type, all->from->layout.type);
    ls_status status = ls_plan_fastest(&task, &request, 0, &best);
    if (status == LS_OK && best.prediction.seconds > 0) {
        ls_plan_change *c = &all->out[all->count++];
        *c = (ls_plan_change){.hardware = true, .to = best};
        c->gain = 1 - c->to.prediction.seconds / all->from->prediction.seconds;
        snprintf(c->what, sizeof c->what, "%.4g GiB of memory instead of %.4g, with a new layout", 2 * now / GIB,
                 now / GIB);
    }
    return status;
}

/* Sorts by gain, largest first; equal ones keep their order. */
static void sort_changes(ls_plan_change *list, int count) {
    for (int i = 1; i < count; i++) {
        ls_plan_change one = list[i];
        int at = i;
        for (; at > 0 && list[at - 1].gain < one.gain; at--) list[at] = list[at - 1];
        list[at] = one;
    }
}

ls_status ls_plan_changes(const ls_plan_task *task, const ls_plan_choice *choice, ls_plan_change *out, int *count) {
    changes all = {.task = task, .from = choice, .out = out};
    *count = 0;
    LS_TRY(try_micro(&all));
    LS_TRY(try_schedule(&all));
    LS_TRY(try_memory_knobs(&all));
    LS_TRY(try_mesh(&all));
    LS_TRY(try_program(&all));
    LS_TRY(try_links(&all));
    LS_TRY(try_more_memory(&all));
    sort_changes(out, all.count);
    *count = all.count;
    return LS_OK;
}
