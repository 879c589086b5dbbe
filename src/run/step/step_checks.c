/* step_checks.c: checks weights and optimizer state, reports what it finds, and ends the run with it. */
#include "run/step/step_checks.h"

#include <stdio.h>

#include "parallel/partition/check.h"
#include "run/agree.h"
#include "run/guard/state_check.h"
#include "run/state_hash.h"
#include "run/trainer.h"

void ls_step_checks_open(ls_trainer *t) {
    t->checks = (ls_step_checks){.kind = ls_check_choose(&t->settings, &t->layout),
                                 .every = ls_check_every(&t->settings, &t->layout),
                                 .checked_step = -1,
                                 .is_checked = true};
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

ls_status ls_step_report(ls_trainer *t, ls_train_event *event) {
    event->step = t->step + 1;
    return t->events.take ? t->events.take(t->events.ctx, event) : LS_OK;
}

ls_status ls_step_end_run(ls_trainer *t, const ls_train_event *event, const char *advice) {
    char text[512];
    LS_TRY(ls_agree(t->world, LS_OK));
    t->failure.ended_whole = !t->failure.is_damaged;
    ls_event_text(event, text, sizeof text);
    return ls_fail(LS_ERR_FAILED, "%s; %s%s%s", text,
                   t->failure.is_damaged ? "this step was not saved" : "the weights were not changed",
                   advice ? "; " : "", advice ? advice : "");
}

void ls_step_mark_suspect(const ls_trainer *t, int64_t sound_step, ls_train_event *event) {
    if (sound_step >= t->step) return;
    event->suspect_from = sound_step + 1;
    event->suspect_to = t->step;
}

void ls_step_blame(ls_trainer *t, const ls_train_event *event, int worker, int64_t sound_step, bool in_memory) {
    t->failure.blame = (ls_wrong){.is_found = true,
                                  .event = *event,
                                  .worker = worker,
                                  .sound_step = sound_step,
                                  .in_memory = in_memory && sound_step == t->step};
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

/* Returns whether a pass over the batch reads the fp32 weights that an update writes, and not a 16-bit copy of them. */
static bool is_read(const ls_param *param) { return !param->own_w16; }

/* Returns the last step whose state is certainly sound: the present one, or the one before it if an update found the
 * damage in weights that its pass had read, and no full check followed that pass. The weights may then have changed
 * before the pass read them. */
static int64_t last_sound_step(const ls_trainer *t, const ls_check_finding *f) {
    bool is_used = f->is_late && f->tensor == LS_CHECK_WEIGHT && is_read(ls_model_param(t->model, f->param));
    return is_used && !t->checks.is_checked ? t->step - 1 : t->step;
}

/* Adds the damaged elements to the event, if the update found the damage and skipped their block; the workers at fault
 * then mark their memory as unusable for recovery. */
static void locate_damaged_block(ls_trainer *t, const ls_check_finding *f, ls_train_event *event) {
    if (!f->is_late) return;
    event->first_element = f->block * LS_CHECK_BLOCK;
    event->elements = LS_CHECK_BLOCK;
    for (int i = 0; i < f->nworkers; i++)
        if (f->workers[i] == t->rank) ls_left_note_damage(&t->recover);
}

/* Reports a finding as an event of this kind, blames its worker, and returns the failure that ends the run.
 * `in_memory`: the finding is the only damage of the state before this step; otherwise it concerns an update that is
 * already written, but not hashed yet. */
static ls_status report_finding(ls_trainer *t, const ls_check_finding *f, ls_event_kind kind, bool in_memory) {
    static const char *const tensors[] = {"weight", "moment1", "moment2", "copy"};
    ls_train_event event = {.kind = kind, .what = tensors[f->tensor]};
    t->failure.is_damaged = true;
    snprintf(event.tensor, sizeof event.tensor, "%s", ls_model_param(t->model, f->param)->name);
    ls_event_block_of(event.tensor, event.block);
    for (int i = 0; i < f->nworkers && i < LS_EVENT_WORKERS_MAX; i++) event.workers[event.nworkers++] = f->workers[i];
    event.worker = f->nworkers > 0 ? f->workers[0] : 0;
    locate_damaged_block(t, f, &event);
    ls_step_mark_suspect(t, last_sound_step(t, f), &event);
    LS_TRY(ls_step_report(t, &event));
    ls_step_blame(t, &event, f->nworkers == 1 ? f->workers[0] : -1, last_sound_step(t, f), in_memory);
    return ls_step_end_run(t, &event,
                           "continue with --resume, and without the machine of that worker if it happens again");
}

ls_status ls_step_report_damage(ls_trainer *t) {
    ls_check_finding f;
    LS_TRY(ls_partition_tell_state(t->partition, &f));
    return report_finding(t, &f, LS_EVENT_STATE, true);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

ls_status ls_step_check_state(ls_trainer *t, bool *found) {
    bool is_due = t->checks.every > 0 && t->step % t->checks.every == 0;
    *found = false;
    if (!t->state.is_summed) return LS_OK;
    if (is_due) t->checks.checked_step = t->step;
    return is_due ? ls_partition_look_at_state(t->partition, found) : ls_partition_look_at_update(t->partition, found);
}

void ls_step_checks_begin_update(ls_trainer *t) { t->checks.is_checked = t->checks.checked_step == t->step; }

ls_status ls_step_judge_memory(ls_trainer *t) {
    ls_check_finding f;
    if (!t->state.is_summed) return LS_OK;
    LS_TRY(ls_partition_judge_memory(t->partition, &f));
    if (!f.found) return LS_OK;
    return report_finding(t, &f, f.nworkers == 1 ? LS_EVENT_STATE : LS_EVENT_REPLICA, true);
}

/* Fails with LS_ERR_FAILED if weights or optimizer state are not finite after the last update, because no later loss
 * would show it. */
static ls_status check_finite_state(ls_trainer *t) {
    int param;
    LS_TRY(ls_partition_bad_state(t->partition, &param));
    if (param < 0) return LS_OK;
    return ls_fail(
        LS_ERR_FAILED,
        "step %lld: weights or optimizer state of '%s' are not finite, so no checkpoint is made of them; use "
        "a lower --lr or --weight-decay, with --fork if there is an earlier checkpoint",
        (long long)t->step, ls_model_param(t->model, param)->name);
}

/* Compares the state in memory with the sums of what was written; a difference ends the run. */
static ls_status verify_state_sums(ls_trainer *t) {
    ls_check_finding f;
    if (!t->state.is_summed) LS_TRY(ls_trainer_state_written(t));
    LS_TRY(ls_partition_check_state(t->partition, &f));
    if (f.found) return report_finding(t, &f, LS_EVENT_STATE, true);
    return ls_trainer_know_state(t);
}

ls_status ls_trainer_prove_state(ls_trainer *t) {
    if (ls_trainer_has_state_hash(t)) LS_TRY(verify_state_sums(t));
    return check_finite_state(t);
}

ls_status ls_step_check_replicas(ls_trainer *t) {
    ls_check_finding f, damage = {.found = false};
    /* First: a change of memory before this hash is taken then makes replicas differ. */
    if (t->checks.kind >= LS_CHECK_STATE) LS_TRY(ls_partition_remember_state(t->partition));
    if (t->checks.kind >= LS_CHECK_REPLICAS) {
        LS_TRY(ls_partition_check_replicas(t->partition, &f));
        if (f.found) LS_TRY(ls_partition_check_state(t->partition, &damage));
        if (damage.found && !damage.is_late) return report_finding(t, &damage, LS_EVENT_STATE, false);
        if (f.found && !damage.is_late) return report_finding(t, &f, LS_EVENT_REPLICA, false);
    }
    return LS_OK;
}
