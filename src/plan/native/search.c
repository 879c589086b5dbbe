/* search.c: the layouts of this program that a request leaves open, one by one: there are few of them on a machine. */
#include <stdlib.h>

#include "model/model.h"
#include "parallel/layout/micro_batches.h"
#include "plan/native/native.h"

enum { MICROS = 5 };

typedef struct search {
    const ls_native_machine *machine;
    const ls_native_task *task;
    ls_layout_task of;
    ls_native_found *out;
    ls_native_choice *one; /* being looked at */
} search;

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static bool is_better(const ls_native_choice *a, const ls_native_choice *b) {
    return a->prediction.seconds < b->prediction.seconds;
}

/* Those that differ only in the size of micro-batches or in the order of work stand for each other. */
static bool is_like(const ls_layout *a, const ls_layout *b) {
    return a->dp == b->dp && a->tp == b->tp && a->pp == b->pp && a->zero == b->zero && a->recompute == b->recompute;
}

static void keep(ls_native_found *found, const ls_native_choice *choice) {
    int at = 0, count = found->fitting;
    while (at < count && !is_like(&found->fits[at].layout, &choice->layout)) at++;
    if (at < count && !is_better(choice, &found->fits[at])) return;
    if (at == count && count == LS_NATIVE_KEPT && !is_better(choice, &found->fits[--at])) return;
    if (at == count) found->fitting++;
    for (; at > 0 && is_better(choice, &found->fits[at - 1]); at--) found->fits[at] = found->fits[at - 1];
    found->fits[at] = *choice;
}

static double lack_of(const ls_native_choice *c) { return c->prediction.memory_bytes - c->prediction.capacity_bytes; }

/* ---- one layout -------------------------------------------------------------------------------------------------- */

static ls_status look_at(search *s, const ls_layout_request *request, bool *fits) {
    ls_native_choice *one = s->one;
    *fits = true;
    if (ls_layout_make(request, &s->of, &one->layout) != LS_OK) return LS_OK; /* not possible: that is an answer */
    s->out->tried++;
    LS_TRY(ls_native_predict(s->machine, s->task, &one->layout, &one->prediction));
    *fits = ls_prediction_fits(&one->prediction);
    if (*fits) {
        bool alone = ls_layout_workers(&one->layout) == 1;
        if (alone && (s->out->one_seconds == 0 || one->prediction.seconds < s->out->one_seconds))
            s->out->one_seconds = one->prediction.seconds;
        keep(s->out, one);
        return LS_OK;
    }
    if (s->out->missing++ == 0 || lack_of(one) < lack_of(&s->out->lacks)) s->out->lacks = *one;
    return LS_OK;
}

/* Recomputation costs time and saves memory alone, so it is tried where memory asks for it. */
static ls_status try_recompute(search *s, ls_layout_request request) {
    bool given = request.recompute >= 0, fits;
    for (int r = given ? request.recompute : 0; r < LS_RECOMPUTE_KINDS; r++) {
        request.recompute = r;
        LS_TRY(look_at(s, &request, &fits));
        if (given || fits) return LS_OK;
    }
    return LS_OK;
}

static ls_status try_micros(search *s, ls_layout_request request) {
    size_t rows = (size_t)request.dp, most = (s->of.B + rows - 1) / rows;
    if (request.micro > 0) return try_recompute(s, request);
    /* With zero 2 and 3 a micro-batch is of one group. */
    if (request.zero >= 2 && request.dp > 1) most = (s->of.B + (size_t)s->of.G - 1) / (size_t)s->of.G;
    if (request.pp > 1) most = (most + 1) / 2;
    for (int i = 0; i < MICROS && most > 0; i++, most = most > 1 ? (most + 1) / 2 : 0) {
        request.micro = most;
        LS_TRY(try_recompute(s, request));
    }
    return LS_OK;
}

static ls_status try_sequence(search *s, ls_layout_request request) {
    bool given = request.sequence_parallel >= 0;
    for (int sp = given ? request.sequence_parallel : 0; sp < 2; sp++) {
        if (sp && !given && request.tp == 1) break;
        request.sequence_parallel = sp;
        LS_TRY(try_micros(s, request));
        if (given) break;
    }
    return LS_OK;
}

static ls_status try_schedules(search *s, ls_layout_request request) {
    static const ls_schedule_kind kinds[] = {LS_SCHEDULE_1F1B, LS_SCHEDULE_GPIPE, LS_SCHEDULE_ZERO_BUBBLE,
                                             LS_SCHEDULE_INTERLEAVED};
    if (request.schedule >= 0 || request.virtual_stages > 0 || request.pp == 1) return try_sequence(s, request);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        request.schedule = (int)kinds[i];
        LS_TRY(try_sequence(s, request));
    }
    return LS_OK;
}

static ls_status try_zeros(search *s, ls_layout_request request) {
    if (request.zero >= 0 || request.dp == 1) return try_schedules(s, request);
    for (int zero = 0; zero <= 3; zero++) {
        request.zero = zero;
        LS_TRY(try_schedules(s, request));
    }
    return LS_OK;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static bool is_round(int n) { return (n & (n - 1)) == 0; }

static ls_status try_meshes(search *s, const ls_layout_request *given, int workers) {
    int blocks = s->of.model->nblocks, most = given->workers > 0 ? given->workers : workers;
    for (int tp = 1; tp <= s->of.model->S && tp <= most; tp *= 2)
        for (int pp = 1; pp <= blocks && tp * pp <= most; pp++)
            for (int dp = 1; dp <= s->of.G && tp * pp * dp <= most; dp++) {
                int all = tp * pp * dp;
                bool other = (given->tp > 0 && tp != given->tp) || (given->pp > 0 && pp != given->pp) ||
                             (given->dp > 0 && dp != given->dp) || (given->workers > 0 && all != given->workers);
                bool named = given->tp > 0 || given->pp > 0 || given->dp > 0 || given->workers > 0;
                if (other || (!named && !is_round(all) && all != most)) continue;
                ls_layout_request request = *given;
                request.workers = all;
                request.tp = tp;
                request.pp = pp;
                request.dp = dp;
                LS_TRY(try_zeros(s, request));
            }
    return LS_OK;
}

/* Why nothing is possible: the layout that the request alone gives says so. */
static ls_status refuse(const search *s, const ls_layout_request *request) {
    LS_TRY(ls_layout_make(request, &s->of, &s->one->layout));
    return ls_fail(LS_ERR_INPUT, "no layout of the model on this machine satisfies the given options");
}

ls_status ls_native_search(const ls_native_machine *machine, const ls_native_task *task,
                           const ls_layout_request *request, int workers, ls_native_found *out) {
    const ls_partition_setup *setup = &task->setup;
    search s = {.machine = machine, .task = task, .out = out};
    ls_model *model = NULL;
    ls_status status;
    int product =
        (request->dp > 0 ? request->dp : 1) * (request->tp > 0 ? request->tp : 1) * (request->pp > 0 ? request->pp : 1);
    if (workers == 0) workers = machine->cores;
    if (workers < product) workers = product;
    if (workers > LS_WORKERS_MAX) workers = LS_WORKERS_MAX;
    *out = (ls_native_found){0};
    s.one = malloc(sizeof *s.one);
    if (!s.one) return ls_fail(LS_ERR_RESOURCE, "out of memory for a layout");
    LS_TRY_OUT(ls_model_create(&task->shape, task->slices, &model));
    s.of = (ls_layout_task){.model = model, .B = setup->B, .T = setup->T, .G = setup->G, .policy = setup->policy};
    s.of.checks_replicas = task->checks_replicas;
    LS_TRY_OUT(try_meshes(&s, request, workers));
    if (out->fitting == 0 && out->missing == 0) status = refuse(&s, request);
out:
    ls_model_destroy(model);
    free(s.one);
    return status;
}

ls_plan_layout ls_native_plan_layout(const ls_native_task *task, const ls_layout *l) {
    ls_dtype act = task->setup.policy.act;
    return (ls_plan_layout){.dp = l->dp,
                            .tp = l->tp,
                            .pp = l->pp,
                            .virtual_stages = l->virtual_stages,
                            .context = 1,
                            .micro = l->micro,
                            .schedule = l->schedule,
                            .zero = l->zero,
                            .recompute = l->recompute,
                            .sequence_parallel = l->sequence_parallel,
                            .type = act == LS_BF16  ? LS_PLAN_BF16
                                    : act == LS_F16 ? LS_PLAN_FP16
                                                    : LS_PLAN_FP32};
}
