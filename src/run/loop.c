/* loop.c: what happens after each step. */
#include "run/loop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/world.h"
#include "numerics/elementary.h"
#include "run/progress/record.h"
#include "run/progress/sample_frame.h"
#include "run/stop.h"

enum { NOTE_MAX = 256 };

typedef struct run {
    ls_loop *loop;
    ls_trainer *trainer;
    const ls_settings *settings;
    ls_progress progress;
    double flops;       /* of a step */
    int64_t saved_step; /* last; −1: none */
    double saved_s;     /* when, or when the run began; by the clock of this worker */
    bool speaks;        /* the first worker; the others work along and are silent */
    int stop;           /* signal upon which all workers stop */
    int requests;       /* of the first worker's clock, known to all */
    bool in_step;       /* what fails is a step */
    bool in_save;       /* what fails is a checkpoint */
    int64_t lost;       /* lines of metrics that could not be written, */
    int64_t from, to;   /* of steps from … to */
} run;

/* An evaluation that is better than those saved is saved as well where a tenth of --save-every, of at least one step,
 * has passed since the last save: a model that gets better at every evaluation is not saved at every one. A run with
 * --early-stop is meant to end behind its best evaluation, and saves each of them. */
enum { BEST_SHARE = 10 };

static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

/* A run is worth more than its metrics: a line that cannot be written is missed, and the run goes on. */
static void wrote(run *r, ls_status status) {
    if (status == LS_OK) return;
    if (r->lost++ == 0) {
        r->from = r->trainer->step;
        ls_log_warn("%s; training goes on, without the metrics that cannot be written", ls_status_message());
    }
    r->to = r->trainer->step;
}

static void tell_lost(const run *r) {
    if (r->lost > 0)
        ls_log_warn("%" PRId64 " line%s of metrics of the steps %" PRId64 " to %" PRId64 " could not be written",
                    r->lost, r->lost == 1 ? "" : "s", r->from, r->to);
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

static ls_status evaluate(run *r) {
    double loss, right, start = ls_clock_seconds();
    char note[NOTE_MAX];
    LS_TRY(ls_trainer_evaluate(r->trainer, r->settings->eval_batches, &loss, &right));
    ls_validation_add(&r->trainer->validation, r->trainer->step, loss);
    if (!r->speaks) return LS_OK;
    ls_metrics_begin(r->loop->metrics);
    ls_metrics_add_i64(r->loop->metrics, "step", r->trainer->step);
    ls_metrics_add_hex(r->loop->metrics, "val_loss", loss);
    if (right >= 0) ls_metrics_add_f64(r->loop->metrics, "val_accuracy", right);
    wrote(r, ls_metrics_end(r->loop->metrics));
    if (right >= 0)
        snprintf(note, sizeof note, "step %lld | validation loss %.4f | accuracy %.2f %% | %.1f s",
                 (long long)r->trainer->step, loss, 100 * right, ls_clock_seconds() - start);
    else
        snprintf(note, sizeof note, "step %lld | validation loss %.4f | perplexity %.4g | %.1f s",
                 (long long)r->trainer->step, loss, ls_exp_f64(loss), ls_clock_seconds() - start);
    return ls_progress_note(&r->progress, note);
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

typedef struct sample {
    int32_t *ids;
    size_t count;
} sample;

static ls_status keep_token(void *ctx, int32_t id, bool *stop) {
    sample *s = ctx;
    (void)stop;
    s->ids[s->count++] = id;
    return LS_OK;
}

static ls_status print_sample(run *r) {
    const ls_loop *loop = r->loop;
    ls_status status = LS_OK;
    char *text = NULL, *framed = NULL;
    size_t bytes;
    sample s = {.count = loop->prompt_tokens};
    s.ids = malloc((loop->prompt_tokens + (size_t)loop->sample.max_tokens) * sizeof *s.ids);
    if (!s.ids)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a sample of %lld tokens",
                       (long long)loop->sample.max_tokens);
    for (size_t i = 0; i < loop->prompt_tokens; i++) s.ids[i] = loop->prompt[i];
    LS_TRY_OUT(ls_generate(r->trainer->partition, r->settings->T, &loop->sample, loop->prompt, loop->prompt_tokens,
                           keep_token, &s));
    if (!r->speaks) goto out;
    LS_TRY_OUT(ls_tokenizer_decode(loop->tokenizer, s.ids, s.count, &text, &bytes));
    LS_TRY_OUT(ls_sample_frame(r->trainer->step, text, bytes, &framed));
    LS_TRY_OUT(ls_progress_note(&r->progress, framed));
out:
    free(framed);
    free(text);
    free(s.ids);
    return status;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* That there was a checkpoint, for a run that goes on and finds none. */
static void record_save(run *r) {
    ls_metrics_begin(r->loop->metrics);
    ls_metrics_add_i64(r->loop->metrics, "step", r->trainer->step);
    ls_metrics_add_bool(r->loop->metrics, "saved", true);
    wrote(r, ls_metrics_end(r->loop->metrics));
}

static ls_status save(run *r) {
    ls_loop *loop = r->loop;
    char note[NOTE_MAX];
    double start = ls_clock_seconds();
    if (!loop->saves || r->saved_step == r->trainer->step) return LS_OK;
    if (r->speaks) wrote(r, ls_metrics_sync(loop->metrics));
    ls_validation_saving(&r->trainer->validation, r->trainer->step);
    if (loop->store) ls_store_set_best(loop->store, r->trainer->validation.saved_step);
    r->in_save = true;
    LS_TRY(ls_save(loop->store, r->trainer, loop->identity, loop->tokenizer));
    r->in_save = false;
    r->saved_step = r->trainer->step;
    r->saved_s = ls_clock_seconds();
    if (!r->speaks) return LS_OK;
    record_save(r);
    snprintf(note, sizeof note, "step %lld | checkpoint saved in %.1f s", (long long)r->trainer->step,
             ls_clock_seconds() - start);
    return ls_progress_note(&r->progress, note);
}

/* Whether the state is that of the last step that was done, on all workers, and they can still save together. */
static bool may_save(const run *r) {
    const ls_trainer *t = r->trainer;
    bool alone = !t->world || ls_world_size(t->world) == 1;
    if (t->step == 0 || r->in_save || t->damaged) return false;
    return r->in_step ? t->ended_whole : alone;
}

/* After a failure. Nothing older is removed for it: what went wrong may have begun before. */
static ls_status save_last(run *r) {
    bool finite = false;
    LS_TRY(ls_trainer_is_finite(r->trainer, &finite));
    if (!finite) return LS_OK;
    if (r->loop->store) ls_store_set_keep(r->loop->store, 0);
    return save(r);
}

static ls_status record(run *r, const ls_step_result *result, double seconds) {
    double tokens = (double)(r->settings->B * r->settings->T);
    double mfu = r->loop->peak_flops_s > 0 ? r->flops / seconds / r->loop->peak_flops_s : 0;
    ls_step_cost cost = {.seconds = seconds, .tokens = tokens, .mfu = mfu};
    wrote(r, ls_record_step(r->loop->metrics, r->trainer, result, &cost));
    ls_run_summary_add_step(&r->loop->summary, seconds, tokens);
    if (ls_record_has_numerics(r->trainer, result)) wrote(r, ls_record_numerics(r->loop->metrics, r->trainer));
    ls_progress_step line = {.is_images = r->trainer->images != NULL,
                             .step = r->trainer->step,
                             .steps = r->settings->steps,
                             .loss = result->loss,
                             .norm = result->norm,
                             .lr = result->lr,
                             .seconds = seconds,
                             .tokens = tokens,
                             .audited = result->audited,
                             .mfu = mfu};
    return ls_progress_step_done(&r->progress, &line);
}

static ls_status take_event(void *ctx, const ls_train_event *event) {
    run *r = ctx;
    char note[2 * NOTE_MAX];
    if (!r->speaks) return LS_OK;
    wrote(r, ls_event_record(event, r->loop->metrics));
    ls_event_text(event, note, sizeof note);
    return ls_progress_note(&r->progress, note);
}

/* Of the first worker, before a step: whether time to save has come. All know it after the step. */
static int requests_of(const run *r, double now_s) {
    double every_s = r->settings->save_every_s, passed_s = now_s - r->saved_s;
    if (!r->speaks || !(every_s > 0)) return 0;
    return (passed_s >= every_s ? LS_REQUEST_SAVE : 0) | (passed_s >= every_s / BEST_SHARE ? LS_REQUEST_SAVE_BEST : 0);
}

static ls_status step(run *r) {
    ls_step_result result;
    double start = ls_clock_seconds();
    r->in_step = true;
    LS_TRY(ls_trainer_step(r->trainer, ls_stop_signal() | requests_of(r, start), &result));
    r->in_step = false;
    r->stop = result.stop;
    r->requests = result.requests;
    return r->speaks ? record(r, &result, ls_clock_seconds() - start) : LS_OK;
}

static bool save_is_due(const run *r) {
    const ls_settings *s = r->settings;
    int64_t done = r->trainer->step, since = done - (r->saved_step > 0 ? r->saved_step : r->trainer->base_step);
    if (is_due(done, s->save_every) || r->requests & LS_REQUEST_SAVE) return true;
    if (!ls_validation_is_best_at(&r->trainer->validation, done)) return false;
    if (s->early_stop > 0) return s->save_every > 0 || s->save_every_s > 0;
    if (r->requests & LS_REQUEST_SAVE_BEST) return true;
    return s->save_every >= BEST_SHARE && since >= s->save_every / BEST_SHARE;
}

static bool is_over(const run *r) { return ls_validation_is_over(&r->trainer->validation, r->settings->early_stop); }

static ls_status after_step(run *r) {
    const ls_settings *s = r->settings;
    int64_t done = r->trainer->step;
    bool last = done == s->steps;
    if (r->trainer->has_val && s->eval_every > 0 && (last || is_due(done, s->eval_every))) LS_TRY(evaluate(r));
    last = last || is_over(r);
    if (r->loop->tokenizer && s->sample_every > 0 && (last || is_due(done, s->sample_every))) LS_TRY(print_sample(r));
    if (last || save_is_due(r)) LS_TRY(save(r));
    return LS_OK;
}

static ls_status tell_early_stop(run *r) {
    const ls_validation *v = &r->trainer->validation;
    char note[NOTE_MAX], best[NOTE_MAX / 2] = "";
    if (v->best_step >= 0)
        snprintf(best, sizeof best, " than %.4f at step %lld", v->best_loss, (long long)v->best_step);
    snprintf(
        note, sizeof note,
        "step %lld | stopped early: %lld evaluations in a row without a lower validation loss%s (--early-stop %lld)",
        (long long)r->trainer->step, (long long)v->stale, best, (long long)r->settings->early_stop);
    return ls_progress_note(&r->progress, note);
}

ls_status ls_loop_run(ls_loop *loop) {
    ls_status status = LS_OK;
    ls_trainer *t = loop->trainer;
    double start = ls_clock_seconds();
    run r = {.loop = loop, .trainer = t, .settings = &t->settings, .saved_step = t->step > 0 ? t->step : -1};
    r.speaks = t->rank == 0;
    r.saved_s = ls_clock_seconds();
    t->events = (ls_event_sink){.take = take_event, .ctx = &r};
    r.flops = ls_model_step_flops(t->model, t->settings.B, t->settings.T);
    ls_progress_init(&r.progress, loop->out, loop->log_every);
    loop->summary = (ls_run_summary){.first_step = t->step, .is_images = t->images != NULL};
    LS_TRY(ls_stop_install());
    while (t->step < t->settings.steps && r.stop == 0 && !is_over(&r)) {
        LS_TRY_OUT(step(&r));
        LS_TRY_OUT(after_step(&r));
    }
    if (r.speaks && is_over(&r)) LS_TRY_OUT(tell_early_stop(&r));
    /* The step at which a signal stopped the run may not have been shown yet. */
    if (r.speaks) LS_TRY_OUT(ls_progress_end(&r.progress));
    LS_TRY_OUT(save(&r));
    loop->summary.wall_s = ls_clock_seconds() - start;
    status = ls_stop_status_of(r.stop);
out:
    if (status != LS_OK) {
        char message[LS_MESSAGE_MAX];
        snprintf(message, sizeof message, "%s", ls_status_message());
        if (r.stop == 0 && may_save(&r) && save_last(&r) != LS_OK)
            ls_log_warn("the last step could not be saved: %s", ls_status_message());
        if (r.speaks) (void)ls_progress_end(&r.progress);
        if (strcmp(message, ls_status_message()) != 0) (void)ls_fail(status, "%s", message);
    }
    tell_lost(&r);
    t->events = (ls_event_sink){.take = NULL};
    ls_stop_restore();
    return status;
}
