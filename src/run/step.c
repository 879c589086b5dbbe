/* step.c: makes a training step, from the batch to the new weights, and handles values that are not finite, outliers
 * and failed checks.
 *
 * A pass over the batch is deterministic: repeated, it gives the same bits. So a suspicious step is repeated: with a
 * check of every output, to locate a bad value; without some groups; or unchanged, to distinguish a transient fault
 * from a permanent one.
 *
 * Every decision depends only on sums that all workers hold, so that all workers decide alike (rule 15). */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "base/alive.h"
#include "base/events.h"
#include "base/fault.h"
#include "base/meter.h"
#include "comm/world.h"
#include "numerics/elementary.h"
#include "observe/advice.h"
#include "parallel/layout/micro_batches.h"
#include "parallel/partition/check.h"
#include "parallel/partition/state_sum.h"
#include "run/agree.h"
#include "run/recover/copies.h"
#include "run/recover/left.h"
#include "run/state_hash.h"
#include "run/trainer.h"

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* All data that the workers exchange after backward, in one exact sum. */
typedef struct totals {
    ls_loss_sum loss;
    int64_t asks[2];  /* number of workers that make each request: see pack_requests() */
    int64_t state[2]; /* sum of the state before this step; wraps */
    int64_t squares[LS_EXACT_WORDS];
} totals;

_Static_assert(sizeof(totals) == (3 + 2 + 2 + LS_EXACT_WORDS) * sizeof(int64_t), "totals are added as a list of int64");

enum { TOTALS = sizeof(totals) / sizeof(int64_t), SIGNAL_MASK = 0xff };

/* Requests of a worker, each counted in 15 bits of a word, which suffices because there are far fewer workers. */
enum {
    ASK_INT,
    ASK_TERM,
    ASK_REQUEUE,
    ASK_GIVE_UP,
    ASK_SAVE,
    ASK_SAVE_BEST,
    ASK_LEAVE,
    ASK_DAMAGED, /* its weights or optimizer state fail their checksum */
    ASKS,
    ASK_BITS = 15,
    ASKS_IN_WORD = 4
};

static void pack_requests(const bool asked[ASKS], int64_t words[2]) {
    words[0] = words[1] = 0;
    for (int i = 0; i < ASKS; i++) words[i / ASKS_IN_WORD] |= (int64_t)asked[i] << ASK_BITS * (i % ASKS_IN_WORD);
}

static bool is_requested(const int64_t words[2], int what) {
    return (words[what / ASKS_IN_WORD] >> ASK_BITS * (what % ASKS_IN_WORD) & ((1 << ASK_BITS) - 1)) > 0;
}

/* Layout of t->sums: totals, times of workers, their contributions, measurements of a guard. */
static int64_t *contribution_words(const ls_trainer *t) { return t->sums + TOTALS + ls_worker_time_words(&t->time); }
static int64_t *guard_sums(const ls_trainer *t) { return contribution_words(t) + t->guard.contribution.workers; }

size_t ls_trainer_sums(const ls_trainer *t) {
    return (size_t)(guard_sums(t) - t->sums) + (t->guard.parts ? ls_guard_words(t->guard.groups) : 0);
}

static void pack_contribution(ls_trainer *t) {
    if (t->guard.contribution.workers == 0) return;
    ls_contribution_give(&t->guard.contribution, t->rank, ls_partition_contribution(t->partition),
                         contribution_words(t));
}

/* Sums the totals, times, contributions and measurements over all workers. `measured` is NULL if the pass measured
 * nothing. */
static ls_status sum_step_totals(ls_trainer *t, ls_exact_sum *squares, ls_exact_sum *measured, totals *sum) {
    ls_exact_sum_settle(squares);
    memcpy(sum->squares, squares->words, sizeof sum->squares);
    memcpy(t->sums, sum, sizeof *sum);
    ls_worker_time_give(&t->time, t->sums + TOTALS);
    pack_contribution(t);
    if (measured) ls_guard_give(&t->guard, measured, guard_sums(t));
    size_t words = (size_t)(guard_sums(t) - t->sums) + (measured ? ls_guard_words(t->guard.groups) : 0);
    LS_TRY(ls_partition_sum(t->partition, t->sums, words));
    memcpy(sum, t->sums, sizeof *sum);
    /* A worker abandoned the step, so the other sums are incomplete and the guards must not learn from them. */
    if (is_requested(sum->asks, ASK_GIVE_UP)) return LS_OK;
    if (measured) ls_guard_take(&t->guard, &t->settings, guard_sums(t));
    ls_worker_time_take(&t->time, t->sums + TOTALS);
    if (t->guard.contribution.workers > 0) ls_contribution_take(&t->guard.contribution, contribution_words(t));
    memcpy(squares->words, sum->squares, sizeof sum->squares);
    return LS_OK;
}

static bool numerics_are_due(const ls_trainer *t) {
    return t->settings.options.numerics > 0 && (t->step + 1) % t->settings.options.numerics == 0;
}

static bool needs_observers(const ls_trainer *t) { return t->guard.outlier || numerics_are_due(t); }

/* Attaches the observers of group norms and of rounded gradients, if they are needed. */
static ls_status attach_observers(ls_trainer *t) {
    ls_guard *guard = &t->guard;
    if (needs_observers(t) || guard->audit.is_due) ls_guard_begin(guard, t->partition, needs_observers(t));
    if (!numerics_are_due(t)) return LS_OK;
    memset(guard->numerics, 0, (size_t)guard->blocks * sizeof *guard->numerics);
    return ls_partition_count_acts(t->partition, guard->numerics);
}

static ls_status detach_observers(ls_trainer *t) {
    ls_guard_end(&t->guard);
    return ls_partition_count_acts(t->partition, NULL);
}

static ls_status report_damage(ls_trainer *t);

float ls_trainer_backward_start(const ls_trainer *t) {
    return ls_clip_backward_start(ls_guard_tokens(&t->guard, &t->settings), t->scale.exponent);
}

static double step_lr(const ls_trainer *t) {
    ls_lr_schedule lr = t->settings.lr;
    lr.total_steps -= t->lr_start;
    return ls_lr_at(&lr, t->step - t->lr_start);
}

/* Verifies weights and optimizer state after each pass and before the gradients are judged, because corrupted weights
 * cause bad gradients. A full check runs every t->check_every steps; the other steps report what the last update found.
 */
static ls_status check_state_sums(ls_trainer *t, totals *sum) {
    bool found = false, is_due = t->check_every > 0 && t->step % t->check_every == 0;
    if (!t->state.is_summed) return LS_OK;
    if (is_due) t->checked_step = t->step;
    LS_TRY(is_due ? ls_partition_look_at_state(t->partition, &found)
                  : ls_partition_look_at_update(t->partition, &found));
    if (found) sum->asks[ASK_DAMAGED / ASKS_IN_WORD] += INT64_C(1) << ASK_BITS * (ASK_DAMAGED % ASKS_IN_WORD);
    return LS_OK;
}

static ls_status add_state_sum(ls_trainer *t, totals *sum) {
    ls_hash128 part;
    if (!t->state.is_summed || t->state.step == t->step) return LS_OK;
    LS_TRY(ls_partition_state_part(t->partition, &part, t->state.parts));
    sum->state[0] = (int64_t)part.lo;
    sum->state[1] = (int64_t)part.hi;
    return LS_OK;
}

/* Stores the state hash of the first pass of a step. Later passes of the step leave out groups and may have another
 * scale. */
static void store_state_hash(ls_trainer *t, const totals *sum) {
    if (!t->state.is_summed || t->state.step == t->step) return;
    ls_hash128 all = {.lo = (uint64_t)sum->state[0], .hi = (uint64_t)sum->state[1]};
    t->state.hash = ls_trainer_state_hash_of(t, all);
    t->state.sum = all;
    t->state.step = t->step;
}

ls_status ls_trainer_judge(ls_trainer *t, int stop, const ls_loss_sum *loss, ls_step_result *result) {
    const ls_settings *s = &t->settings;
    int64_t tokens = ls_guard_tokens(&t->guard, s);
    totals sum = {.loss = {0}};
    /* Gradients computed outside the partition carry no measurements. */
    bool measures = t->guard.partition && t->guard.measures;
    ls_exact_sum squares = {0}, measured = {0};
    /* Before the host reads the squares, so that no update waits for a gradient of a lost worker. */
    LS_TRY(ls_copies_give(t));
    ls_fault_point(LS_POINT_GIVEN);
    LS_TRY(ls_partition_square_norm(t->partition, &sum.loss, &squares, measures ? &measured : NULL));
    if (loss) sum.loss = *loss;
    LS_TRY(detach_observers(t));
    /* As late as possible, so that a worker that is asked to stop now need not finish another step. */
    int signal = t->asked.signal ? t->asked.signal(t->asked.ctx) : 0;
    if (signal == 0) signal = stop & SIGNAL_MASK;
    pack_requests((const bool[ASKS]){[ASK_INT] = signal == SIGINT,
                                     [ASK_TERM] = signal != 0 && signal != SIGINT && signal != SIGUSR2,
                                     [ASK_REQUEUE] = signal == SIGUSR2,
                                     [ASK_GIVE_UP] = ls_partition_end_skip(t->partition),
                                     [ASK_SAVE] = stop & LS_REQUEST_SAVE,
                                     [ASK_SAVE_BEST] = stop & LS_REQUEST_SAVE_BEST,
                                     [ASK_LEAVE] = stop & LS_REQUEST_LEAVE},
                  sum.asks);
    LS_TRY(check_state_sums(t, &sum));
    LS_TRY(add_state_sum(t, &sum));
    LS_TRY(sum_step_totals(t, &squares, measures ? &measured : NULL, &sum));
    signal = is_requested(sum.asks, ASK_INT)       ? SIGINT
             : is_requested(sum.asks, ASK_TERM)    ? SIGTERM
             : is_requested(sum.asks, ASK_REQUEUE) ? SIGUSR2
                                                   : 0;
    *result = (ls_step_result){.stop = signal, .gave_up = is_requested(sum.asks, ASK_GIVE_UP)};
    if (result->gave_up) return LS_TRAINER_GAVE_UP;
    if (is_requested(sum.asks, ASK_DAMAGED)) return report_damage(t);
    store_state_hash(t, &sum);
    double scale = ls_clip_token_scale(tokens, t->scale.exponent);
    t->clip = ls_clip_factor(ls_exact_sum_value(&squares), ls_exact_sum_non_finite(&squares), scale, s->options.clip);
    *result = (ls_step_result){.loss = sum.loss.bad ? (double)NAN : ls_loss_sum_mean(&sum.loss),
                               .norm = t->clip.norm,
                               .lr = step_lr(t),
                               .finite = t->clip.finite && sum.loss.bad == 0,
                               .scale = t->scale.exponent,
                               .requests = (is_requested(sum.asks, ASK_SAVE) ? LS_REQUEST_SAVE : 0) |
                                           (is_requested(sum.asks, ASK_SAVE_BEST) ? LS_REQUEST_SAVE_BEST : 0) |
                                           (is_requested(sum.asks, ASK_LEAVE) ? LS_REQUEST_LEAVE : 0),
                               .stop = signal};
    return LS_OK;
}

/* Computes and judges the gradient of the batch without absent groups. If `place` is not NULL, checks every output and
 * sets *place to the first bad value. */
static ls_status run_gradient_pass(ls_trainer *t, int stop, ls_bad_place *place, ls_step_result *result) {
    ls_partition_feed feed = ls_trainer_feed(t);
    float start = ls_trainer_backward_start(t);
    LS_TRY(attach_observers(t));
    ls_fault_point(LS_POINT_FORWARD);
    LS_TRY(place ? ls_partition_hunt(t->partition, (uint64_t)t->step, start, &feed, place)
                 : ls_partition_step(t->partition, (uint64_t)t->step, start, &feed));
    /* Prefetches the next batch. An error is ignored, because the next step reads the batch again and reports it. */
    if (!place && t->step + 1 < t->settings.options.steps) (void)ls_partition_prepare(t->partition, &feed);
    ls_fault_point(LS_POINT_REDUCED);
    return ls_trainer_judge(t, stop, NULL, result);
}

static ls_status report_train_event(ls_trainer *t, ls_train_event *event) {
    event->step = t->step + 1;
    return t->events.take ? t->events.take(t->events.ctx, event) : LS_OK;
}

/* Fails with the event as the reason. Barrier: rank 0 records the event before any worker exits. `advice` is NULL if
 * only the doctor, which sees the whole run, can give advice. */
static ls_status end_run(ls_trainer *t, const ls_train_event *event, const char *advice) {
    char text[512];
    LS_TRY(ls_agree(t->world, LS_OK));
    t->ended_whole = !t->damaged;
    ls_event_text(event, text, sizeof text);
    return ls_fail(LS_ERR_FAILED, "%s; %s%s%s", text,
                   t->damaged ? "this step was not saved" : "the weights were not changed", advice ? "; " : "",
                   advice ? advice : "");
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* Marks the steps after `sound_step`, which no check has covered, as suspect. */
static void mark_suspect_steps(const ls_trainer *t, int64_t sound_step, ls_train_event *event) {
    if (sound_step >= t->step) return;
    event->suspect_from = sound_step + 1;
    event->suspect_to = t->step;
}

/* Sets t->blame to the event that ends the run and the worker at fault, or −1 if it is not known. */
static void set_blame(ls_trainer *t, const ls_train_event *event, int worker, int64_t sound_step, bool in_memory) {
    t->blame = (ls_wrong){.is_found = true,
                          .event = *event,
                          .worker = worker,
                          .sound_step = sound_step,
                          .in_memory = in_memory && sound_step == t->step};
}

/* Returns whether a pass over the batch reads the weights that an update writes, and not a 16-bit copy of them. */
static bool is_read(const ls_param *param) { return !param->own_w16; }

/* Returns the last step whose state is certainly sound. An update found the damage; without a check after the last
 * pass, weights may have changed before the pass read them, so that step is not sound either. */
static int64_t last_sound_step(const ls_trainer *t, const ls_check_finding *f) {
    bool is_used = f->is_late && f->tensor == LS_CHECK_WEIGHT && is_read(ls_model_param(t->model, f->param));
    return is_used && !t->is_checked ? t->step - 1 : t->step;
}

static void locate_damaged_block(ls_trainer *t, const ls_check_finding *f, ls_train_event *event) {
    if (!f->is_late) return;
    event->first_element = f->block * LS_CHECK_BLOCK;
    event->elements = LS_CHECK_BLOCK;
    for (int i = 0; i < f->nworkers; i++)
        if (f->workers[i] == t->rank) ls_left_note_damage(t);
}

/* Reports a finding and ends the run. `in_memory`: the finding is the only damage of the state before this step.
 * Otherwise it concerns an update that is already written, but not hashed yet. */
static ls_status report_finding(ls_trainer *t, const ls_check_finding *f, ls_event_kind kind, bool in_memory) {
    static const char *const tensors[] = {"weight", "moment1", "moment2", "copy"};
    ls_train_event event = {.kind = kind, .what = tensors[f->tensor]};
    t->damaged = true;
    snprintf(event.tensor, sizeof event.tensor, "%s", ls_model_param(t->model, f->param)->name);
    ls_event_block_of(event.tensor, event.block);
    for (int i = 0; i < f->nworkers && i < LS_EVENT_WORKERS_MAX; i++) event.workers[event.nworkers++] = f->workers[i];
    event.worker = f->nworkers > 0 ? f->workers[0] : 0;
    locate_damaged_block(t, f, &event);
    mark_suspect_steps(t, last_sound_step(t, f), &event);
    LS_TRY(report_train_event(t, &event));
    set_blame(t, &event, f->nworkers == 1 ? f->workers[0] : -1, last_sound_step(t, f), in_memory);
    return end_run(t, &event, "continue with --resume, and without the machine of that worker if it happens again");
}

static ls_status report_damage(ls_trainer *t) {
    ls_check_finding f;
    LS_TRY(ls_partition_tell_state(t->partition, &f));
    return report_finding(t, &f, LS_EVENT_STATE, true);
}

/* Checks the memory before a bad value is attributed to a learning rate, a processor or a machine, because corrupted
 * memory can cause any of these symptoms. Ends the run if a hash differs. Collective. */
static ls_status judge_memory(ls_trainer *t) {
    ls_check_finding f;
    if (!t->state.is_summed) return LS_OK;
    LS_TRY(ls_partition_judge_memory(t->partition, &f));
    if (!f.found) return LS_OK;
    return report_finding(t, &f, f.nworkers == 1 ? LS_EVENT_STATE : LS_EVENT_REPLICA, true);
}

/* Checks that weights and optimizer state are finite after the last update, because no later loss would show it. */
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

/* Compares replicas after an update. If they differ, reports the worker whose memory differs from what its update
 * wrote. A block that the update did not change is reported in the next step, when all workers have written this
 * update. */
static ls_status check_replicas(ls_trainer *t) {
    ls_check_finding f, damage = {.found = false};
    /* First: a change of memory before this hash is taken then makes replicas differ. */
    if (t->check >= LS_CHECK_STATE) LS_TRY(ls_partition_remember_state(t->partition));
    if (t->check >= LS_CHECK_REPLICAS) {
        LS_TRY(ls_partition_check_replicas(t->partition, &f));
        if (f.found) LS_TRY(ls_partition_check_state(t->partition, &damage));
        if (damage.found && !damage.is_late) return report_finding(t, &damage, LS_EVENT_STATE, false);
        if (f.found && !damage.is_late) return report_finding(t, &f, LS_EVENT_REPLICA, false);
    }
    return LS_OK;
}

/* ---- numbers that are not finite --------------------------------------------------------------------------------- */

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

static bool is_scaled(const ls_trainer *t) { return t->settings.policy.act == LS_F16; }

/* Returns whether a result is not finite and the loss scale cannot be the cause: it multiplies gradients, never the
 * loss. */
static bool is_broken(const ls_trainer *t, const ls_step_result *result) {
    return is_scaled(t) ? isnan(result->loss) : !result->finite;
}

/* Re-runs the pass with a check of every output. If the fault does not recur, the step is sound, unless its scaled
 * gradient overflows. */
static ls_status rerun_step(ls_trainer *t, int stop, ls_step_result *result) {
    ls_bad_place place;
    ls_train_event event = {.kind = LS_EVENT_NON_FINITE};
    ls_audit *a = &t->guard.audit;
    LS_TRY(judge_memory(t));
    if (a->is_due) ls_audit_keep(a);
    LS_TRY(run_gradient_pass(t, stop, &place, result));
    event.recurs = is_broken(t, result);
    if (event.recurs && place.order >= 0) describe_bad_place(t, &place, &event);
    if (!event.recurs && a->is_due) LS_TRY(ls_audit_find_changed(a, t->partition, &event.workers[0]));
    event.nworkers = !event.recurs && a->is_due && event.workers[0] >= 0;
    LS_TRY(report_train_event(t, &event));
    if (!event.recurs) return LS_OK;
    return end_run(t, &event, NULL);
}

/* Handles an overflow of scaled gradients: skips the step with a lower loss scale, or ends the run at the lowest scale
 * after another pass to locate the overflow. */
static ls_status handle_overflow(ls_trainer *t, int stop, ls_step_result *result) {
    ls_train_event event = {.kind = LS_EVENT_OVERFLOW, .scale = t->scale.exponent};
    ls_loss_scale_verdict verdict = ls_loss_scale_after(&t->scale, &t->settings.loss_scale, true);
    int param;
    LS_TRY(judge_memory(t));
    event.next_scale = t->scale.exponent;
    LS_TRY(ls_partition_bad_param(t->partition, &param));
    snprintf(event.tensor, sizeof event.tensor, "%s", param < 0 ? "the loss" : ls_model_param(t->model, param)->name);
    ls_event_block_of(event.tensor, event.block);
    if (verdict == LS_LOSS_SCALE_SKIPPED) {
        result->skipped = true;
        return report_train_event(t, &event);
    }
    ls_bad_place place;
    event.kind = LS_EVENT_FLOOR;
    LS_TRY(run_gradient_pass(t, stop, &place, result));
    if (place.order >= 0) describe_bad_place(t, &place, &event);
    LS_TRY(report_train_event(t, &event));
    return end_run(t, &event, ls_advice_at_floor(t->settings.loss_scale.constant));
}

/* ---- outliers ---------------------------------------------------------------------------------------------------- */

/* Returns the squared norm of the unnormalized gradient sum, which does not depend on the number of tokens of the pass.
 */
static double square_of(const ls_step_result *result, int64_t tokens) {
    double length = result->norm * (double)tokens;
    return length * length;
}

static void set_absent(ls_guard *guard, size_t count, bool flagged) {
    for (int g = 0; g < guard->groups; g++) guard->absent[g] = !flagged;
    for (size_t i = 0; i < count; i++) guard->absent[guard->findings[i].group] = flagged;
}

static ls_status pass_without(ls_trainer *t, int stop, size_t count, bool flagged, ls_step_result *result) {
    set_absent(&t->guard, count, flagged);
    ls_partition_leave_out(t->partition, t->guard.absent);
    return run_gradient_pass(t, stop, NULL, result);
}

static ls_status pass_with_all(ls_trainer *t, int stop, ls_step_result *result) {
    memset(t->guard.absent, 0, (size_t)t->guard.groups * sizeof *t->guard.absent);
    ls_partition_leave_out(t->partition, NULL);
    return run_gradient_pass(t, stop, NULL, result);
}

static int owner_of(const ls_trainer *t, int group) {
    const ls_layout *layout = &t->layout;
    for (int d = 0; d < layout->dp; d++) {
        if (layout->zero < 2 || layout->dp == 1) {
            if (group < ls_layout_first_group(layout, d + 1)) return d * layout->tp;
        } else {
            for (int r = 0; r < layout->share[d]; r++)
                if (ls_layout_group(layout, d, r) == group) return d * layout->tp;
        }
    }
    return 0;
}

/* Returns whether the flagged groups have nearly (to 1/16) the same squares as before. A rounding difference is no
 * fault. */
static bool is_repeated(const ls_trainer *t, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const ls_outlier_finding *f = &t->guard.findings[i];
        double before = t->guard.before[f->group], now = t->guard.all_squares[f->group];
        if (f->finite && !(fabs(now - before) <= before / 16)) return false;
    }
    return true;
}

/* Returns the angle of a cosine in degrees, by bisection. */
static double angle_of(double cosine) {
    double low = 0, high = 180;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (ls_cos_f64(middle * (3.14159265358979323846 / 180)) > cosine)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Computes the gradient of the flagged groups only. Backward starts from the same factor as for all groups; a higher
 * factor could overflow fp16 and would change the gradient. */
static ls_status pass_alone(ls_trainer *t, int stop, size_t count, float start, ls_step_result *result) {
    int exponent = t->scale.exponent;
    set_absent(&t->guard, count, false);
    for (float alone = ls_trainer_backward_start(t); alone > start; alone *= 0.5F) t->scale.exponent--;
    ls_status status = pass_without(t, stop, count, false, result);
    t->scale.exponent = exponent;
    return status;
}

/* Measures how the flagged groups change the gradient: the angle and norms with and without them, from three norms.
 * *recurs is false, and *out is zero, if their norms were not reproduced. */
static ls_status measure_pull(ls_trainer *t, int stop, size_t count, ls_step_result *result, ls_outlier_pull *out,
                              bool *recurs) {
    const ls_settings *s = &t->settings;
    int64_t all = (int64_t)(s->B * s->T);
    double with = square_of(result, all), only, without;
    memcpy(t->guard.before, t->guard.all_squares, (size_t)t->guard.groups * sizeof *t->guard.before);
    LS_TRY(pass_alone(t, stop, count, ls_trainer_backward_start(t), result));
    only = square_of(result, ls_guard_tokens(&t->guard, s));
    *out = (ls_outlier_pull){0};
    *recurs = is_repeated(t, count);
    if (!*recurs) return LS_OK;
    LS_TRY(pass_without(t, stop, count, true, result));
    without = square_of(result, ls_guard_tokens(&t->guard, s));
    double cosine = (with + without - only) / (2 * sqrt(with) * sqrt(without));
    *out = (ls_outlier_pull){
        .angle_deg = angle_of(cosine), .with = sqrt(with) / (double)all, .without = sqrt(without) / (double)all};
    return LS_OK;
}

/* Reports each flagged group. `pull` is NULL if the groups were not recomputed. */
static ls_status report_outliers(ls_trainer *t, size_t count, const ls_outlier_pull *pull, bool recurs) {
    const ls_settings *s = &t->settings;
    for (size_t i = 0; i < count; i++) {
        const ls_outlier_finding *f = &t->guard.findings[i];
        int group = (int)f->group;
        size_t first = ls_slice_begin(s->B, s->groups, group), end = ls_slice_begin(s->B, s->groups, group + 1);
        ls_train_event event = {.kind = LS_EVENT_OUTLIER,
                                .group = group,
                                .worker = owner_of(t, group),
                                .first_sample = (int64_t)(ls_trainer_samples(t) + first),
                                .samples = (int64_t)(end - first),
                                .finding = *f,
                                .again = pull != NULL,
                                .recurs = recurs,
                                .action = s->options.on_outlier};
        if (pull) event.pull = *pull;
        LS_TRY(report_train_event(t, &event));
        if (s->options.on_outlier == LS_OUTLIER_STOP && recurs)
            return end_run(t, &event, "inspect these samples, or use --on-outlier skip-group");
    }
    return LS_OK;
}

static double gradient_scale(const ls_trainer *t) {
    return ls_clip_token_scale((int64_t)(t->settings.B * t->settings.T), t->scale.exponent);
}

/* Reports workers whose gradients are outliers. Their contributions are kept, because no pass is repeated for a worker.
 */
static ls_status judge_workers(ls_trainer *t) {
    ls_contribution *c = &t->guard.contribution;
    ls_outlier_action action = t->settings.options.on_outlier;
    size_t count = ls_contribution_judge(c, gradient_scale(t));
    for (size_t i = 0; i < count; i++) {
        ls_train_event event = {.kind = LS_EVENT_OUTLIER,
                                .group = -1,
                                .worker = c->of[i].worker,
                                .finding = c->of[i].of,
                                .replicas = t->layout.dp,
                                .action = action == LS_OUTLIER_SKIP ? LS_OUTLIER_WARN : action};
        LS_TRY(report_train_event(t, &event));
        if (action == LS_OUTLIER_STOP)
            return end_run(t, &event,
                           "find out with --audit 1 whether that worker computes wrongly, or use "
                           "--on-outlier warn");
    }
    ls_contribution_remember(c);
    return LS_OK;
}

/* Reports outlier groups and leaves the partition with the gradient to use: of all groups, or without the outliers.
 * *told is set to whether outliers were found. */
static ls_status judge_groups(ls_trainer *t, int stop, ls_step_result *result, bool *told) {
    const ls_settings *s = &t->settings;
    ls_guard *guard = &t->guard;
    ls_outlier_step step = {
        .squares = guard->all_squares, .losses = guard->losses, .tokens = guard->tokens, .scale = gradient_scale(t)};
    size_t count = ls_outlier_judge(guard->outlier, &step, guard->findings);
    ls_outlier_pull pull;
    bool recurs;
    *told = count > 0;
    if (count == 0) {
        ls_outlier_remember(guard->outlier);
        return LS_OK;
    }
    if (s->options.on_outlier == LS_OUTLIER_AUTO) /* recomputing takes three more passes, too much by default */
        return count < (size_t)guard->groups ? report_outliers(t, count, NULL, false) : LS_OK;
    t->ended_whole = count == (size_t)guard->groups;
    if (t->ended_whole)
        return ls_fail(LS_ERR_FAILED, "step %lld: the gradient of every group is an outlier; raise --outlier-threshold",
                       (long long)(t->step + 1));
    LS_TRY(measure_pull(t, stop, count, result, &pull, &recurs));
    LS_TRY(report_outliers(t, count, &pull, recurs));
    if (s->options.on_outlier == LS_OUTLIER_WARN || !recurs) return pass_with_all(t, stop, result);
    result->dropped = (int)count;
    return LS_OK;
}

/* Judges groups, then workers. Workers are not judged in a step with outlier groups, because these distort their norms.
 */
static ls_status judge_outliers(ls_trainer *t, int stop, ls_step_result *result) {
    bool told = false;
    if (t->guard.outlier) LS_TRY(judge_groups(t, stop, result, &told));
    return told || t->guard.contribution.workers == 0 ? LS_OK : judge_workers(t);
}

/* ---- audits ------------------------------------------------------------------------------------------------------ */

/* Ends the run after an audit that named a worker, or in which neither the owner nor the auditor can be cleared. */
static ls_status end_audit(ls_trainer *t, ls_train_event *event) {
    int64_t clean_step = t->guard.audit.clean_step;
    char advice[160];
    LS_TRY(judge_memory(t));
    mark_suspect_steps(t, clean_step, event);
    LS_TRY(report_train_event(t, event));
    if (event->worker >= 0) set_blame(t, event, event->worker, clean_step, true);
    if (event->worker >= 0)
        snprintf(advice, sizeof advice, "take the machine of worker %d out of the run and continue with --resume",
                 event->worker);
    else
        snprintf(advice, sizeof advice,
                 "worker %d or worker %d computes wrongly: test their machines, and continue with --resume on others",
                 event->owner, event->auditor);
    return end_run(t, event, advice);
}

/* Audits groups until all audits of the step have passed for the same gradient. An audit that fails repeats the pass.
 */
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
        if (event.group >= 0) LS_TRY(report_train_event(t, &event));
        if (outcome == LS_AUDIT_PASSED && next == a->groups) {
            a->counted++;
            a->clean_step = t->step + 1;
            result->audited = a->total;
            return LS_OK;
        }
        if (outcome == LS_AUDIT_PASSED) continue;
        LS_TRY(pass_with_all(t, stop, result));
        next = 0;
    }
    LS_TRY(judge_memory(t));
    t->ended_whole = true;
    return ls_fail(LS_ERR_FAILED,
                   "step %lld: audits found a group that was computed wrongly %d times in a row; check the memory and "
                   "processors of the workers named above",
                   (long long)t->step + 1, tries);
}

/* ---- the halves of a step ---------------------------------------------------------------------------------------- */

static ls_status compute_step_gradient(ls_trainer *t, int stop, ls_step_result *result) {
    ls_audit *a = &t->guard.audit;
    ls_fault_step = t->step;
    ls_left_try(t);
    a->is_due = a->every > 0 && (t->step + 1) % a->every == 0;
    if (!t->state.is_summed) LS_TRY(ls_trainer_state_written(t));
    LS_TRY(pass_with_all(t, stop, result));
    if (is_broken(t, result)) LS_TRY(rerun_step(t, stop, result));
    if (is_scaled(t) && !result->finite) return handle_overflow(t, stop, result);
    if (a->is_due) LS_TRY(run_audits(t, stop, result));
    a->is_due = false;
    int audited = result->audited;
    LS_TRY(judge_outliers(t, stop, result));
    result->audited = audited;
    if (is_scaled(t)) ls_loss_scale_after(&t->scale, &t->settings.loss_scale, false);
    return LS_OK;
}

/* With a single worker, a failure cannot leave the step committed by another worker, so the step ends whole. */
ls_status ls_trainer_gradients(ls_trainer *t, int stop, ls_step_result *result) {
    t->ended_whole = t->blame.is_found = false;
    ls_status status = compute_step_gradient(t, stop, result);
    (void)ls_partition_end_skip(t->partition); /* also after a failure during the step */
    bool alone = !t->world || ls_world_size(t->world) == 1;
    t->ended_whole = status != LS_OK && !t->damaged && (t->ended_whole || alone || status == LS_TRAINER_GAVE_UP);
    return status;
}

/* Adds the squares of the groups of this step to the estimate of the noise scale. */
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

/* Lets tests corrupt tensors (LS_FAULT_*); ls_fault_spoil is NULL outside tests. */
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

/* Computes the factors of the update; weights and optimizer state do not change yet. */
static ls_status prepare_update(ls_trainer *t, const ls_step_result *result, ls_optimizer_update *by) {
    const ls_settings *s = &t->settings;
    corrupt_tensors(t, false);
    ls_adamw_powers_move(&t->powers, &s->optimizer.adamw, ++t->updates);
    *by = ls_optimizer_update_at(&s->optimizer, &t->powers, result->lr, t->clip.factor);
    if (s->ghost > 0) by->ghosts = (double)ls_guard_tokens(&t->guard, s) / (double)s->ghost;
    if (numerics_are_due(t)) learn_noise(t, result);
    return LS_OK;
}

static ls_status run_update(ls_trainer *t, ls_optimizer_update by) {
    LS_TRY(ls_partition_begin_sums(t->partition, &by));
    ls_span span = ls_span_begin("stage", "optimizer");
    ls_meter_mark mark = ls_meter_begin();
    if (numerics_are_due(t)) {
        LS_TRY(ls_partition_update_counted(t->partition, &by, t->guard.numerics));
        LS_TRY(ls_partition_sum_numerics(t->partition, t->guard.numerics));
    } else {
        LS_TRY(ls_optimizer_step(&by, t->device, &t->settings.policy, t->model));
    }
    LS_TRY(ls_copies_update(t, &by));
    LS_TRY(ls_left_mark(t));
    ls_meter_computed(mark);
    ls_span_end(span, 0);
    ls_fault_point(LS_POINT_PUBLISH);
    LS_TRY(ls_partition_publish(t->partition));
    LS_TRY(check_replicas(t));
    corrupt_tensors(t, true);
    return LS_OK;
}

ls_status ls_trainer_update(ls_trainer *t, const ls_step_result *result) {
    (void)ls_phase_enter(LS_PHASE_UPDATE);
    ls_optimizer_update by;
    t->is_checked = t->checked_step == t->step;
    /* A caller with its own gradients did not call ls_trainer_gradients(), but the update needs the sums of the state.
     */
    if (!t->state.is_summed) LS_TRY(ls_trainer_state_written(t));
    if (result->finite) LS_TRY(prepare_update(t, result, &by));
    ls_fault_point(LS_POINT_COMMIT);
    ls_left_commit(t, result, result->finite ? &by : NULL);
    if (result->finite) LS_TRY(run_update(t, by));
    t->last_loss = result->loss;
    t->step++;
    LS_TRY(ls_left_stepped(t));
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
