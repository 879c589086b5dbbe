/* search.c: searches the layouts of this program that a request leaves open, one by one, since a machine has few of
 * them. Each try_…() tries the values of a knob, if it is open, and calls the next one for each of them. */
#include "model/model.h"
#include "parallel/layout/micro_batches.h"
#include "plan/native/native.h"

enum { MICROS = 5, TEXT_MAX = 256 };

typedef struct search {
    const ls_native_machine *machine;
    const ls_native_task *task;
    ls_layout_task of;
    ls_native_found *out;
    ls_native_choice one; /* the layout that is being tried */
} search;

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* Returns whether a is predicted to be faster. */
static bool is_faster(const ls_native_choice *a, const ls_native_choice *b) {
    return a->prediction.seconds < b->prediction.seconds;
}

/* Returns whether two layouts differ only in micro-batch or order of work, so that one of them is enough. */
static bool is_like(const ls_layout *a, const ls_layout *b) {
    return a->dp == b->dp && a->tp == b->tp && a->pp == b->pp && a->zero == b->zero && a->recompute == b->recompute;
}

/* Inserts the choice in the order of time; it replaces one like it only if it is faster. */
static void keep_if_fast(ls_native_found *found, const ls_native_choice *choice) {
    int at = 0, count = found->fitting;
    while (at < count && !is_like(&found->fits[at].layout, &choice->layout)) at++;
    if (at < count && !is_faster(choice, &found->fits[at])) return;
    if (at == count && count == LS_NATIVE_KEPT && !is_faster(choice, &found->fits[--at])) return;
    if (at == count) found->fitting++;
    for (; at > 0 && is_faster(choice, &found->fits[at - 1]); at--) found->fits[at] = found->fits[at - 1];
    found->fits[at] = *choice;
}

/* Returns by how many bytes the heaviest worker exceeds its memory; negative if the choice fits. */
static double lack_of(const ls_native_choice *c) { return c->prediction.memory_bytes - c->prediction.capacity_bytes; }

/* ---- one layout -------------------------------------------------------------------------------------------------- */

/* Predicts the layout of the request and keeps it if it is fast enough. *fits is false only if memory is short, true
 * also for a layout that is not possible. */
static ls_status try_request(search *s, const ls_layout_request *request, bool *fits) {
    ls_native_choice *one = &s->one;
    *fits = true;
    if (ls_layout_make(request, &s->of, &one->layout) != LS_OK) return LS_OK; /* not possible: that is an answer */
    s->out->tried++;
    LS_TRY(ls_native_predict(s->machine, s->task, &one->layout, &one->prediction));
    *fits = ls_prediction_fits(&one->prediction);
    if (*fits) {
        bool alone = ls_layout_workers(&one->layout) == 1;
        if (alone && (s->out->one_seconds == 0 || one->prediction.seconds < s->out->one_seconds))
            s->out->one_seconds = one->prediction.seconds;
        keep_if_fast(s->out, one);
        return LS_OK;
    }
    if (s->out->missing++ == 0 || lack_of(one) < lack_of(&s->out->lacks)) s->out->lacks = *one;
    return LS_OK;
}

/* Tries recomputation only if memory requires it, because it costs time and saves nothing else. */
static ls_status try_recompute(search *s, ls_layout_request request) {
    bool given = ls_knob_is_given(&request, LS_KNOB_recompute) || request.knobs.keep_activations, fits;
    for (int r = (int)request.knobs.recompute; r <= LS_KNOB_LAST_recompute; r++) {
        ls_knob_give(&request, LS_KNOB_recompute, r);
        LS_TRY(try_request(s, &request, &fits));
        if (given || fits) return LS_OK;
    }
    return LS_OK;
}

/* Micro-batches from the largest possible one down, halved each time, at most MICROS of them. */
static ls_status try_micros(search *s, ls_layout_request request) {
    const ls_knobs *k = &request.knobs;
    size_t replicas = (size_t)k->dp, most = (s->of.B + replicas - 1) / replicas;
    if (ls_knob_is_given(&request, LS_KNOB_micro)) return try_recompute(s, request);
    /* With zero 2 and 3 a micro-batch is of one group. */
    if (ls_knob_is_given(&request, LS_KNOB_zero) && k->zero >= 2 && k->dp > 1)
        most = (s->of.B + (size_t)s->of.G - 1) / (size_t)s->of.G;
    if (k->pp > 1) most = (most + 1) / 2;
    for (int i = 0; i < MICROS && most > 0; i++, most = most > 1 ? (most + 1) / 2 : 0) {
        ls_knob_give(&request, LS_KNOB_micro, (double)most);
        LS_TRY(try_recompute(s, request));
    }
    return LS_OK;
}

/* Sequence parallelism off and, with tp > 1, on. */
static ls_status try_sequence(search *s, ls_layout_request request) {
    if (ls_knob_is_given(&request, LS_KNOB_sequence_parallel)) return try_micros(s, request);
    for (int sp = 0; sp <= (request.knobs.tp > 1 ? LS_KNOB_LAST_sequence_parallel : 0); sp++) {
        ls_knob_give(&request, LS_KNOB_sequence_parallel, sp);
        LS_TRY(try_micros(s, request));
    }
    return LS_OK;
}

/* All schedules for a pipeline. */
static ls_status try_schedules(search *s, ls_layout_request request) {
    static const ls_schedule_kind kinds[] = {LS_SCHEDULE_1F1B, LS_SCHEDULE_GPIPE, LS_SCHEDULE_ZERO_BUBBLE,
                                             LS_SCHEDULE_INTERLEAVED};
    bool given = ls_knob_is_given(&request, LS_KNOB_schedule) || ls_knob_is_given(&request, LS_KNOB_virtual_stages);
    if (given || request.knobs.pp == 1) return try_sequence(s, request);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ls_knob_give(&request, LS_KNOB_schedule, kinds[i]);
        LS_TRY(try_sequence(s, request));
    }
    return LS_OK;
}

/* ZeRO stages if there are replicas. */
static ls_status try_zeros(search *s, ls_layout_request request) {
    if (ls_knob_is_given(&request, LS_KNOB_zero) || request.knobs.dp == 1) return try_schedules(s, request);
    for (int zero = 0; zero <= LS_KNOB_LAST_zero; zero++) {
        ls_knob_give(&request, LS_KNOB_zero, zero);
        LS_TRY(try_schedules(s, request));
    }
    return LS_OK;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static bool is_power_of_2(int n) { return (n & (n - 1)) == 0; }

/* Returns whether the request gives the knob another value. */
static bool excludes_value(const ls_layout_request *request, ls_knob knob, int value) {
    return ls_knob_is_given(request, knob) && (int)ls_knob_get(&request->knobs, knob) != value;
}

/* Every dp × tp × pp up to so many workers; unless the user named some, only powers of two and all workers. */
static ls_status try_meshes(search *s, const ls_layout_request *given, int workers) {
    int blocks = s->of.model->nblocks, most = given->workers > 0 ? given->workers : workers;
    bool named = given->workers > 0 || (given->given & (1u << LS_KNOB_dp | 1u << LS_KNOB_tp | 1u << LS_KNOB_pp));
    for (int tp = 1; tp <= s->of.model->S && tp <= most; tp *= 2)
        for (int pp = 1; pp <= blocks && tp * pp <= most; pp++)
            for (int dp = 1; dp <= s->of.G && tp * pp * dp <= most; dp++) {
                int all = tp * pp * dp;
                bool other = excludes_value(given, LS_KNOB_tp, tp) || excludes_value(given, LS_KNOB_pp, pp) ||
                             excludes_value(given, LS_KNOB_dp, dp) || (given->workers > 0 && all != given->workers);
                if (other || (!named && !is_power_of_2(all) && all != most)) continue;
                ls_layout_request request = *given;
                request.workers = all;
                ls_knob_give(&request, LS_KNOB_tp, tp);
                ls_knob_give(&request, LS_KNOB_pp, pp);
                ls_knob_give(&request, LS_KNOB_dp, dp);
                LS_TRY(try_zeros(s, request));
            }
    return LS_OK;
}

/* Fails with the reason why no layout is possible, which the layout of the bare request gives. */
static ls_status fail_without_layout(search *s, const ls_layout_request *request) {
    LS_TRY(ls_layout_make(request, &s->of, &s->one.layout));
    return ls_fail(LS_ERR_INPUT, "no layout of the model on this machine satisfies the given options");
}

ls_status ls_native_search(const ls_native_machine *machine, const ls_native_task *task,
                           const ls_layout_request *request, int workers, ls_native_found *out) {
    search s = {.machine = machine, .task = task, .out = out};
    ls_model *model = NULL;
    int product = request->knobs.dp * request->knobs.tp * request->knobs.pp;
    if (workers == 0) workers = machine->cores;
    if (machine->is_gpus && machine->links == 0) workers = 1; /* what they cost together is not known */
    if (workers < product) workers = product;
    if (workers > LS_WORKERS_MAX) workers = LS_WORKERS_MAX;
    *out = (ls_native_found){0};
    LS_TRY(ls_model_create(&task->settings->shape, task->settings->slices, &model));
    s.of = ls_trainer_task(task->settings, model);
    ls_status status = try_meshes(&s, request, workers);
    if (status == LS_OK && out->fitting == 0 && out->missing == 0) status = fail_without_layout(&s, request);
    ls_model_destroy(model);
    return status;
}

/* Returns LS_ERR_RESOURCE with the nearest layout and its missing memory. */
static ls_status fail_nothing_fits(const ls_native_found *found, bool on_gpus) {
    char text[TEXT_MAX];
    const ls_prediction *p = &found->lacks.prediction;
    ls_layout_text(&found->lacks.layout, text, sizeof text);
    return ls_fail(LS_ERR_RESOURCE,
                   "--auto-layout: none of %d layouts fits into the memory of %s; the nearest, %s, lacks "
                   "%.0f MiB on its heaviest worker: use a smaller model, batch or sequence, or --precision bf16",
                   found->tried, on_gpus ? "this machine's GPUs" : "this machine", text,
                   (p->memory_bytes - p->capacity_bytes) / (1024 * 1024));
}

ls_status ls_native_complete(const ls_native_machine *machine, const ls_settings *settings, ls_layout_request *request,
                             ls_native_found *found) {
    ls_native_task task = ls_native_task_of(settings, machine);
    LS_TRY(ls_native_search(machine, &task, request, 0, found));
    if (found->fitting == 0) return fail_nothing_fits(found, machine->is_gpus);
    request->workers = ls_layout_workers(&found->fits[0].layout);
    request->knobs = found->fits[0].layout.knobs;
    request->given = ~0u;
    return LS_OK;
}
