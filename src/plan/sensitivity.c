/* sensitivity.c: predicts the choice again with half the bandwidth and with less memory, and what would be chosen then.
 */
#include "plan/sensitivity.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/cost/cost_case.h"

/* Returns the task with half the bandwidth of the links that other jobs may share: between nodes and sites or, with one
 * node, inside it. Sets out->link to the unchanged link, and out->where. */
static ls_plan_task with_slow_links(const ls_plan_task *task, ls_plan_sensitivity *out) {
    ls_plan_task slow = *task;
    ls_cluster *cluster = &slow.cluster;
    bool nodes = false;
    for (int i = 0; i < cluster->sites; i++) nodes = nodes || cluster->site[i].chips > cluster->site[i].node;
    for (int i = 0; i < cluster->sites; i++) {
        cluster->site[i].between.bandwidth *= LS_PLAN_LINK_SHARE;
        if (!nodes && cluster->sites == 1) cluster->site[i].inside.bandwidth *= LS_PLAN_LINK_SHARE;
    }
    cluster->across.bandwidth *= LS_PLAN_LINK_SHARE;
    const ls_cluster *was = &task->cluster;
    out->link = was->sites > 1 ? was->across : nodes ? was->site[0].between : was->site[0].inside;
    out->where = was->sites > 1 ? nodes ? "between sites and nodes" : "between the sites"
                 : nodes        ? "between nodes"
                                : "in the node";
    return slow;
}

typedef struct guarded {
    ls_knobs layout;
    double bound; /* lower bound of the step with slow links, seconds */
} guarded;

/* The candidates for the robust layout: those that add_to_guard() keeps. */
typedef struct guard {
    const ls_plan_task *task, *slow;
    double longest; /* step time that a robust layout may have with the links as they are, seconds */
    guarded *item;
    size_t count;
} guard;

/* Visitor: keeps layouts whose lower bound on the links as they are is at most g->longest and that fit in
 * LS_PLAN_MEMORY_SHARE of the memory, with a lower bound of their time with slow links. */
static ls_status add_to_guard(void *state, const ls_knobs *layout) {
    guard *g = state;
    ls_prediction bound;
    LS_TRY(ls_plan_bound(g->task, layout, &bound));
    if (bound.seconds > g->longest || bound.memory_bytes > LS_PLAN_MEMORY_SHARE * bound.capacity_bytes) return LS_OK;
    LS_TRY(ls_plan_bound(g->slow, layout, &bound));
    LS_TRY(ls_array_grow(&g->item, g->count, sizeof *g->item, "layouts"));
    g->item[g->count++] = (guarded){*layout, bound.seconds};
    return LS_OK;
}

/* Orders layouts by their bound with slow links, for qsort(). */
static int by_bound(const void *left, const void *right) {
    const guarded *a = left, *b = right;
    return a->bound < b->bound ? -1 : a->bound > b->bound;
}

/* Replaces the robust layout by one with fewer virtual stages, and equal other knobs, that is nearly as fast with slow
 * links (within LS_PLAN_NEARLY) and still within g->longest on links as they are; as the search does. */
static ls_status simplify(const guard *g, ls_plan_sensitivity *out) {
    double most = out->robust_link_seconds * (1 + LS_PLAN_NEARLY);
    for (size_t i = 0; i < g->count; i++) {
        ls_plan_choice choice = {.layout = g->item[i].layout};
        ls_knobs same = choice.layout;
        ls_prediction slow;
        same.virtual_stages = out->robust.layout.virtual_stages;
        same.schedule = out->robust.layout.schedule;
        if (choice.layout.virtual_stages >= same.virtual_stages || g->item[i].bound > most) continue;
        if (!ls_knobs_equal(&same, &out->robust.layout)) continue;
        LS_TRY(ls_plan_predict(g->slow, &choice.layout, &slow));
        LS_TRY(ls_plan_predict(g->task, &choice.layout, &choice.prediction));
        if (slow.seconds > most || choice.prediction.seconds > g->longest) continue;
        out->robust_link_seconds = slow.seconds;
        out->robust = choice;
    }
    return LS_OK;
}

/* Finds the layout of the guard's list with the shortest step on slow links, and stores it in out->robust. It must beat
 * the chosen layout on slow links by the share LS_PLAN_COLLAPSE, and take at most g->longest on links as they are. If
 * none does, out->robust keeps its seconds of 0. Errors are those of the predictions. The list is sorted by bound. */
static ls_status find_robust(const guard *g, ls_plan_sensitivity *out) {
    double best = out->slow.seconds * (1 - LS_PLAN_COLLAPSE);
    for (size_t i = 0; i < g->count && g->item[i].bound < best; i++) {
        ls_plan_choice choice = {.layout = g->item[i].layout};
        ls_prediction slow;
        LS_TRY(ls_plan_predict(g->slow, &choice.layout, &slow));
        if (slow.seconds >= best) continue;
        LS_TRY(ls_plan_predict(g->task, &choice.layout, &choice.prediction));
        if (choice.prediction.seconds > g->longest) continue;
        best = out->robust_link_seconds = slow.seconds;
        out->robust = choice;
    }
    return out->robust.prediction.seconds > 0 ? simplify(g, out) : LS_OK;
}

/* Finds the robust layout among all of the task; `seconds`: the step of the fastest. Leaves out->robust empty if there
 * is none. */
static ls_status search_robust(const ls_plan_task *task, const ls_plan_task *slow, const ls_layout_request *request,
                               double seconds, ls_plan_sensitivity *out) {
    guard g = {.task = task, .slow = slow, .longest = seconds * (1 + LS_PLAN_ROBUST_WITHIN)};
    ls_status status = ls_plan_space(task, request, add_to_guard, &g);
    if (g.count > 0) qsort(g.item, g.count, sizeof *g.item, by_bound);
    if (status == LS_OK) status = find_robust(&g, out);
    free(g.item);
    return status;
}

ls_status ls_plan_sensitivity_find(const ls_plan_task *task, const ls_layout_request *request,
                                   const ls_plan_found *found, double error, ls_plan_sensitivity *out) {
    const ls_plan_choice *best = &found->fits[0];
    double seconds = best->prediction.seconds;
    memset(out, 0, sizeof *out);
    ls_plan_task usable = ls_plan_usable(task, request), slow = with_slow_links(&usable, out), small = usable;
    LS_TRY(ls_plan_predict(&slow, &best->layout, &out->slow));
    LS_TRY(ls_plan_fastest(&slow, request, 0, &out->link_best));
    out->fits_less = best->prediction.memory_bytes <= LS_PLAN_MEMORY_SHARE * best->prediction.capacity_bytes;
    for (int i = 0; i < small.cluster.sites; i++) small.cluster.site[i].chip.memory_bytes *= LS_PLAN_MEMORY_SHARE;
    if (out->fits_less)
        out->memory_best = *best;
    else
        LS_TRY(ls_plan_fastest(&small, request, 0, &out->memory_best));
    for (int i = 1; i < found->fitting; i++) out->near += found->fits[i].prediction.seconds < seconds * (1 + error);
    if (out->slow.seconds <= seconds * (1 + LS_PLAN_COLLAPSE)) return LS_OK;
    return search_robust(&usable, &slow, request, seconds, out);
}
