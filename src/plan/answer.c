/* answer.c: puts a whole answer together. Where nothing fits it looks for what would: other knobs, more chips of the
 * same kind, or larger ones. */
#include "plan/answer.h"

#include <string.h>

#include "model/model.h"
#include "plan/cost/cost_case.h"
#include "plan/fitted/fitted.h"
#include "plan/published/error_bands.h"

/* How far beyond the cluster the scaling is shown. */
enum { SCALING_FACTOR = 4 };

double ls_plan_tokens_per_second(const ls_plan_task *task, const ls_prediction *p) {
    return (double)task->global_batch * (double)task->seq / p->seconds;
}

double ls_plan_mfu(const ls_plan_task *task, const ls_plan_choice *choice) {
    double peak = 0;
    for (int i = 0; i < task->cluster.sites; i++)
        peak += ls_chip_peak(&task->cluster.site[i].chip, choice->layout.type) * task->cluster.site[i].chips;
    return choice->prediction.model_flops / choice->prediction.seconds / peak;
}

double ls_plan_best_mfu(const ls_plan_task *task, ls_plan_type type) {
    double best = 0;
    for (int i = 0; i < task->cluster.sites; i++) {
        double own = ls_fitted_best_mfu(task->cluster.site[i].chip.name, type);
        if (!(own > 0)) return 0;
        if (own > best) best = own;
    }
    return best;
}

/* A checkpoint holds optimizer state and the weights as matmuls read them. Failures come from every node of
 * all sites. */
ls_course ls_plan_course_of(const ls_plan_question *q, const ls_plan_task *task, const ls_plan_choice *choice) {
    const ls_knobs *l = &choice->layout;
    double nodes = 0, state = 4 + 2 * ls_plan_state_bytes(l) + (l->type == LS_PLAN_FP32 ? 0 : 2);
    if (l->pure_16bit) state = 6;
    if (!(q->tokens > 0) || !(q->failures.node_seconds > 0)) return (ls_course){0};
    for (int i = 0; i < task->cluster.sites; i++) {
        const ls_site *site = &task->cluster.site[i];
        nodes += (site->chips + site->node - 1) / site->node;
    }
    return ls_course_of(q->tokens / ls_plan_tokens_per_second(task, &choice->prediction),
                        q->failures.node_seconds / nodes, state * ls_model_count_params(&task->shape),
                        q->failures.bytes_per_second, q->failures.restart_seconds);
}

/* Fills across_bytes, across_seconds and not_cut for two sites; does nothing for one. across_bytes is the traffic of a
 * step over the link between them, each way; across_seconds is the step's time less that with an almost infinite link.
 * not_cut is the layout a->best with the other division and the same other knobs (nothing is searched): replicas
 * instead of stages on the two sides of the link, or stages instead of replicas. Its seconds are 0 if there is only one
 * stage (one replica) to divide, or ls_plan_check() refuses it. */
static ls_status weigh_cut(ls_plan_answer *a) {
    ls_plan_task task = a->task;
    const ls_plan_choice *best = a->best;
    const ls_shape *shape = &task.shape;
    ls_prediction p;
    double elem = ls_plan_elem_bytes(&best->layout);
    if (task.cluster.sites < 2) return LS_OK;
    a->across_bytes =
        best->layout.stages_across
            ? (double)task.global_batch * (double)task.seq * (double)shape->C * elem *
                  (2 * best->layout.virtual_stages - 1)
            : ls_model_count_params(shape) * (elem == 4 ? 4 : ls_plan_reduce_bytes(&task.stack, best->layout.type));
    a->not_cut = *best;
    a->not_cut.layout.stages_across = !best->layout.stages_across;
    a->not_cut.prediction.seconds = 0;
    bool divided = a->not_cut.layout.stages_across ? best->layout.pp > 1 : best->layout.dp > 1;
    if (divided && ls_plan_check(&task, &a->not_cut.layout) == LS_OK)
        LS_TRY(ls_plan_predict(&task, &a->not_cut.layout, &a->not_cut.prediction));
    task.cluster.across.bandwidth *= 1e9;
    task.cluster.across.start_seconds = task.cluster.across.latency_seconds = 0;
    LS_TRY(ls_plan_predict(&task, &best->layout, &p));
    a->across_seconds = best->prediction.seconds - p.seconds;
    return LS_OK;
}

/* Returns the task to show the scaling of: all devices in question or, if a whole site should stay unused, those that
 * should be used. */
static ls_plan_task scaled_task(const ls_plan_answer *a) {
    ls_plan_task task = a->task;
    const ls_cluster *asked = &a->question->task.cluster;
    for (int i = 0; i < asked->sites && task.cluster.sites == asked->sites; i++)
        task.cluster.site[i].chips = asked->site[i].chips;
    return task;
}

/* Fills in all that an answer says about its best layout: losses, single changes, scaling, memory, sensitivity,
 * conventions. */
static ls_status explain_best(ls_plan_answer *a) {
    const ls_plan_question *q = a->question;
    ls_plan_task scaled = scaled_task(a);
    long long most = (long long)SCALING_FACTOR * ls_cluster_chips(&scaled.cluster);
    if (most > LS_CHIPS_MAX) most = LS_CHIPS_MAX;
    ls_plan_losses_of(&a->task, a->best, &a->losses);
    LS_TRY(ls_plan_changes(&a->task, a->best, a->change, &a->changes));
    LS_TRY(ls_plan_scaling(&scaled, &q->request, a->best, (int)most, false, a->weak, &a->weak_points));
    LS_TRY(ls_plan_scaling(&scaled, &q->request, a->best, (int)most, true, a->strong, &a->strong_points));
    LS_TRY(ls_plan_bottleneck_find(&scaled, a->strong, a->strong_points, &a->bottleneck));
    LS_TRY(ls_plan_ladder(&a->task, &a->best->layout, a->rung, &a->rungs));
    LS_TRY(ls_plan_sensitivity_find(&a->task, &q->request, &a->found, a->error, &a->sensitivity));
    LS_TRY(ls_plan_habits_find(&a->task, &q->request, a->best->prediction.seconds, a->habit, &a->habits));
    return weigh_cut(a);
}

/* Returns the larger of the sites' error bands, as a share of the time. */
static double error_of(const ls_cluster *cluster) {
    double most = 0;
    for (int i = 0, rows; i < cluster->sites; i++) {
        double error = ls_error_band_of(cluster->site[i].chip.name, &rows);
        if (error > most) most = error;
    }
    return most;
}

/* Finds whether fewer devices would be faster. If so, replaces a->task by the task on those devices, and searches
 * again. */
static ls_status weigh_sizes(ls_plan_answer *a) {
    const ls_layout_request *request = &a->question->request;
    LS_TRY(ls_plan_sizes(&a->task, request, &a->found.fits[0], &a->use));
    if (!ls_plan_use_is_fewer(&a->use)) return LS_OK;
    a->task = ls_plan_task_of_size(&a->task, &a->use.fastest);
    return ls_plan_search(&a->task, request, &a->found);
}

/* Node by node as far as that, then twice as many each time. */
enum { NODES_TRIED = 32 };

/* Finds the best layout on a changed cluster, with dp open and the memory limit scaled with the chip's memory. *fits is
 * false if nothing fits or no layout is possible there, which is no error. */
static ls_status best_of(const ls_plan_question *q, const ls_plan_task *task, bool *fits, ls_plan_choice *out) {
    ls_layout_request request = q->request;
    double now = q->task.cluster.site[0].chip.memory_bytes, then = task->cluster.site[0].chip.memory_bytes;
    ls_knob_leave_open(&request, LS_KNOB_dp);
    request.memory_bytes *= then / now;
    *fits = false;
    ls_status status = ls_plan_fastest(task, &request, 0, out);
    if (status == LS_ERR_INPUT) return LS_OK;
    *fits = status == LS_OK && out->prediction.seconds > 0;
    return status;
}

/* Remedy: searches the same cluster without the given knobs, except the number type. */
static ls_status other_knobs(const ls_plan_question *q, ls_plan_remedy *out) {
    ls_plan_question open = *q;
    open.request = ls_layout_request_none();
    if (ls_knob_is_given(&q->request, LS_KNOB_type)) ls_knob_give(&open.request, LS_KNOB_type, q->request.knobs.type);
    open.request.memory_bytes = q->request.memory_bytes;
    return best_of(&open, &q->task, &out->is_freed, &out->freed);
}

/* Remedy: searches with the optimizer state in host memory; skipped if that was asked for anyway, or for CPU
 * workers. */
static ls_status offloaded(const ls_plan_question *q, ls_plan_remedy *out) {
    ls_plan_question with = *q;
    ls_knob_give(&with.request, LS_KNOB_offload, true);
    if (q->request.knobs.offload || q->task.cluster.site[0].chip.is_cpu) return LS_OK;
    return best_of(&with, &q->task, &out->is_offloaded, &out->offloaded);
}

/* Returns the next larger number of chips to try: doubled up to a node, then more nodes, then doubled again. */
static long long next_size(const ls_site *site, long long chips) {
    long long node = site->node;
    if (chips < node) return 2 * chips < node ? 2 * chips : node;
    return chips < site->chips + NODES_TRIED * node ? chips + node : 2 * chips;
}

/* Remedy: tries growing numbers of chips, the same number at each site, until a layout fits or LS_CHIPS_MAX is
 * reached. */
static ls_status more_chips(const ls_plan_question *q, ls_plan_remedy *out) {
    const ls_site *site = &q->task.cluster.site[0];
    for (long long chips = next_size(site, site->chips); chips <= LS_CHIPS_MAX; chips = next_size(site, chips)) {
        ls_plan_task task = q->task;
        bool fits;
        for (int i = 0; i < task.cluster.sites; i++) task.cluster.site[i].chips = (int)chips;
        LS_TRY(best_of(q, &task, &fits, &out->with));
        if (fits) {
            out->chips = (int)chips;
            return LS_OK;
        }
    }
    return LS_OK;
}

/* Remedy: tries the chips of the table with more memory than the present one, the least of it first; skipped for CPU
 * workers. */
static ls_status larger_chip(const ls_plan_question *q, ls_plan_remedy *out) {
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
            task.cluster.site[i].chip = usual.site[0].chip;
            task.cluster.site[i].inside = usual.site[0].inside;
        }
        LS_TRY(best_of(q, &task, &fits, &out->other));
        if (!fits) continue;
        out->chip = usual.site[0].chip;
        return LS_OK;
    }
}

ls_status ls_plan_answer_find(const ls_plan_question *question, ls_plan_answer *out) {
    memset(out, 0, sizeof *out);
    out->question = question;
    out->task = ls_plan_usable(&question->task, &question->request);
    out->error = error_of(&question->task.cluster);
    LS_TRY(ls_plan_search(&out->task, &question->request, &out->found));
    if (out->found.fitting == 0) {
        LS_TRY(ls_plan_habits_find(&out->task, &question->request, 0, out->habit, &out->habits));
        LS_TRY(offloaded(question, &out->remedy));
        LS_TRY(other_knobs(question, &out->remedy));
        LS_TRY(more_chips(question, &out->remedy));
        return larger_chip(question, &out->remedy);
    }
    LS_TRY(weigh_sizes(out));
    out->best = &out->found.fits[0];
    return explain_best(out);
}
