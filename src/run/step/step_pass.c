/* step_pass.c: makes a pass over the batch: gradients, the one sum that all workers make after it, and what follows
 * from that sum. */
#include "run/step/step_pass.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#include "base/fault.h"
#include "parallel/partition/check.h"
#include "parallel/partition/state_sum.h"
#include "run/recover/copies.h"
#include "run/state_hash.h"

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

/* Packs this worker's requests into two words that are summed over all workers: 1 for each request that it makes. */
static void pack_requests(const bool asked[ASKS], int64_t words[2]) {
    words[0] = words[1] = 0;
    for (int i = 0; i < ASKS; i++) words[i / ASKS_IN_WORD] |= (int64_t)asked[i] << ASK_BITS * (i % ASKS_IN_WORD);
}

/* Returns whether any worker made the request, from the summed words. */
static bool is_requested(const int64_t words[2], int what) {
    return (words[what / ASKS_IN_WORD] >> ASK_BITS * (what % ASKS_IN_WORD) & ((1 << ASK_BITS) - 1)) > 0;
}

/* Returns where the contributions of workers begin in t->sums, which holds totals, times of workers, their
 * contributions, measurements of a guard. */
static int64_t *contribution_words(const ls_trainer *t) { return t->sums + TOTALS + ls_worker_time_words(&t->time); }
/* Returns where the measurements of the guard begin in t->sums; they come last. */
static int64_t *guard_sums(const ls_trainer *t) { return contribution_words(t) + t->guard.contribution.workers; }

size_t ls_trainer_sums(const ls_trainer *t) {
    return (size_t)(guard_sums(t) - t->sums) + (t->guard.parts ? ls_guard_words(t->guard.groups) : 0);
}

/* Writes the norm of this worker's contribution into its word of t->sums, if contributions are compared. */
static void pack_contribution(ls_trainer *t) {
    if (t->guard.contribution.workers == 0) return;
    ls_contribution_give(&t->guard.contribution, t->rank, ls_partition_contribution(t->partition),
                         contribution_words(t));
}

/* Sums totals, times, contributions and measurements over all workers, in one all-reduce, and passes them to the
 * guards. `measured` is NULL if the pass measured no groups. If a worker gave up, only the requests in *sum are
 * valid. */
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

bool ls_step_counts_numerics(const ls_trainer *t) {
    return t->settings.options.numerics > 0 && (t->step + 1) % t->settings.options.numerics == 0;
}

/* Returns whether norms of gradient groups are needed in this step. */
static bool needs_observers(const ls_trainer *t) { return t->guard.outlier || ls_step_counts_numerics(t); }

/* Attaches the observers of group norms, audits and rounded values to the partition, as far as the step needs them. */
static ls_status attach_observers(ls_trainer *t) {
    ls_guard *guard = &t->guard;
    if (needs_observers(t) || guard->audit.is_due) ls_guard_begin(guard, t->partition, needs_observers(t));
    if (!ls_step_counts_numerics(t)) return LS_OK;
    memset(guard->numerics, 0, (size_t)guard->blocks * sizeof *guard->numerics);
    return ls_partition_count_acts(t->partition, guard->numerics);
}

/* Detaches all of them. */
static ls_status detach_observers(ls_trainer *t) {
    ls_guard_end(&t->guard);
    return ls_partition_count_acts(t->partition, NULL);
}

float ls_trainer_backward_start(const ls_trainer *t) {
    return ls_clip_backward_start(ls_guard_tokens(&t->guard, &t->settings), t->scale.exponent);
}

/* Returns the learning rate of the present step; the schedule of a fork counts from origin.lr_start. */
static double step_lr(const ls_trainer *t) {
    ls_lr_schedule lr = t->settings.lr;
    lr.total_steps -= t->origin.lr_start;
    return ls_lr_at(&lr, t->step - t->origin.lr_start);
}

/* Adds this worker's part of the sum of the state before this step to the totals, so that it needs no message of its
 * own; in the first pass of a step only. */
static ls_status add_state_sum(ls_trainer *t, totals *sum) {
    ls_hash128 part;
    if (!t->state.is_summed || t->state.step == t->step) return LS_OK;
    LS_TRY(ls_partition_state_part(t->partition, &part, t->state.parts));
    sum->state[0] = (int64_t)part.lo;
    sum->state[1] = (int64_t)part.hi;
    return LS_OK;
}

/* Stores the state hash before this step, from the totals of its first pass; later passes leave it. */
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
    LS_TRY(ls_copies_give(&t->recover));
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
    bool is_damaged;
    LS_TRY(ls_step_check_state(t, &is_damaged));
    if (is_damaged) sum.asks[ASK_DAMAGED / ASKS_IN_WORD] += INT64_C(1) << ASK_BITS * (ASK_DAMAGED % ASKS_IN_WORD);
    LS_TRY(add_state_sum(t, &sum));
    LS_TRY(sum_step_totals(t, &squares, measures ? &measured : NULL, &sum));
    signal = is_requested(sum.asks, ASK_INT)       ? SIGINT
             : is_requested(sum.asks, ASK_TERM)    ? SIGTERM
             : is_requested(sum.asks, ASK_REQUEUE) ? SIGUSR2
                                                   : 0;
    *result = (ls_step_result){.stop = signal, .gave_up = is_requested(sum.asks, ASK_GIVE_UP)};
    if (result->gave_up) return LS_TRAINER_GAVE_UP;
    if (is_requested(sum.asks, ASK_DAMAGED)) return ls_step_report_damage(t);
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

ls_status ls_step_pass(ls_trainer *t, int stop, ls_bad_place *place, ls_step_result *result) {
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

void ls_step_set_absent(ls_guard *guard, size_t count, bool flagged) {
    for (int g = 0; g < guard->groups; g++) guard->absent[g] = !flagged;
    for (size_t i = 0; i < count; i++) guard->absent[guard->findings[i].group] = flagged;
}

ls_status ls_step_pass_without(ls_trainer *t, int stop, size_t count, bool flagged, ls_step_result *result) {
    ls_step_set_absent(&t->guard, count, flagged);
    ls_partition_leave_out(t->partition, t->guard.absent);
    return ls_step_pass(t, stop, NULL, result);
}

ls_status ls_step_pass_with_all(ls_trainer *t, int stop, ls_step_result *result) {
    memset(t->guard.absent, 0, (size_t)t->guard.groups * sizeof *t->guard.absent);
    ls_partition_leave_out(t->partition, NULL);
    return ls_step_pass(t, stop, NULL, result);
}
