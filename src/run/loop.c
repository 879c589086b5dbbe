/* loop.c: runs the steps of a training run and what is due after each: evaluation, sample, checkpoint, stop. */
#include "run/loop.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "comm/world/world.h"
#include "numerics/elementary.h"
#include "run/state_hash.h"
#include "run/stop.h"

enum { NOTE_MAX = 256 };

/* Returns whether `step` is a multiple of `every`; 0: never. */
static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

ls_status ls_loop_report(const ls_loop *l, ls_run_event event) {
    return l->event && l->reports ? l->event(l->event_ctx, &event) : LS_OK;
}

/* ---- stopping in time --------------------------------------------------------------------------------------------
 *
 * From a signal on there are --grace seconds. Half of them, or twice the longest save for which training waited so far,
 * whichever is more, are kept for the save. Work in progress is finished if there is time for 1.25 times the duration
 * of the last work of its kind. Otherwise, and at the latest when the time is up, the worker that notices abandons it
 * (partition.h: ls_partition_ask): it keeps sending, so that no peer waits for it, and reports that in the sum that all
 * workers make at the end. */

/* Returns the signal that this worker received, else one of which another worker, of any machine, has told it; 0 if
 * there is none. Tells the others of its own (comm/world/world.h). The signal callback of the trainer. */
static int asked(void *ctx) {
    const ls_loop *l = ctx;
    ls_world *world = l->trainer->world;
    uint64_t ns;
    int own = ls_stop_signal();
    if (own && world) ls_world_ask(world, own, ls_stop_ns()); /* it must not be lost with this worker */
    return own || !world ? own : ls_world_asked(world, &ns);
}

/* Returns whether the current work must be abandoned, because it would not end within --grace after a signal. The
 * gives_up callback of the trainer, called at each block of a pass. */
static bool gives_up(void *ctx) {
    const ls_loop *l = ctx;
    ls_world *world = l->trainer->world;
    int own = ls_stop_signal();
    uint64_t since_ns = own ? ls_stop_ns() : 0;
    if (own && world) ls_world_ask(world, own, since_ns);
    if (!own && (!world || ls_world_asked(world, &since_ns) == 0)) return false;
    double grace_s = l->trainer->settings.options.grace, now_s = ls_clock_seconds();
    double kept_s = 4 * l->saves.longest_s > grace_s ? 2 * l->saves.longest_s : grace_s / 2;
    double left_s = grace_s - kept_s - (double)(ls_clock_ns() - since_ns) * 1e-9;
    return left_s <= 0 || (l->work.usual_s > 0 && l->work.begin_s + 1.25 * l->work.usual_s - now_s > left_s);
}

/* Notes that work begins which a grace period may cut short; usual_s: how long the last one of its kind took. */
static void begin_work(ls_loop *l, ls_phase phase, double usual_s) {
    (void)ls_phase_enter(phase);
    l->work.begin_s = ls_clock_seconds();
    l->work.usual_s = usual_s;
}
/* Stores how long the work took in *usual_s, one of l->work. */
static void end_work(const ls_loop *l, double *usual_s) { *usual_s = ls_clock_seconds() - l->work.begin_s; }

/* Sets l->stop to the signal for which all workers stop, if any received one: SIGINT before SIGTERM before SIGUSR2.
 * Called after work that was cut short, and at the start. Collective. */
static ls_status agree_stop(ls_loop *l) {
    static const int signals[] = {SIGUSR2, SIGTERM, SIGINT};
    enum { SIGNALS = sizeof signals / sizeof *signals };
    int64_t having[SIGNALS];
    int own = asked(l);
    for (int i = 0; i < SIGNALS; i++) having[i] = own == signals[i];
    LS_TRY(ls_partition_sum(l->trainer->partition, having, SIGNALS));
    for (int i = 0; i < SIGNALS; i++)
        if (having[i] > 0) l->stop = signals[i];
    return LS_OK;
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

ls_status ls_loop_evaluate(ls_loop *l, ls_evaluation *out) {
    ls_trainer *t = l->trainer;
    char note[NOTE_MAX];
    *out = (ls_evaluation){.loss = (double)NAN, .accuracy = -1};
    begin_work(l, LS_PHASE_EVALUATE, l->work.evaluation_s);
    ls_fault_point(LS_POINT_EVALUATE);
    ls_status status = ls_trainer_evaluate(t, t->settings.options.eval_batches, &out->loss, &out->accuracy);
    t->validation.is_due = status == LS_TRAINER_GAVE_UP;
    if (status == LS_TRAINER_GAVE_UP) return agree_stop(l);
    LS_TRY(status);
    end_work(l, &l->work.evaluation_s);
    ls_validation_add(&t->validation, t->step, out->loss);
    ls_fault_point(LS_POINT_EVALUATE);
    if (!l->reports) return LS_OK;
    out->seconds = l->work.evaluation_s;
    ls_loop_record_evaluation(l, out);
    if (out->accuracy >= 0)
        snprintf(note, sizeof note, "step %lld | validation loss %.4f | accuracy %.2f %% | %.1f s", (long long)t->step,
                 out->loss, 100 * out->accuracy, out->seconds);
    else
        snprintf(note, sizeof note, "step %lld | validation loss %.4f | perplexity %.4g | %.1f s", (long long)t->step,
                 out->loss, ls_exp_f64(out->loss), out->seconds);
    return ls_loop_report(l, (ls_run_event){.kind = LS_RUN_EVALUATED, .text = note, .evaluation = out});
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* A sample that is being generated: the ids of prompt and text. */
typedef struct sample {
    ls_trainer *trainer;
    int32_t *ids;
    size_t count;
    bool gave_up, is_finite;
} sample;

enum { AGREE_TOKENS = 64 };

/* Keeps a generated token, as the callback of ls_generate(); every 64 tokens workers agree whether one of them has
 * given up. */
static ls_status keep_token(void *ctx, int32_t id, bool *stop) {
    sample *s = ctx;
    s->is_finite &= id >= 0;
    s->ids[s->count++] = id;
    /* A worker that has given up draws tokens out of nothing, but not for long. */
    if (s->count % AGREE_TOKENS == 0) LS_TRY(ls_trainer_has_given_up(s->trainer, &s->gave_up));
    *stop = s->gave_up;
    return LS_OK;
}

/* Generates, records and reports a sample from the prompt of the options. Collective; one that is abandoned is left
 * out. */
static ls_status show_sample(ls_loop *l) {
    ls_status status = LS_OK;
    char *text = NULL, *framed = NULL;
    size_t bytes;
    sample s = {.trainer = l->trainer, .count = l->sample.prompt_tokens, .is_finite = true};
    ls_generate_options options = l->sample.options;
    options.tokenizer = l->sample.tokenizer;
    s.ids = malloc((l->sample.prompt_tokens + (size_t)l->sample.options.max_tokens) * sizeof *s.ids);
    if (!s.ids)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a sample of %lld tokens",
                       (long long)l->sample.options.max_tokens);
    for (size_t i = 0; i < l->sample.prompt_tokens; i++) s.ids[i] = l->sample.prompt[i];
    begin_work(l, LS_PHASE_SAMPLE, l->work.sample_s);
    LS_TRY_OUT(ls_generate(l->trainer->partition, l->trainer->settings.T, &options, l->sample.prompt,
                           l->sample.prompt_tokens, keep_token, &s));
    if (!s.gave_up) LS_TRY_OUT(ls_trainer_has_given_up(l->trainer, &s.gave_up));
    end_work(l, &l->work.sample_s);
    if (s.gave_up) status = agree_stop(l);
    if (s.gave_up || !l->reports) goto out;
    if (!s.is_finite) {
        status = ls_loop_report(
            l, (ls_run_event){.kind = LS_RUN_NOTICED, .text = "no sample: the model's output is not finite"});
        goto out;
    }
    LS_TRY_OUT(ls_tokenizer_decode(l->sample.tokenizer, s.ids, s.count, &text, &bytes));
    ls_loop_record_sample(l, text, bytes);
    LS_TRY_OUT(ls_sample_frame(l->trainer->step, text, bytes, &framed));
    LS_TRY_OUT(ls_loop_report(l, (ls_run_event){.kind = LS_RUN_SAMPLED, .text = framed}));
out:
    (void)ls_partition_end_skip(l->trainer->partition);
    free(framed);
    free(text);
    free(s.ids);
    return status;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* Records an event of the guards and reports it as a sentence; called by the trainer on every worker, acts on rank
 * 0. */
static ls_status take_event(void *ctx, const ls_train_event *event) {
    ls_loop *l = ctx;
    char note[2 * NOTE_MAX];
    if (!l->reports) return LS_OK;
    ls_loop_record_event(l, event);
    ls_event_text(event, note, sizeof note);
    return ls_loop_report(l, (ls_run_event){.kind = LS_RUN_NOTICED, .text = note});
}

/* Adds the busy times of a step to the watch that decides whether to redistribute the groups among replicas, and notes
 * if it asks for that. Does nothing in a step without a report of worker times (time.due). Rank 0 only. */
static void look_at_shares(ls_loop *l, double step_s) {
    const ls_trainer *t = l->trainer;
    double left_s = step_s * (double)(t->settings.options.steps - t->step);
    if (!l->shares.is_allowed || !t->time.due || l->shares.is_wanted) return;
    l->shares.is_wanted = ls_share_watch_add(&l->shares.watch, t->time.ms[LS_WORKER_BUSY], ls_clock_seconds(), left_s);
}

/* Records and reports a completed step, and adds it to the summary. Rank 0 only. gpu_wait_ms: see
 * ls_loop_record_step(). */
static ls_status tell_step(ls_loop *l, const ls_step_result *result, const ls_step *step, double gpu_wait_ms) {
    ls_loop_record_step(l, result, step, gpu_wait_ms);
    l->summary.steps++;
    l->summary.step_s += step->seconds;
    l->summary.samples += step->samples;
    return ls_loop_report(l, (ls_run_event){.kind = LS_RUN_STEPPED, .step = step});
}

/* Returns the LS_REQUEST_* bits of this worker for the next step: save, if the time has come (rank 0) or SIGUSR1
 * arrived (any worker), or leave. All workers know them after the step. */
static int requests_of(const ls_loop *l, double now_s) {
    int asked_to = ls_stop_take_save() ? LS_REQUEST_SAVE : 0;
    if (l->world && (l->shares.is_wanted || ls_world_should_leave(l->world))) asked_to |= LS_REQUEST_LEAVE;
    return asked_to | ls_loop_save_requests(l, now_s);
}

ls_status ls_loop_step(ls_loop *l, ls_step *out) {
    ls_trainer *t = l->trainer;
    ls_step_result result;
    double start = ls_clock_seconds();
    uint64_t read_ns = t->device->read_ns;
    l->in_step = true;
    begin_work(l, LS_PHASE_STEP, l->work.step_s);
    LS_TRY(ls_trainer_step(t, requests_of(l, start), &result));
    l->in_step = false;
    ls_loop_record_state(l);
    l->stop = result.stop;
    *out = (ls_step){.step = t->step, .steps = t->settings.options.steps, .loss = (double)NAN};
    l->gave_up = result.gave_up;
    if (result.gave_up) return LS_OK;
    end_work(l, &l->work.step_s);
    l->requests = result.requests;
    *out = (ls_step){.step = t->step,
                     .steps = t->settings.options.steps,
                     .loss = result.loss,
                     .norm = result.norm,
                     .lr = result.lr,
                     .seconds = ls_clock_seconds() - start,
                     .samples = (double)(t->settings.B * t->settings.T),
                     .is_images = t->input.data.images != NULL,
                     .audited = result.audited,
                     .skipped = result.skipped};
    double gpu_wait_ms = t->room.known ? (double)(t->device->read_ns - read_ns) / 1e6 : -1;
    if (l->peak_flops_s > 0) out->mfu = l->flops / out->seconds / l->peak_flops_s;
    if (l->reports) look_at_shares(l, out->seconds);
    return l->reports ? tell_step(l, &result, out, gpu_wait_ms) : LS_OK;
}

/* ---- all steps --------------------------------------------------------------------------------------------------- */

/* Returns whether --early-stop ends the run. */
static bool is_over(const ls_loop *l) {
    return ls_validation_is_over(&l->trainer->validation, l->trainer->settings.options.early_stop);
}

/* Does what is due after a completed step: evaluation, sample, checkpoint; then notes for recovery that all of it is
 * done. Collective. */
static ls_status after_step(ls_loop *l) {
    const ls_settings *s = &l->trainer->settings;
    int64_t done = l->trainer->step;
    bool last = done == s->options.steps;
    ls_evaluation evaluation;
    if (l->trainer->input.has_val && s->options.eval_every > 0 && (last || is_due(done, s->options.eval_every)))
        LS_TRY(ls_loop_evaluate(l, &evaluation));
    last = last || is_over(l);
    if (l->stop == 0 && l->sample.tokenizer && s->options.sample_every > 0 &&
        (last || is_due(done, s->options.sample_every)))
        LS_TRY(show_sample(l));
    LS_TRY(last || !l->saves.enabled ? ls_loop_save(l) : ls_loop_save_as_due(l));
    ls_left_settle(&l->trainer->recover, ls_trainer_numbers(l->trainer), ls_loop_kept_step(l));
    return LS_OK;
}

/* Returns the seconds since a worker was lost; 0.001 if no loss was seen, as after a resize. */
static double lost_s(const ls_loop *l) {
    uint64_t seen_ns = ls_world_attempt(l->world)->seen_ns, now_ns = ls_clock_ns();
    return seen_ns > 0 && now_ns > seen_ns ? (double)(now_ns - seen_ns) * 1e-9 : 1e-3;
}

/* Records and finishes the step that the previous attempt had decided but perhaps not recorded: its metrics may end
 * before this step. Collective. */
static ls_status settle_taken(ls_loop *l) {
    const ls_trainer *t = l->trainer;
    const ls_step_result *result = &l->taken->result;
    ls_step step = {.step = t->step,
                    .steps = t->settings.options.steps,
                    .loss = result->loss,
                    .norm = result->norm,
                    .lr = result->lr,
                    .seconds = lost_s(l),
                    .samples = (double)(t->settings.B * t->settings.T),
                    .is_images = t->input.data.images != NULL,
                    .audited = result->audited,
                    .skipped = result->skipped};
    /* Requests that all workers agreed on in that step; a request to leave is made again in the next one. */
    l->requests = result->requests & ~LS_REQUEST_LEAVE;
    if (l->reports) LS_TRY(tell_step(l, result, &step, -1));
    return after_step(l);
}

/* Reports that --early-stop ends the run. Rank 0 reports. */
static ls_status tell_early_stop(ls_loop *l) {
    const ls_validation *v = &l->trainer->validation;
    char note[NOTE_MAX], best[NOTE_MAX / 2] = "";
    if (v->best_step >= 0)
        snprintf(best, sizeof best, " than %.4f at step %lld", v->best_loss, (long long)v->best_step);
    snprintf(
        note, sizeof note,
        "step %lld | stopped early: %lld evaluations in a row without a lower validation loss%s (--early-stop %lld)",
        (long long)l->trainer->step, (long long)v->stale, best, (long long)l->trainer->settings.options.early_stop);
    return ls_loop_report(l, (ls_run_event){.kind = LS_RUN_NOTICED, .text = note});
}

ls_status ls_loop_begin(ls_loop *l) {
    ls_trainer *t = l->trainer;
    l->reports = t->rank == 0;
    l->flops = ls_model_step_flops(t->model, t->settings.B, t->settings.T);
    ls_share_watch_begin(&l->shares.watch, &t->layout, l->shares.cost_s, l->shares.times, l->shares.last_s);
    l->summary = (ls_run_summary){.first_step = t->step, .is_images = t->input.data.images != NULL};
    t->events = (ls_event_sink){.take = take_event, .ctx = l};
    LS_TRY(ls_loop_save_begin(l));
    ls_trainer_set_asked(t, (ls_trainer_asked){.signal = asked, .gives_up = gives_up, .ctx = l});
    LS_TRY(ls_stop_install());
    return agree_stop(l); /* SIGUSR2 may have come while the run was starting */
}

void ls_loop_end(ls_loop *l) {
    (void)ls_phase_enter(LS_PHASE_END);
    if (!l->trainer) return;
    ls_loop_save_end(l);
    ls_loop_record_end(l);
    l->trainer->events = (ls_event_sink){.take = NULL};
    ls_trainer_set_asked(l->trainer, (ls_trainer_asked){.ctx = NULL});
    ls_stop_restore();
}

/* Leaves the measured speeds of the replicas and a sentence about the slowest one to the supervisor. */
static void tell_shares(const ls_loop *l) {
    const ls_share_watch *w = &l->shares.watch;
    ls_left_shares shares = {.rows = l->trainer->layout.dp};
    int slow = 0;
    memcpy(shares.speeds, w->speeds, sizeof shares.speeds);
    for (int d = 1; d < shares.rows; d++)
        if (w->speeds[d] < w->speeds[slow]) slow = d;
    snprintf(shares.text, sizeof shares.text,
             "replica %d is the slowest, with %.3g ms per gradient group, so a step takes %.3g ms; other shares would "
             "take %.3g ms",
             slow, 1 / w->speeds[slow], w->step_ms, w->then_ms);
    ls_left_share(&l->trainer->recover, &shares);
}

/* Leaves the run, which continues with other workers (new shares, or a resize): copies the state to shared memory,
 * where they find it. Collective. */
static ls_status leave(ls_loop *l) {
    if (l->shares.is_wanted) tell_shares(l);
    LS_TRY(ls_loop_settle_save(l));
    LS_TRY(ls_loop_report(l, (ls_run_event){.kind = LS_RUN_STEPS_ENDED}));
    LS_TRY(ls_left_rescue(&l->trainer->recover, l->world));
    ls_world_go_on(l->world);
    return LS_OK;
}

/* Leaves after wrong numbers of a worker were found: leaves state and the blame to the supervisor, which decides which
 * worker it does not start again. Collective. */
static ls_status leave_wrong(ls_loop *l) {
    LS_TRY(ls_loop_settle_save(l)); /* what is being saved was proved */
    l->failed = false;
    LS_TRY(ls_left_rescue(&l->trainer->recover, l->world));
    ls_left_blame(&l->trainer->recover, &l->trainer->failure.blame);
    l->leaves = true;
    ls_world_go_on(l->world);
    return LS_OK;
}

/* Runs all steps and the last save; ls_loop_run() handles a failure. */
static ls_status run_all_steps(ls_loop *l) {
    ls_trainer *t = l->trainer;
    double begin = ls_clock_seconds();
    ls_step step;
    ls_evaluation evaluation;
    l->recovery.ready_ns = ls_clock_ns();
    if (l->taken && l->taken->result.stop) l->stop = l->taken->result.stop; /* all had agreed on it */
    if (l->taken && !l->taken->settled) LS_TRY(settle_taken(l));
    /* One that was given up, when the run was stopped, decides about its end and about what is best. */
    if (t->input.has_val && t->validation.is_due && l->stop == 0) {
        LS_TRY(ls_loop_evaluate(l, &evaluation));
        ls_validation_saving(&t->validation, t->step); /* it was */
        if (l->saves.store) ls_store_set_best(l->saves.store, t->validation.saved_step);
    }
    while (t->step < t->settings.options.steps && l->stop == 0 && !is_over(l) && !l->leaves) {
        int64_t done = t->step;
        LS_TRY(ls_loop_step(l, &step));
        if (t->step > done) LS_TRY(after_step(l));
        l->leaves = l->requests & LS_REQUEST_LEAVE && t->step < t->settings.options.steps;
    }
    if (l->leaves && l->stop == 0 && !is_over(l)) return leave(l);
    if (is_over(l)) {
        LS_TRY(tell_early_stop(l));
        ls_loop_record_stop(l, "early stop");
    }
    LS_TRY(ls_loop_report(l, (ls_run_event){.kind = LS_RUN_STEPS_ENDED}));
    LS_TRY(ls_loop_save(l));
    l->summary.wall_s = ls_clock_seconds() - begin;
    return ls_stop_status_of(l->stop);
}

ls_status ls_loop_run(ls_loop *l) {
    char message[LS_MESSAGE_MAX];
    ls_status status = run_all_steps(l);
    if (status == LS_OK) return LS_OK;
    if (l->world && ls_world_is_abandoned(l->world)) return status; /* the run goes on without this worker */
    l->failed = l->stop == 0;
    snprintf(message, sizeof message, "%s", ls_status_message());
    bool goes_on = l->world && l->stop == 0 && l->trainer->failure.blame.is_found;
    if (!goes_on) ls_loop_record_stop(l, message);
    if (l->stop == 0 && ls_loop_may_save(l) && ls_loop_save_last(l) != LS_OK)
        ls_log_warn("the last step could not be saved: %s", ls_status_message());
    (void)ls_loop_report(l, (ls_run_event){.kind = LS_RUN_STEPS_ENDED});
    if (goes_on) return leave_wrong(l);
    return strcmp(message, ls_status_message()) == 0 ? status : ls_fail(status, "%s", message);
}
