/* search.c: the fastest layouts of a task, and the nearest that do not fit.
 *
 * Every layout gets a bound first: its exact memory, and a time below which no schedule can take it. Those that fit are
 * then predicted in the order of their bounds, until the bound is above the slowest layout that is kept: a layout that
 * was not simulated could not have entered the list. */
#include "plan/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/cost/cost_case.h"

typedef struct candidate {
    ls_knobs layout;
    double seconds, lacks; /* lower bound of the step; bytes above the chip's capacity, at most 0: it fits */
    size_t order;          /* number in the enumeration, which decides between equal ones */
    bool slower;           /* than the best that fits */
} candidate;

typedef struct candidates {
    const ls_plan_task *task;
    bool first_alone; /* only the fastest layout is wanted: those that do not fit are not kept, */
    double limit;     /* nor those above this many seconds; 0: no limit */
    candidate *item;
    size_t count;
    long long fit; /* items that fit: the first ones, once they are sorted */
} candidates;

ls_plan_task ls_plan_usable(const ls_plan_task *task, const ls_layout_request *request) {
    ls_plan_task out = *task;
    ls_site *site = out.cluster.site;
    int two = out.cluster.sites > 1, least = two && site[1].chip.memory_bytes < site[0].chip.memory_bytes;
    double all = site[least].chip.memory_bytes, usable = request->memory_bytes;
    if (!(usable > 0) || usable >= all) return out;
    if (two) site[!least].chip.memory_bytes *= usable / all;
    site[least].chip.memory_bytes = usable;
    return out;
}

/* Visitor of ls_plan_space(): computes the bound of a layout, and keeps it as a candidate unless only the first is
 * wanted and it cannot be that. */
static ls_status add_candidate(void *state, const ls_knobs *layout) {
    candidates *all = state;
    ls_prediction bound;
    LS_TRY(ls_plan_bound(all->task, layout, &bound));
    double lacks = bound.memory_bytes - bound.capacity_bytes;
    if (all->first_alone && (lacks > 0 || (all->limit > 0 && bound.seconds > all->limit))) return LS_OK;
    LS_TRY(ls_array_grow(&all->item, all->count, sizeof *all->item, "layouts"));
    all->item[all->count] =
        (candidate){.layout = *layout, .seconds = bound.seconds, .lacks = lacks, .order = all->count};
    all->count++;
    return LS_OK;
}

/* Compares two numbers, for qsort(). */
static int by_number(double a, double b) { return a < b ? -1 : a > b; }

/* Compares the numbers of the enumeration, for qsort(). */
static int by_order(const candidate *a, const candidate *b) { return a->order < b->order ? -1 : a->order > b->order; }

/* Orders layouts that fit before others, and those by time. */
static int by_seconds(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    bool fits = a->lacks <= 0;
    if (fits != (b->lacks <= 0)) return fits ? -1 : 1;
    int by = by_number(a->seconds, b->seconds);
    return by ? by : by_order(a, b);
}

/* Orders layouts whose bound is below the best time that fits before others, and both by missing memory. */
static int by_lack(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->slower != b->slower) return a->slower ? 1 : -1;
    int by = by_number(a->lacks, b->lacks);
    if (!by) by = by_number(a->seconds, b->seconds);
    return by ? by : by_order(a, b);
}

/* Returns whether two layouts compete for one place among those kept: they differ only in knobs such as micro-batch and
 * schedule. */
static bool same_kind(const ls_knobs *a, const ls_knobs *b) {
    return a->dp == b->dp && a->tp == b->tp && a->pp == b->pp && a->zero == b->zero && a->recompute == b->recompute &&
           a->stages_across == b->stages_across && a->context == b->context &&
           (a->shard_group > 0) == (b->shard_group > 0);
}

/* Returns the index of the kept layout of the same kind; −1: none. */
static int find_kind(const ls_plan_choice *list, int count, const ls_knobs *layout) {
    for (int i = 0; i < count; i++)
        if (same_kind(&list[i].layout, layout)) return i;
    return -1;
}

/* Returns whether a is faster, or as fast with less memory. */
static bool is_better(const ls_prediction *a, const ls_prediction *b) {
    return a->seconds < b->seconds || (a->seconds <= b->seconds && a->memory_bytes < b->memory_bytes);
}

/* Inserts the choice in order, if it is good enough, and drops the slowest if the list is full. `same`: where a layout
 * of its kind is kept now, which it replaces only if it is better; −1: none. */
static void insert_kept(ls_plan_found *out, const ls_plan_choice *choice, int same) {
    if (same >= 0) {
        if (!is_better(&choice->prediction, &out->fits[same].prediction)) return;
        memmove(&out->fits[same], &out->fits[same + 1], (size_t)(out->fitting - same - 1) * sizeof *out->fits);
        out->fitting--;
    }
    int at = out->fitting;
    while (at > 0 && is_better(&choice->prediction, &out->fits[at - 1].prediction)) at--;
    if (at == LS_PLAN_KEPT) return;
    if (out->fitting == LS_PLAN_KEPT) out->fitting--;
    memmove(&out->fits[at + 1], &out->fits[at], (size_t)(out->fitting - at) * sizeof *out->fits);
    out->fits[at] = *choice;
    out->fitting++;
}

/* Sorts by time, fastest first; equal ones keep their order. */
static void sort_kept(ls_plan_found *out) {
    for (int i = 1; i < out->fitting; i++) {
        ls_plan_choice one = out->fits[i];
        int at = i;
        for (; at > 0 && is_better(&one.prediction, &out->fits[at - 1].prediction); at--)
            out->fits[at] = out->fits[at - 1];
        out->fits[at] = one;
    }
}

/* Predicts the layout into *out. */
static ls_status predict_layout(const candidates *all, const ls_knobs *layout, ls_plan_choice *out) {
    out->layout = *layout;
    return ls_plan_predict(all->task, layout, &out->prediction);
}

/* Returns the time above which no further layout can enter the list; infinite while there is room. */
static double worst_kept(const candidates *all, const ls_plan_found *out) {
    if (all->first_alone && out->fitting > 0) return out->fits[0].prediction.seconds * (1 + LS_PLAN_NEARLY);
    return out->fitting == LS_PLAN_KEPT ? out->fits[LS_PLAN_KEPT - 1].prediction.seconds : (double)INFINITY;
}

/* Predicts candidates in the order of their bounds, and keeps the fastest in out->fits. out->fit must be set. */
static ls_status choose_kept(const candidates *all, ls_plan_found *out) {
    for (size_t i = 0; i < (size_t)out->fit; i++) {
        const candidate *c = &all->item[i];
        if (c->seconds > worst_kept(all, out)) break;
        int same = find_kind(out->fits, out->fitting, &c->layout);
        if (same >= 0 && c->seconds > out->fits[same].prediction.seconds) continue;
        ls_plan_choice choice;
        LS_TRY(predict_layout(all, &c->layout, &choice));
        insert_kept(out, &choice, same);
    }
    return LS_OK;
}

/* Replaces each kept layout by the one with the fewest virtual stages that is nearly as fast: more of them mean more
 * messages, and predictions are not that exact. */
static ls_status simplify(const candidates *all, ls_plan_found *out) {
    /* Of the first alone, those whose simpler forms may be the first. */
    for (int k = 0; k < out->fitting; k++)
        if (out->fits[k].prediction.seconds > worst_kept(all, out)) out->fitting = k;
    for (int k = 0; k < out->fitting; k++) {
        double most = out->fits[k].prediction.seconds * (1 + LS_PLAN_NEARLY);
        for (size_t i = 0; i < (size_t)out->fit; i++) {
            const candidate *c = &all->item[i];
            ls_knobs same = c->layout;
            same.virtual_stages = out->fits[k].layout.virtual_stages;
            same.schedule = out->fits[k].layout.schedule;
            bool is_simpler = c->layout.virtual_stages < same.virtual_stages && c->seconds <= most;
            if (!is_simpler || !ls_knobs_equal(&same, &out->fits[k].layout)) continue;
            ls_plan_choice choice;
            LS_TRY(predict_layout(all, &c->layout, &choice));
            if (choice.prediction.seconds <= most) out->fits[k] = choice;
        }
    }
    sort_kept(out);
    return LS_OK;
}

/* Predicts the layouts that fit least badly, one of each kind, into out->lacks. */
static ls_status choose_nearest(candidates *all, ls_plan_found *out) {
    size_t fit = (size_t)out->fit;
    for (size_t i = fit; i < all->count; i++)
        all->item[i].slower = out->fitting > 0 && all->item[i].seconds >= out->fits[0].prediction.seconds;
    if (all->count > fit) qsort(all->item + fit, all->count - fit, sizeof *all->item, by_lack);
    for (size_t i = fit; i < all->count && out->missing < LS_PLAN_KEPT; i++) {
        const ls_knobs *layout = &all->item[i].layout;
        if (find_kind(out->lacks, out->missing, layout) >= 0) continue;
        LS_TRY(predict_layout(all, layout, &out->lacks[out->missing]));
        out->missing++;
    }
    return LS_OK;
}

/* Collects all candidates and sorts them: those that fit first, fastest bound first. Sets all->fit. */
static ls_status gather(const ls_layout_request *request, candidates *all) {
    LS_TRY(ls_plan_space(all->task, request, add_candidate, all));
    if (all->count > 0) qsort(all->item, all->count, sizeof *all->item, by_seconds);
    while ((size_t)all->fit < all->count && all->item[all->fit].lacks <= 0) all->fit++;
    return LS_OK;
}

ls_status ls_plan_search(const ls_plan_task *task, const ls_layout_request *request, ls_plan_found *out) {
    ls_plan_task usable = ls_plan_usable(task, request);
    candidates all = {.task = &usable};
    ls_status status;
    memset(out, 0, sizeof *out);
    LS_TRY_OUT(gather(request, &all));
    out->tried = (long long)all.count;
    out->fit = all.fit;
    LS_TRY_OUT(choose_kept(&all, out));
    LS_TRY_OUT(simplify(&all, out));
    LS_TRY_OUT(choose_nearest(&all, out));
out:
    free(all.item);
    return status;
}

ls_status ls_plan_fastest(const ls_plan_task *task, const ls_layout_request *request, double limit,
                          ls_plan_choice *out) {
    ls_plan_task usable = ls_plan_usable(task, request);
    candidates all = {.task = &usable, .first_alone = true, .limit = limit};
    ls_plan_found found = {0};
    ls_status status;
    memset(out, 0, sizeof *out);
    LS_TRY_OUT(gather(request, &all));
    found.fit = all.fit;
    LS_TRY_OUT(choose_kept(&all, &found));
    LS_TRY_OUT(simplify(&all, &found));
    if (found.fitting > 0 && !(limit > 0 && found.fits[0].prediction.seconds > limit)) *out = found.fits[0];
out:
    free(all.item);
    return status;
}
