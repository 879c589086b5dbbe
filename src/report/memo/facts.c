/* facts.c: asks the planner for every prediction that a memo contains. */
#include "report/memo/facts.h"

#include <string.h>

#include "model/model.h"
#include "plan/cost/cost_case.h"

/* Predicts a changed layout; leaves its seconds at 0 if the planner's check refuses it. */
static ls_status try_variant(const ls_memo_facts *f, const ls_knobs *layout, ls_plan_choice *out) {
    *out = (ls_plan_choice){.layout = *layout};
    if (ls_plan_check(f->task, layout) != LS_OK) return LS_OK;
    return ls_plan_predict(f->task, layout, &out->prediction);
}

/* Returns the layout with tensor parallelism over two nodes, which leaves fewer chips for stages and replicas. */
static ls_knobs wide_layout(const ls_memo_facts *f) {
    ls_knobs l = f->choice.layout;
    int chips = ls_cluster_chips(&f->task->cluster);
    l.tp = 2 * f->site->node;
    while (l.pp > 1 && chips % (l.tp * l.pp * l.context) != 0) l.pp--;
    l.dp = chips / (l.tp * l.pp * l.context);
    if (l.pp == 1 && l.schedule == LS_SCHEDULE_INTERLEAVED) l.schedule = LS_SCHEDULE_1F1B;
    if (l.pp == 1) l.virtual_stages = 1;
    return l;
}

/* Predicts the layout with fp32, with other recomputation, without ZeRO and with wide tensor parallelism, as far as
 * each is a change. */
static ls_status find_variants(ls_memo_facts *f) {
    ls_knobs l = f->choice.layout;
    l.type = LS_PLAN_FP32;
    l.pure_16bit = false;
    LS_TRY(try_variant(f, &l, &f->fp32));
    l = f->choice.layout;
    l.recompute = l.recompute == LS_RECOMPUTE_NONE ? LS_RECOMPUTE_FULL : LS_RECOMPUTE_NONE;
    LS_TRY(try_variant(f, &l, &f->recompute));
    l = f->choice.layout;
    if (l.zero > 0) {
        l.zero = 0;
        LS_TRY(try_variant(f, &l, &f->unsharded));
    }
    if (f->nodes > 1 && f->choice.layout.tp <= f->site->node) {
        l = wide_layout(f);
        LS_TRY(try_variant(f, &l, &f->wide));
    }
    return LS_OK;
}

/* Copies losses, changes, scaling and memory by technique from the answer, which has them if a layout fits. Always
 * LS_OK. */
static ls_status copy_reasons(ls_memo_facts *f) {
    const ls_plan_answer *a = f->answer;
    f->losses = a->losses;
    f->changes = a->changes;
    f->strongs = a->strong_points;
    f->weaks = a->weak_points;
    f->rungs = a->rungs;
    memcpy(f->change, a->change, sizeof f->change);
    memcpy(f->strong, a->strong, sizeof f->strong);
    memcpy(f->weak, a->weak, sizeof f->weak);
    memcpy(f->rung, a->rung, sizeof f->rung);
    return LS_OK;
}

/* Computes losses, changes, scaling and memory by technique of the nearest layout if nothing fits. */
static ls_status find_reasons(ls_memo_facts *f) {
    ls_plan_losses_of(f->task, &f->choice, &f->losses);
    LS_TRY(ls_plan_changes(f->task, &f->choice, f->change, &f->changes));
    LS_TRY(ls_plan_ladder(f->task, &f->choice.layout, f->rung, &f->rungs));
    long long four = 4LL * ls_cluster_chips(&f->task->cluster);
    int most = four < LS_CHIPS_MAX ? (int)four : LS_CHIPS_MAX;
    LS_TRY(ls_plan_scaling(f->task, f->request, &f->choice, most, true, f->strong, &f->strongs));
    return ls_plan_scaling(f->task, f->request, &f->choice, most, false, f->weak, &f->weaks);
}

ls_status ls_memo_facts_find(ls_memo_facts *f) {
    f->fits = f->found->fitting > 0;
    if (!f->fits && f->found->missing == 0)
        return ls_fail(LS_ERR_INPUT, "no layout to write a memo about: none fits, and none comes close");
    f->choice = f->fits ? f->found->fits[0] : f->found->lacks[0];
    ls_plan_case c = ls_plan_case_of(f->task, &f->choice.layout);
    f->site = c.site;
    f->micros = c.micros;
    f->gathers = f->choice.layout.zero == 3 && !ls_plan_stays_whole(&c);
    f->reduces_often = f->choice.layout.zero == 2 && !ls_plan_stays_whole(&c);
    f->nodes = 0;
    for (int i = 0; i < f->task->cluster.sites; i++) {
        const ls_site *site = &f->task->cluster.site[i];
        f->nodes += (site->chips + site->node - 1) / site->node;
    }
    f->chip = f->site->chip.is_cpu ? "worker" : "GPU";
    f->chips = f->site->chip.is_cpu ? "workers" : "GPUs";
    f->params = ls_model_count_params(&f->task->shape);
    f->step_tokens = (double)f->task->global_batch * (double)f->task->seq;
    f->tokens_per_second = f->step_tokens / f->choice.prediction.seconds;
    f->mfu = ls_plan_mfu(f->task, &f->choice);
    LS_TRY(find_variants(f));
    ls_memo_flows_find(f);
    LS_TRY(ls_memo_pipe_find(f));
    return f->fits ? copy_reasons(f) : find_reasons(f);
}
