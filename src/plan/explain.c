/* explain.c: where the time of a step goes beyond useful computing, which technique saves how much memory, and the same
 * model on fewer and on more chips. */
#include "plan/explain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cost/cost_case.h"

/* Returns the FLOPs of attention; with flash attention, which skips what the causal mask hides, half of what
 * model_flops counts. */
static double attention_flops(const ls_plan_task *task) {
    const ls_shape *shape = &task->shape;
    double n = (double)task->seq * (double)task->global_batch;
    double all = 12 * n * (double)task->seq * (double)ls_shape_query_width(shape) * (double)shape->L;
    return task->stack.flash ? all / 2 : all;
}

/* What can be the worst loss: not the work itself. */
static const unsigned avoidable = 1u << LS_TIME_SMALL | 1u << LS_TIME_RECOMPUTE | 1u << LS_TIME_TP |
                                  1u << LS_TIME_GATHER | 1u << LS_TIME_P2P | 1u << LS_TIME_BUBBLE | 1u << LS_TIME_DP;

void ls_plan_losses_of(const ls_plan_task *task, const ls_plan_choice *choice, ls_plan_losses *out) {
    ls_plan_case c = ls_plan_case_of(task, &choice->layout);
    double rate = ls_plan_rate(&c.site->chip, choice->layout.type) * ls_plan_chips(&choice->layout);
    if (ls_plan_sites_differ(&task->cluster)) {
        rate = 0;
        for (int i = 0; i < task->cluster.sites; i++)
            rate += ls_plan_rate(&task->cluster.site[i].chip, choice->layout.type) * task->cluster.site[i].chips;
    }
    double n = (double)task->seq * (double)task->global_batch;
    double head = 6 * n * (double)task->shape.V * (double)task->shape.C / rate,
           attention = attention_flops(task) / rate;
    double layers = 6 * n * ls_shape_layer_matrix_elems(&task->shape) * (double)task->shape.L / rate;
    memcpy(out->lost, choice->prediction.time, sizeof out->lost);
    out->useful = head + attention + layers;
    out->lost[LS_TIME_MATMUL] -= layers;
    out->lost[LS_TIME_ATTENTION] -= attention;
    out->lost[LS_TIME_ENDS] -= head;
    /* The stage with most to do need not be the one with the head: that it has more layers makes up for it. */
    if (out->lost[LS_TIME_ENDS] < 0) {
        out->lost[LS_TIME_MATMUL] += out->lost[LS_TIME_ENDS];
        out->lost[LS_TIME_ENDS] = 0;
    }
    out->worst = LS_TIME_SMALL;
    for (int k = 0; k < LS_TIME_KINDS; k++) {
        if (out->lost[k] < 0) { /* better than the rate of large matmuls: then that much was not needed */
            out->useful += out->lost[k];
            out->lost[k] = 0;
        }
        if (avoidable >> k & 1 && out->lost[k] > out->lost[out->worst]) out->worst = (ls_time_kind)k;
    }
}

/* ---- memory, step by step ---------------------------------------------------------------------------------------- */

typedef struct climb {
    ls_plan_task task;
    ls_knobs at;
    ls_plan_rung *rung;
    int count;
} climb;

/* Appends a rung: the memory of the layout reached so far, under the formatted name. */
__attribute__((format(printf, 2, 3))) static ls_status add_rung(climb *c, const char *format, ...) {
    ls_prediction p;
    ls_plan_rung *rung = &c->rung[c->count];
    if (c->count == LS_PLAN_RUNGS_MAX) return ls_fail(LS_ERR_FAILED, "more rungs than a ladder has");
    va_list args;
    va_start(args, format);
    vsnprintf(rung->what, sizeof rung->what, format, args);
    va_end(args);
    LS_TRY(ls_plan_bound(&c->task, &c->at, &p));
    memcpy(rung->memory, p.memory, sizeof rung->memory);
    rung->bytes = p.memory_bytes;
    c->count++;
    return LS_OK;
}

/* Applies the layout's pipeline knobs to the climb, and appends their rung. */
static ls_status add_pipeline(climb *c, const ls_knobs *l) {
    c->at.pp = l->pp;
    c->at.virtual_stages = l->virtual_stages;
    c->at.schedule = l->schedule;
    if (l->virtual_stages > 1)
        return add_rung(c, "pipeline over %d stages of %d chunks, %s", l->pp, l->virtual_stages,
                        ls_schedule_kind_name(l->schedule));
    return add_rung(c, "pipeline over %d stages, %s", l->pp, ls_schedule_kind_name(l->schedule));
}

/* Applies dp and ZeRO to the climb with the whole global batch (rungs before have one replica's part), and appends
 * their rung. */
static ls_status add_replicas(climb *c, const ls_knobs *l, size_t batch) {
    static const char *const shared[] = {"", "optimizer state", "optimizer state and gradients", "all model state"};
    c->at.dp = l->dp;
    c->at.zero = l->zero;
    c->task.global_batch = batch;
    if (l->zero == 0) return add_rung(c, "%d full replicas (no ZeRO)", l->dp);
    return add_rung(c, "ZeRO %d: %s sharded across %d replicas", l->zero, shared[l->zero], l->dp);
}

ls_status ls_plan_ladder(const ls_plan_task *task, const ls_knobs *layout, ls_plan_rung *out, int *count) {
    climb c = {.task = *task, .at = *layout, .rung = out};
    c.at.dp = c.at.tp = c.at.pp = c.at.virtual_stages = c.at.context = 1;
    c.at.zero = 0;
    c.at.recompute = LS_RECOMPUTE_NONE;
    c.at.sequence_parallel = c.at.gather_8bit = c.at.pure_16bit = false;
    c.at.schedule = LS_SCHEDULE_1F1B;
    c.at.type = LS_PLAN_FP32;
    c.task.global_batch = (task->global_batch + (size_t)layout->dp - 1) / (size_t)layout->dp;
    *count = 0;
    LS_TRY(add_rung(&c, "one chip, fp32, micro-batch %zu", layout->micro));
    c.at.type = layout->type;
    c.at.pure_16bit = layout->pure_16bit;
    if (layout->type != LS_PLAN_FP32)
        LS_TRY(add_rung(&c, "mixed precision: %s plus fp32 master weights", ls_plan_type_name(layout->type)));
    c.at.tp = layout->tp;
    if (layout->tp > 1) LS_TRY(add_rung(&c, "tensor parallelism over %d chips", layout->tp));
    c.at.sequence_parallel = layout->sequence_parallel;
    if (layout->sequence_parallel)
        LS_TRY(add_rung(&c, "sequence parallelism (activations between matmuls sharded too)"));
    c.at.context = layout->context;
    if (layout->context > 1) LS_TRY(add_rung(&c, "context parallelism over %d chips", layout->context));
    if (layout->pp > 1) LS_TRY(add_pipeline(&c, layout));
    if (layout->dp > 1) LS_TRY(add_replicas(&c, layout, task->global_batch));
    c.at = *layout;
    if (layout->recompute != LS_RECOMPUTE_NONE)
        LS_TRY(add_rung(&c, "%s recomputation", ls_recompute_name(layout->recompute)));
    *count = c.count;
    return LS_OK;
}

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

/* Lists sizes in chips, ascending: one node of each site (or one chip, if the cluster is no larger than that), doubled
 * up to `most`, and the cluster's own. Returns their number, at most LS_PLAN_POINTS_MAX. */
static int sizes_of(const ls_cluster *cluster, int most, int *sizes) {
    int own = ls_cluster_chips(cluster), count = 0, unit = cluster->site[0].node * cluster->sites;
    if (own <= unit) unit = cluster->sites;
    for (long long n = unit; n <= most && count < LS_PLAN_POINTS_MAX; n *= 2) {
        if (count > 0 && own > sizes[count - 1] && own < n && count < LS_PLAN_POINTS_MAX - 1) sizes[count++] = own;
        sizes[count++] = (int)n;
    }
    if (count > 0 && sizes[count - 1] < own && own <= most && count < LS_PLAN_POINTS_MAX) sizes[count++] = own;
    return count;
}

bool ls_plan_resize(const ls_plan_task *task, int chips, bool strong, ls_plan_task *out) {
    long long own = ls_cluster_chips(&task->cluster);
    *out = *task;
    for (int i = 0; i < task->cluster.sites; i++) {
        long long part = (long long)task->cluster.site[i].chips * chips;
        if (part % own != 0 || part == 0) return false;
        out->cluster.site[i].chips = (int)(part / own);
    }
    if (!strong) {
        double batch = (double)task->global_batch * chips / (double)own;
        out->global_batch = batch < 1 ? 1 : (size_t)(batch + .5);
    }
    return ls_cluster_check(&out->cluster) == LS_OK;
}

/* Returns tokens per second; 0 if the choice is empty or does not fit. */
static double rate_of(const ls_plan_task *task, const ls_plan_choice *choice) {
    double seconds = choice->prediction.seconds;
    return seconds > 0 ? (double)task->global_batch * (double)task->seq / seconds : 0;
}

/* Predicts the given layout with dp scaled to the task's chips; seconds 0: impossible, or it does not fit. */
static ls_status predict_held(const ls_plan_task *task, const ls_plan_choice *choice, ls_plan_choice *out) {
    int chips = ls_cluster_chips(&task->cluster), row = ls_plan_chips(&choice->layout) / choice->layout.dp;
    memset(out, 0, sizeof *out);
    if (chips % row != 0) return LS_OK;
    out->layout = choice->layout;
    out->layout.dp = chips / row;
    if (ls_plan_check(task, &out->layout) != LS_OK) return LS_OK;
    LS_TRY(ls_plan_predict(task, &out->layout, &out->prediction));
    if (!ls_prediction_fits(&out->prediction)) out->prediction.seconds = 0;
    return LS_OK;
}

/* Finds the fastest layout with the given knobs, except dp, because more chips have more replicas. *out is all 0 if
 * none fits. */
static ls_status choose_fastest(const ls_plan_task *task, const ls_layout_request *request, ls_plan_choice *out) {
    ls_layout_request open = *request;
    ls_knob_leave_open(&open, LS_KNOB_dp);
    ls_status status = ls_plan_fastest(task, &open, 0, out);
    return status == LS_ERR_INPUT ? LS_OK : status; /* nothing is possible at this size */
}

ls_status ls_plan_scaling(const ls_plan_task *task, const ls_layout_request *request, const ls_plan_choice *choice,
                          int most, bool strong, ls_plan_point *out, int *count) {
    ls_plan_task usable = ls_plan_usable(task, request);
    int sizes[LS_PLAN_POINTS_MAX + 1], n = sizes_of(&task->cluster, most, sizes);
    double most_each = 0;
    *count = 0;
    for (int i = 0; i < n && *count < LS_PLAN_POINTS_MAX; i++) {
        ls_plan_task resized;
        ls_plan_point *point = &out[*count];
        *point = (ls_plan_point){.chips = sizes[i]};
        if (!ls_plan_resize(&usable, sizes[i], strong, &resized)) continue;
        LS_TRY(choose_fastest(&resized, request, &point->best));
        LS_TRY(predict_held(&resized, choice, &point->held));
        /* The search gives up a little to be simpler, and divides the batch evenly where that is possible: where the
         * layout held is faster, it is what one would choose. */
        double held = point->held.prediction.seconds;
        if (held > 0 && held < point->best.prediction.seconds) point->best = point->held;
        if (*count == 0 && point->best.prediction.seconds <= 0) continue; /* too few */
        point->tokens_per_second = rate_of(&resized, &point->best);
        point->held_tokens_per_second = rate_of(&resized, &point->held);
        double each = point->tokens_per_second / point->chips;
        if (each > most_each) most_each = each;
        (*count)++;
    }
    for (int i = 0; i < *count; i++) out[i].ideal_tokens_per_second = most_each * out[i].chips;
    return LS_OK;
}
