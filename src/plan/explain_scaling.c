/* explain_scaling.c: what stops a model from scaling: the kind of time whose chip-seconds grow most with the devices,
 * and the change that reduces mainly that kind. Costs that every size has in equal share are not a bottleneck. */
#include <stdlib.h>
#include <string.h>

#include "plan/explain.h"

/* If the chip-seconds of a step grow by less than this share, the model scales. */
static const double GROWS = .01;
/* A change treats a kind of time if at least this share of what it saves is of that kind. */
static const double TREATS = .5;

/* Returns the chip-seconds of a step; 0 if nothing fits at that size. */
static double cost(const ls_plan_point *p) { return p->chips * p->best.prediction.seconds; }

/* Returns the size up to `most` chips with the fewest chip-seconds per step; NULL: none. */
static const ls_plan_point *cheapest(const ls_plan_point *points, int count, int most) {
    const ls_plan_point *best = NULL;
    for (int i = 0; i < count; i++) {
        const ls_plan_point *p = &points[i];
        if (p->tokens_per_second > 0 && p->chips <= most && (!best || cost(p) < cost(best))) best = p;
    }
    return best;
}

/* Returns the largest size up to `most` chips at which a layout fits; NULL: none. */
static const ls_plan_point *last_of(const ls_plan_point *points, int count, int most) {
    const ls_plan_point *last = NULL;
    for (int i = 0; i < count; i++)
        if (points[i].tokens_per_second > 0 && points[i].chips <= most) last = &points[i];
    return last;
}

/* Sets out->from and out->to: the cheapest size, and the largest that fits up to the cluster's own or, if the cost does
 * not grow by GROWS up to there, the largest of all. Returns false if it does not grow by GROWS up to that either. */
static bool set_ends(const ls_plan_point *points, int count, int own, ls_plan_bottleneck *out) {
    const int limits[] = {own, points[count - 1].chips};
    for (int i = 0; i < 2; i++) {
        const ls_plan_point *from = cheapest(points, count, limits[i]), *to = last_of(points, count, limits[i]);
        if (!from || !to || from->chips >= to->chips || cost(to) < cost(from) * (1 + GROWS)) continue;
        out->from = *from;
        out->to = *to;
        return true;
    }
    return false;
}

/* Returns the seconds of this kind that a change saves for the same number of tokens; negative: it costs more. */
static double saves(const ls_prediction *from, const ls_prediction *to, ls_time_kind kind) {
    double per = to->model_flops > 0 ? from->model_flops / to->model_flops : 1;
    return from->time[kind] - per * to->time[kind];
}

/* Sets the treatment to the change with the largest gain (.2 % at least) of whose saving at least the share TREATS is
 * of out->kind; leaves is_treated false if there is none. */
static ls_status find_treatment(const ls_plan_task *task, ls_plan_bottleneck *out) {
    ls_plan_change *list = calloc(LS_PLAN_CHANGES_MAX, sizeof *list);
    const ls_prediction *now = &out->to.best.prediction;
    int count;
    if (!list) return ls_fail(LS_ERR_RESOURCE, "out of memory for changes of a layout");
    ls_status status = ls_plan_changes(task, &out->to.best, list, &count);
    for (int i = 0; status == LS_OK && i < count; i++) {
        double saved = saves(now, &list[i].to.prediction, out->kind), gain = list[i].gain * now->seconds;
        if (list[i].gain < .002 || saved < TREATS * gain || out->is_treated) continue;
        out->treatment = list[i]; /* the largest gain comes first */
        out->treated_seconds = saved;
        out->is_treated = true;
    }
    free(list);
    return status;
}

ls_status ls_plan_bottleneck_find(const ls_plan_task *task, const ls_plan_point *points, int count,
                                  ls_plan_bottleneck *out) {
    memset(out, 0, sizeof *out);
    if (count < 2 || !set_ends(points, count, ls_cluster_chips(&task->cluster), out)) return LS_OK;
    out->is_there = true;
    out->growth = cost(&out->to) / cost(&out->from) - 1;
    for (int k = 0; k < LS_TIME_KINDS; k++) {
        out->more[k] =
            out->to.chips * out->to.best.prediction.time[k] - out->from.chips * out->from.best.prediction.time[k];
        if (out->more[k] > out->more[out->kind]) out->kind = (ls_time_kind)k;
    }
    ls_plan_task resized;
    if (!ls_plan_resize(task, out->to.chips, true, &resized)) return LS_OK;
    return find_treatment(&resized, out);
}
