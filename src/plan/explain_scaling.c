/* explain_scaling.c: the same model on fewer and on more chips. */
#include <stdlib.h>
#include <string.h>

#include "plan/explain.h"

/* Sizes in chips: a node, then twice as many each time; fewer than a node where that is the cluster. */
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

/* The task on so many chips; sites keep their proportion. False: it cannot be divided so. */
static bool resize(const ls_plan_task *task, int chips, bool strong, ls_plan_task *out) {
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

static double rate_of(const ls_plan_task *task, const ls_plan_choice *choice) {
    double seconds = choice->prediction.seconds;
    return seconds > 0 ? (double)task->global_batch * (double)task->seq / seconds : 0;
}

static ls_status hold(const ls_plan_task *task, const ls_plan_choice *choice, ls_plan_choice *out) {
    int chips = ls_cluster_chips(&task->cluster), row = ls_plan_chips(&choice->layout) / choice->layout.dp;
    memset(out, 0, sizeof *out);
    if (chips % row != 0) return LS_OK;
    out->layout = choice->layout;
    out->layout.dp = chips / row;
    if (ls_plan_check(task, &out->layout) != LS_OK) return LS_OK;
    LS_TRY(ls_plan_predict(task, &out->layout, &out->prediction));
    out->prediction.capacity_bytes = choice->prediction.capacity_bytes;
    if (!ls_prediction_fits(&out->prediction)) out->prediction.seconds = 0;
    return LS_OK;
}

/* Knobs that are given stay, but for dp, of which there are more with more chips. */
static ls_status choose(const ls_plan_task *task, const ls_layout_request *request, ls_plan_found *found,
                        ls_plan_choice *out) {
    ls_layout_request open = *request;
    ls_knob_leave_open(&open, LS_KNOB_dp);
    memset(out, 0, sizeof *out);
    ls_status status = ls_plan_search(task, &open, found);
    if (status == LS_ERR_INPUT) return LS_OK; /* nothing is possible at this size */
    if (status == LS_OK && found->fitting > 0) *out = found->fits[0];
    return status;
}

static ls_status add_points(const ls_plan_task *task, const ls_layout_request *request, const ls_plan_choice *choice,
                            int most, bool strong, ls_plan_found *found, ls_plan_point *out, int *count) {
    int sizes[LS_PLAN_POINTS_MAX + 1], n = sizes_of(&task->cluster, most, sizes);
    for (int i = 0; i < n && *count < LS_PLAN_POINTS_MAX; i++) {
        ls_plan_task resized;
        ls_plan_point *point = &out[*count];
        memset(point, 0, sizeof *point);
        if (!resize(task, sizes[i], strong, &resized)) continue;
        LS_TRY(choose(&resized, request, found, &point->best));
        LS_TRY(hold(&resized, choice, &point->held));
        if (*count == 0 && point->best.prediction.seconds <= 0) continue; /* too few */
        point->chips = sizes[i];
        point->tokens_per_second = rate_of(&resized, &point->best);
        point->held_tokens_per_second = rate_of(&resized, &point->held);
        (*count)++;
    }
    return LS_OK;
}

ls_status ls_plan_scaling(const ls_plan_task *task, const ls_layout_request *request, const ls_plan_choice *choice,
                          int most, bool strong, ls_plan_point *out, int *count) {
    ls_plan_found *found = malloc(sizeof *found);
    *count = 0;
    if (!found) return ls_fail(LS_ERR_RESOURCE, "out of memory for a search");
    ls_status status = add_points(task, request, choice, most, strong, found, out, count);
    free(found);
    double most_each = 0;
    for (int i = 0; i < *count; i++) {
        double each = out[i].tokens_per_second / out[i].chips;
        if (each > most_each) most_each = each;
    }
    for (int i = 0; i < *count; i++) out[i].ideal_tokens_per_second = most_each * out[i].chips;
    return status;
}
