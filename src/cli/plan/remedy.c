/* remedy.c: where nothing fits, what would: more chips of the same kind, or larger ones. */
#include <stdlib.h>
#include <string.h>

#include "cli/plan/command.h"

/* Node by node as far as that, then twice as many each time. */
enum { NODES_TRIED = 32 };

/* The best on a changed cluster, if something fits. */
static ls_status best_of(const ls_plan_question *q, const ls_plan_task *task, ls_plan_found *found, bool *fits,
                         ls_plan_choice *out) {
    ls_layout_request request = q->request;
    double now = q->task.cluster.site[0].chip.memory_bytes, then = task->cluster.site[0].chip.memory_bytes;
    ls_knob_leave_open(&request, LS_KNOB_dp);
    request.memory_bytes *= then / now;
    *fits = false;
    ls_status status = ls_plan_search(task, &request, found);
    if (status == LS_ERR_INPUT) return LS_OK;
    if (status != LS_OK || found->fitting == 0) return status;
    *fits = true;
    *out = found->fits[0];
    return LS_OK;
}

/* The same cluster without the knobs that were given, but for the type. */
static ls_status other_knobs(const ls_plan_question *q, ls_plan_found *found, ls_plan_remedy *out) {
    ls_plan_question open = *q;
    open.request = ls_layout_request_none();
    if (ls_knob_is_given(&q->request, LS_KNOB_type)) ls_knob_give(&open.request, LS_KNOB_type, q->request.knobs.type);
    open.request.memory_bytes = q->request.memory_bytes;
    return best_of(&open, &q->task, found, &out->is_freed, &out->freed);
}

static long long next_size(const ls_site *site, long long chips) {
    long long node = site->node;
    if (chips < node) return 2 * chips < node ? 2 * chips : node;
    return chips < site->chips + NODES_TRIED * node ? chips + node : 2 * chips;
}

static ls_status more_chips(const ls_plan_question *q, ls_plan_found *found, ls_plan_remedy *out) {
    const ls_site *site = &q->task.cluster.site[0];
    for (long long chips = next_size(site, site->chips); chips <= LS_CHIPS_MAX; chips = next_size(site, chips)) {
        ls_plan_task task = q->task;
        bool fits;
        for (int i = 0; i < task.cluster.sites; i++) task.cluster.site[i].chips = (int)chips;
        LS_TRY(best_of(q, &task, found, &fits, &out->with));
        if (fits) {
            out->chips = (int)chips;
            return LS_OK;
        }
    }
    return LS_OK;
}

/* Chips with more memory, the least of it first. */
static ls_status larger_chip(const ls_plan_question *q, ls_plan_found *found, ls_plan_remedy *out) {
    double tried = q->task.cluster.site[0].chip.memory_bytes;
    if (q->task.cluster.site[0].chip.is_cpu) return LS_OK;
    for (;;) {
        const ls_chip *next = NULL;
        for (int i = 0; ls_chip_row(i); i++) {
            const ls_chip *row = ls_chip_row(i);
            if (row->memory_bytes > tried && (!next || row->memory_bytes < next->memory_bytes)) next = row;
        }
        if (!next) return LS_OK;
        tried = next->memory_bytes;
        ls_plan_task task = q->task;
        ls_cluster usual;
        bool fits;
        LS_TRY(ls_cluster_of(next->name, 1, 0, &usual));
        for (int i = 0; i < task.cluster.sites; i++) {
            task.cluster.site[i].chip = *next;
            task.cluster.site[i].inside = usual.site[0].inside;
        }
        LS_TRY(best_of(q, &task, found, &fits, &out->other));
        if (!fits) continue;
        out->chip = *next;
        return LS_OK;
    }
}

ls_status ls_plan_remedy_find(const ls_plan_question *question, ls_plan_remedy *out) {
    ls_plan_found *found = malloc(sizeof *found);
    memset(out, 0, sizeof *out);
    if (!found) return ls_fail(LS_ERR_RESOURCE, "out of memory for a search");
    ls_status status = other_knobs(question, found, out);
    if (status == LS_OK) status = more_chips(question, found, out);
    if (status == LS_OK) status = larger_chip(question, found, out);
    free(found);
    return status;
}
