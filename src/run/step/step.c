/* step.c: makes a training step, from the batch to the new weights, and handles values that are not finite, outliers
 * and failed checks.
 *
 * A pass over the batch is deterministic: repeated, it gives the same bits. So a suspicious step is repeated: with a
 * check of every output, to locate a bad value; without some groups; or unchanged, to distinguish a transient fault
 * from a permanent one.
 *
 * Every decision depends only on sums that all workers hold, so that all workers decide alike (rule 15). */
#include <math.h>
#include <string.h>

#include "base/alive.h"
#include "base/events.h"
#include "base/fault.h"
#include "base/meter.h"
#include "comm/world/world.h"
#include "observe/advice.h"
#include "parallel/partition/state_sum.h"
#include "run/recover/copies.h"
#include "run/state_hash.h"
#include "run/step/step_pass.h"

/* ---- numbers that are not finite --------------------------------------------------------------------------------- */

/* Fills in the event where the first bad value is: worker, micro-batch, block, tensor, element, and what value. */
static void describe_bad_place(const ls_trainer *t, const ls_bad_place *place, ls_train_event *event) {
    static const char *const phases[] = {"forward", "loss", "backward", "gradient", "sum"};
    static const char *const tensors[] = {"output", "loss", "input gradient", "", ""};
    const ls_param *param = place->param >= 0 ? ls_model_param(t->model, (int)place->param) : NULL;
    event->worker = (int)place->worker;
    event->micro = (int)place->micro;
    event->index = place->index;
    event->phase = phases[place->phase];
    event->value = place->is_nan ? "nan" : place->is_finite ? "overflow" : "inf";
    ls_event_block_name(t->model, (int)place->block, event->block);
    snprintf(event->tensor, sizeof event->tensor, "%s", param ? param->name : tensors[place->phase]);
}

/* Returns whether gradients have a loss scale, as fp16 has. */
static bool is_scaled(const ls_trainer *t) { return t->settings.policy.act == LS_F16; }

/* Returns whether a result is not finite and the loss scale cannot be the cause: it multiplies gradients, never the
 * loss. In fp16 only the loss counts. */
static bool is_broken(const ls_trainer *t, const ls_step_result *result) {
    return is_scaled(t) ? isnan(result->loss) : !result->finite;
}

/* Re-runs the pass with a check of every output, after a value was not finite, and reports what it found. If the fault
 * does not recur, it was transient and *result is valid; otherwise the run ends. */
static ls_status rerun_step(ls_trainer *t, int stop, ls_step_result *result) {
    ls_bad_place place;
    ls_train_event event = {.kind = LS_EVENT_NON_FINITE};
    ls_audit *a = &t->guard.audit;
    LS_TRY(ls_step_judge_memory(t));
    if (a->is_due) ls_audit_keep(a);
    LS_TRY(ls_step_pass(t, stop, &place, result));
    event.recurs = is_broken(t, result);
    if (event.recurs && place.order >= 0) describe_bad_place(t, &place, &event);
    if (!event.recurs && a->is_due) LS_TRY(ls_audit_find_changed(a, t->partition, &event.workers[0]));
    event.nworkers = !event.recurs && a->is_due && event.workers[0] >= 0;
    LS_TRY(ls_step_report(t, &event));
    if (!event.recurs) return LS_OK;
    return ls_step_end_run(t, &event, NULL);
}

/* Handles an overflow of scaled gradients: lowers the loss scale and skips the step (result->skipped), or ends the run:
 * at the lowest scale, after another pass that locates the overflow, or if memory is damaged. */
static ls_status handle_overflow(ls_trainer *t, int stop, ls_step_result *result) {
    ls_train_event event = {.kind = LS_EVENT_OVERFLOW, .scale = t->scale.exponent};
    ls_loss_scale_verdict verdict = ls_loss_scale_after(&t->scale, &t->settings.loss_scale, true);
    int param;
    LS_TRY(ls_step_judge_memory(t));
    event.next_scale = t->scale.exponent;
    LS_TRY(ls_partition_bad_param(t->partition, &param));
    snprintf(event.tensor, sizeof event.tensor, "%s", param < 0 ? "the loss" : ls_model_param(t->model, param)->name);
    ls_event_block_of(event.tensor, event.block);
    if (verdict == LS_LOSS_SCALE_SKIPPED) {
        result->skipped = true;
        return ls_step_report(t, &event);
    }
    ls_bad_place place;
    event.kind = LS_EVENT_FLOOR;
    LS_TRY(ls_step_pass(t, stop, &place, result));
    if (place.order >= 0) describe_bad_place(t, &place, &event);
    LS_TRY(ls_step_report(t, &event));
    return ls_step_end_run(t, &event, ls_advice_at_floor(t->settings.loss_scale.constant));
}

/* ---- audits ------------------------------------------------------------------------------------------------------ */

/* Ends the run after an audit that found a worker persistently wrong, or in which neither owner nor auditor can be
 * cleared. */
static ls_status end_audit(ls_trainer *t, ls_train_event *event) {
    int64_t clean_step = t->guard.audit.clean_step;
    char advice[160];
    LS_TRY(ls_step_judge_memory(t));
    ls_step_mark_suspect(t, clean_step, event);
    LS_TRY(ls_step_report(t, event));
    if (event->worker >= 0) ls_step_blame(t, event, event->worker, clean_step, true);
    if (event->worker >= 0)
        snprintf(advice, sizeof advice, "take the machine of worker %d out of the run and continue with --resume",
                 event->worker);
    else
        snprintf(advice, sizeof advice,
                 "worker %d or worker %d computes wrongly: test their machines, and continue with --resume on others",
                 event->owner, event->auditor);
    return ls_step_end_run(t, event, advice);
}

/* Audits gradient groups (recomputes them on another replica and compares) until all audits of the step have passed for
 * the same gradient. A transient error of the owner repeats the pass, one of the auditor only its audit; a persistent
 * one, or too many of either, ends the run. */
static ls_status run_audits(ls_trainer *t, int stop, ls_step_result *result) {
    enum { TRIES = 3 }; /* per worker, each of which may err once */
    ls_audit *a = &t->guard.audit;
    int next = 0, tries = TRIES * ls_layout_workers(&t->layout);
    for (int i = 0; i < tries; i++) {
        ls_audit_step step = {.step = (uint64_t)t->step, .start = ls_trainer_backward_start(t)};
        ls_train_event event = {.kind = LS_EVENT_AUDIT, .group = -1};
        ls_audit_result outcome;
        step.feed = ls_trainer_feed(t);
        LS_TRY(ls_audit_run(a, t->partition, &step, &next, &outcome, &event));
        if (outcome == LS_AUDIT_STOP) return end_audit(t, &event);
        if (event.group >= 0) LS_TRY(ls_step_report(t, &event));
        if (outcome == LS_AUDIT_PASSED && next == a->groups) {
            a->counted++;
            a->clean_step = t->step + 1;
            result->audited = a->total;
            return LS_OK;
        }
        if (outcome == LS_AUDIT_PASSED) continue;
        LS_TRY(ls_step_pass_with_all(t, stop, result));
        next = 0;
    }
    LS_TRY(ls_step_judge_memory(t));
    t->failure.ended_whole = true;
    return ls_fail(LS_ERR_FAILED,
                   "step %lld: audits found a group that was computed wrongly %d times in a row; check the memory and "
                   "processors of the workers named above",
                   (long long)t->step + 1, tries);
}

/* ---- the halves of a step ---------------------------------------------------------------------------------------- */

/* Computes the gradient to use in this step: a pass, and whatever its judges ask for. */
static ls_status compute_step_gradient(ls_trainer *t, int stop, ls_step_result *result) {
    ls_audit *a = &t->guard.audit;
    ls_fault_step = t->step;
    ls_left_try(&t->recover, t->step + 1);
    a->is_due = a->every > 0 && (t->step + 1) % a->every == 0;
    if (!t->state.is_summed) LS_TRY(ls_trainer_state_written(t));
    LS_TRY(ls_step_pass_with_all(t, stop, result));
    if (is_broken(t, result)) LS_TRY(rerun_step(t, stop, result));
    if (is_scaled(t) && !result->finite) return handle_overflow(t, stop, result);
    if (a->is_due) LS_TRY(run_audits(t, stop, result));
    a->is_due = false;
    int audited = result->audited;
    LS_TRY(ls_step_judge_outliers(t, stop, result));
    result->audited = audited;
    if (is_scaled(t)) ls_loss_scale_after(&t->scale, &t->settings.loss_scale, false);
    return LS_OK;
}

ls_status ls_trainer_gradients(ls_trainer *t, int stop, ls_step_result *result) {
    /* With a single worker, no other one can have committed the step, so any failure ends it whole: the state is that
     * before it. */
    t->failure.ended_whole = t->failure.blame.is_found = false;
    ls_status status = compute_step_gradient(t, stop, result);
    (void)ls_partition_end_skip(t->partition); /* also after a failure during the step */
    bool alone = !t->world || ls_world_size(t->world) == 1;
    t->failure.ended_whole =
        status != LS_OK && !t->failure.is_damaged && (t->failure.ended_whole || alone || status == LS_TRAINER_GAVE_UP);
    return status;
}

/* Adds the squared norms of the groups in this step to the estimate of the gradient noise scale. */
static void learn_noise(ls_trainer *t, const ls_step_result *result) {
    ls_guard *guard = &t->guard;
    ls_noise_step step = {.groups = (size_t)guard->groups,
                          .squares = guard->squares,
                          .tokens = guard->tokens,
                          .whole_squares = guard->whole_squares,
                          .scale = ls_clip_token_scale(ls_guard_tokens(guard, &t->settings), result->scale)};
    (void)ls_noise_add(&guard->noise, &step);
}

/* ---- the update -------------------------------------------------------------------------------------------------- */

/* Lets tests corrupt tensors (LS_FAULT_*) before (`after` false) or after an update; does nothing outside tests, where
 * ls_fault_spoil is NULL. */
static void corrupt_tensors(const ls_trainer *t, bool after) {
    const ls_param *tied = ls_partition_tied_copy(t->partition);
    if (ls_fault_spoil && after && tied)
        ls_fault_at(t->device, LS_FAULT_COPY, "tied", -1, tied->w16 ? (void *)tied->w16 : tied->w,
                    ls_param_local_elems(tied), tied->w16 ? sizeof(uint16_t) : sizeof(float));
    for (int i = 0; ls_fault_spoil && i < ls_model_params(t->model); i++) {
        const ls_param *p = ls_model_param(t->model, i);
        size_t own = ls_param_range_elems(p->own);
        bool is_16 = p->w16 != NULL;
        void *copy = is_16 ? (void *)p->w16 : p->w;
        if (after && p->held && copy)
            ls_fault_at(t->device, LS_FAULT_COPY, p->name, -1, copy, ls_param_local_elems(p),
                        is_16 ? 2 : sizeof(float));
        if (own == 0) continue;
        if (!after) ls_fault_at(t->device, LS_FAULT_LATE_WEIGHT, p->name, -1, p->own_w, own, sizeof(float));
        for (int m = 0; !after && m < 2 && p->moment[m]; m++)
            ls_fault_at(t->device, LS_FAULT_LATE_MOMENT, p->name, m, p->moment[m], own, sizeof(float));
        if (!after) ls_fault_at(t->device, LS_FAULT_GRADIENT, p->name, -1, p->own_grad, own, sizeof(float));
        if (after) ls_fault_at(t->device, LS_FAULT_WEIGHT, p->name, -1, p->own_w, own, sizeof(float));
        for (int m = 0; after && m < 2 && p->moment[m]; m++)
            ls_fault_at(t->device, LS_FAULT_MOMENT, p->name, m, p->moment[m], own, sizeof(float));
    }
}

/* Counts the update and computes its factors in *by; weights and optimizer state do not change yet. */
static ls_status prepare_update(ls_trainer *t, const ls_step_result *result, ls_optimizer_update *by) {
    const ls_settings *s = &t->settings;
    corrupt_tensors(t, false);
    ls_adamw_powers_move(&t->powers, &s->optimizer.adamw, ++t->updates);
    *by = ls_optimizer_update_at(&s->optimizer, &t->powers, result->lr, t->clip.factor);
    if (s->ghost > 0) by->ghosts = (double)ls_guard_tokens(&t->guard, s) / (double)s->ghost;
    if (ls_step_counts_numerics(t)) learn_noise(t, result);
    return LS_OK;
}

/* Runs the optimizer on this worker's elements and on the copies that it keeps, publishes the new weights to all
 * workers that compute with them, and compares replicas. Collective. */
static ls_status run_update(ls_trainer *t, ls_optimizer_update by) {
    LS_TRY(ls_partition_begin_sums(t->partition, &by));
    ls_span span = ls_span_begin("stage", "optimizer");
    ls_meter_mark mark = ls_meter_begin();
    if (ls_step_counts_numerics(t)) {
        LS_TRY(ls_partition_update_counted(t->partition, &by, t->guard.numerics));
        LS_TRY(ls_partition_sum_numerics(t->partition, t->guard.numerics));
    } else {
        LS_TRY(ls_optimizer_step(&by, t->device, &t->settings.policy, t->model));
    }
    LS_TRY(ls_copies_update(&t->recover, &by, t->updates));
    LS_TRY(ls_left_mark(&t->recover, t->updates));
    ls_meter_computed(mark);
    ls_span_end(span, 0);
    ls_fault_point(LS_POINT_PUBLISH);
    LS_TRY(ls_partition_publish(t->partition));
    LS_TRY(ls_step_check_replicas(t));
    corrupt_tensors(t, true);
    return LS_OK;
}

ls_status ls_trainer_update(ls_trainer *t, const ls_step_result *result) {
    (void)ls_phase_enter(LS_PHASE_UPDATE);
    ls_optimizer_update by;
    ls_step_checks_begin_update(t);
    /* A caller with its own gradients did not call ls_trainer_gradients(), but the update needs the sums of the state.
     */
    if (!t->state.is_summed) LS_TRY(ls_trainer_state_written(t));
    if (result->finite) LS_TRY(prepare_update(t, result, &by));
    ls_fault_point(LS_POINT_COMMIT);
    ls_left_commit(&t->recover, ls_trainer_numbers(t), result, result->finite ? &by : NULL);
    if (result->finite) LS_TRY(run_update(t, by));
    t->last_loss = result->loss;
    t->step++;
    LS_TRY(ls_left_stepped(&t->recover, t->step));
    ls_fault_point(LS_POINT_STEPPED);
    return LS_OK;
}

ls_status ls_trainer_step(ls_trainer *t, int stop, ls_step_result *result) {
    ls_span span = ls_span_begin("train", "step");
    ls_worker_time_begin(&t->time);
    ls_status status = ls_trainer_gradients(t, stop, result);
    if (status == LS_TRAINER_GAVE_UP) return LS_OK;
    LS_TRY(status);
    LS_TRY(ls_trainer_update(t, result));
    ls_worker_time_end(&t->time);
    LS_TRY(ls_device_read_times(t->device));
    ls_span_end(span, t->step);
    return LS_OK;
}
