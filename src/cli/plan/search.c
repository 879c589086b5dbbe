/* search.c: `lockstep plan --model M --cluster C`: from the question to the answer.
 *
 * That nothing fits is an answer too, and what would is part of it: the exit status is 0. */
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "cli/plan/command.h"
#include "report/memo/memo.h"

/* How far beyond the cluster the scaling is shown. */
enum { SCALING_FACTOR = 4 };

double ls_plan_tokens_per_second(const ls_plan_task *task, const ls_prediction *p) {
    return (double)task->global_batch * (double)task->seq / p->seconds;
}

/* A chip without the type computes in the next one that it has. */
static double peak_of(const ls_chip *chip, ls_plan_type type) {
    for (int t = (int)type; t > LS_PLAN_FP32; t--)
        if (chip->peak_flops[t] > 0) return chip->peak_flops[t];
    return chip->peak_flops[LS_PLAN_FP32];
}

double ls_plan_mfu(const ls_plan_task *task, const ls_plan_choice *choice) {
    double peak = 0;
    for (int i = 0; i < task->cluster.sites; i++)
        peak += peak_of(&task->cluster.site[i].chip, choice->layout.type) * task->cluster.site[i].chips;
    return choice->prediction.model_flops / choice->prediction.seconds / peak;
}

/* What the link between two sites costs, and what cutting the other way would. */
static ls_status weigh_cut(ls_plan_answer *a) {
    ls_plan_task task = a->question->task;
    const ls_plan_choice *best = a->best;
    const ls_shape *shape = &task.shape;
    ls_prediction p;
    double elem = best->layout.type == LS_PLAN_FP32 ? 4 : 2;
    if (task.cluster.sites < 2) return LS_OK;
    a->across_bytes = best->layout.stages_across ? (double)task.global_batch * (double)task.seq * (double)shape->C *
                                                       elem * (2 * best->layout.virtual_stages - 1)
                                                 : ls_plan_params(shape) * (elem == 4 ? 4 : task.stack.reduce_bytes);
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

static ls_status explain(ls_plan_answer *a) {
    const ls_plan_question *q = a->question;
    long long most = (long long)SCALING_FACTOR * ls_cluster_chips(&q->task.cluster);
    if (most > LS_CHIPS_MAX) most = LS_CHIPS_MAX;
    ls_plan_losses_of(&q->task, a->best, &a->losses);
    LS_TRY(ls_plan_changes(&q->task, a->best, a->change, &a->changes));
    LS_TRY(ls_plan_scaling(&q->task, &q->request, a->best, (int)most, false, a->weak, &a->weak_points));
    LS_TRY(ls_plan_scaling(&q->task, &q->request, a->best, (int)most, true, a->strong, &a->strong_points));
    LS_TRY(ls_plan_ladder(&q->task, &a->best->layout, a->rung, &a->rungs));
    return weigh_cut(a);
}

static ls_status answer(const ls_options *o, ls_plan_answer *a) {
    const ls_plan_question *q = a->question;
    LS_TRY(ls_plan_search(&q->task, &q->request, &a->found));
    if (a->found.fitting > 0) {
        a->best = &a->found.fits[0];
        LS_TRY(explain(a));
    } else {
        LS_TRY(ls_plan_remedy_find(q, &a->remedy));
    }
    if (o->out && a->best) LS_TRY(ls_plan_layout_write(o->out, &a->best->layout));
    if (o->memo) LS_TRY(ls_plan_memo_write(o->memo, &q->task, &q->request, &a->found, q->tokens, q->price));
    if (o->json) return ls_plan_report_json(a);
    ls_plan_report(a);
    return LS_OK;
}

ls_status ls_plan_search_command(const ls_options *options) {
    ls_plan_question question;
    if (ls_plan_list_print(options)) return LS_OK;
    if (options->out) LS_TRY(ls_file_can_write(options->out));
    LS_TRY(ls_plan_question_read(options, &question));
    if (ls_plan_is_native(options, &question)) {
        ls_status own = ls_plan_own_command(options, &question);
        ls_plan_question_end(&question);
        return own;
    }
    ls_plan_answer *a = calloc(1, sizeof *a);
    ls_status status = a ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a plan");
    if (a) {
        a->question = &question;
        status = answer(options, a);
    }
    free(a);
    ls_plan_question_end(&question);
    return status;
}
