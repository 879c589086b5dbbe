/* loop.c: what happens after each step. */
#include "train/loop.h"

#include <stdlib.h>

#include "base/clock.h"
#include "numerics/elementary.h"
#include "train/record.h"
#include "train/stop.h"

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
    int wishes;         /* of the first worker's clock, known to all */
} run;

/* An evaluation that is better than those saved is saved as well where a tenth of --save-every, of at least one step,
 * has passed since the last save: a model that gets better at every evaluation is not saved at every one. A run with
 * --early-stop is meant to end behind its best evaluation, and saves each of them. */
enum { BEST_SHARE = 10 };

static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

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
    LS_TRY(ls_metrics_end(r->loop->metrics));
    if (right >= 0)
        snprintf(note, sizeof note, "step %lld | validation loss %.4f (%a) | accuracy %.2f %% | %.1f s",
                 (long long)r->trainer->step, loss, loss, 100 * right, ls_clock_seconds() - start);
    else
        snprintf(note, sizeof note, "step %lld | validation loss %.4f (%a) | perplexity %.4g | %.1f s",
                 (long long)r->trainer->step, loss, loss, ls_exp_f64(loss), ls_clock_seconds() - start);
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

/* A terminal must not be moved about by what a model makes up. */
static void make_printable(char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) text[i] = '?';
    }
}

static ls_status print_sample(run *r) {
    const ls_loop *loop = r->loop;
    ls_status status = LS_OK;
    char *text = NULL;
    size_t bytes;
    sample s = {.count = loop->prompt_tokens};
    s.ids = malloc((loop->prompt_tokens + (size_t)loop->sample.max_tokens) * sizeof *s.ids);
    if (!s.ids)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a sample of %lld tokens",
                       (long long)loop->sample.max_tokens);
    for (size_t i = 0; i < loop->prompt_tokens; i++) s.ids[i] = loop->prompt[i];
    LS_TRY_OUT(ls_generate(r->trainer->stage, r->settings->T, &loop->sample, loop->prompt, loop->prompt_tokens,
                           keep_token, &s));
    if (!r->speaks) goto out;
    LS_TRY_OUT(ls_tokenizer_decode(loop->tokenizer, s.ids, s.count, &text, &bytes));
    make_printable(text, bytes);
    LS_TRY_OUT(ls_progress_note(&r->progress, text));
out:
    free(text);
    free(s.ids);
    return status;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static ls_status save(run *r) {
    ls_loop *loop = r->loop;
    char note[NOTE_MAX];
    double start = ls_clock_seconds();
    if (!loop->saves || r->saved_step == r->trainer->step) return LS_OK;
    if (r->speaks) LS_TRY(ls_metrics_sync(loop->metrics));
    ls_validation_saving(&r->trainer->validation, r->trainer->step);
    if (loop->store) ls_store_set_best(loop->store, r->trainer->validation.saved_step);
    LS_TRY(ls_save(loop->store, r->trainer, loop->identity, loop->tokenizer));
    r->saved_step = r->trainer->step;
    r->saved_s = ls_clock_seconds();
    if (!r->speaks) return LS_OK;
    snprintf(note, sizeof note, "step %lld | saved in %.1f s", (long long)r->trainer->step, ls_clock_seconds() - start);
    return ls_progress_note(&r->progress, note);
}

static ls_status record(run *r, const ls_step_result *result, double seconds) {
    double tokens = (double)(r->settings->B * r->settings->T);
    double mfu = r->loop->peak_flops_s > 0 ? r->flops / seconds / r->loop->peak_flops_s : 0;
    ls_step_cost cost = {.seconds = seconds, .tokens = tokens, .mfu = mfu};
    LS_TRY(ls_record_step(r->loop->metrics, r->trainer, result, &cost));
    if (ls_record_has_numerics(r->trainer, result)) LS_TRY(ls_record_numerics(r->loop->metrics, r->trainer));
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
    LS_TRY(ls_event_record(event, r->loop->metrics));
    ls_event_text(event, note, sizeof note);
    return ls_progress_note(&r->progress, note);
}

/* Of the first worker, before a step: whether time to save has come. All know it after the step. */
static int wishes_of(const run *r, double now_s) {
    double every_s = r->settings->save_every_s, passed_s = now_s - r->saved_s;
    if (!r->speaks || !(every_s > 0)) return 0;
    return (passed_s >= every_s ? LS_WISH_SAVE : 0) | (passed_s >= every_s / BEST_SHARE ? LS_WISH_SAVE_BEST : 0);
}

static ls_status step(run *r) {
    ls_step_result result;
    double start = ls_clock_seconds();
    LS_TRY(ls_trainer_step(r->trainer, ls_stop_signal() | wishes_of(r, start), &result));
    r->stop = result.stop;
    r->wishes = result.wishes;
    return r->speaks ? record(r, &result, ls_clock_seconds() - start) : LS_OK;
}

static bool save_is_due(const run *r) {
    const ls_settings *s = r->settings;
    int64_t done = r->trainer->step, since = done - (r->saved_step > 0 ? r->saved_step : r->trainer->base_step);
    if (is_due(done, s->save_every) || r->wishes & LS_WISH_SAVE) return true;
    if (!ls_validation_is_best_at(&r->trainer->validation, done)) return false;
    if (s->early_stop > 0) return s->save_every > 0 || s->save_every_s > 0;
    if (r->wishes & LS_WISH_SAVE_BEST) return true;
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
    run r = {.loop = loop, .trainer = t, .settings = &t->settings, .saved_step = t->step > 0 ? t->step : -1};
    r.speaks = t->rank == 0;
    r.saved_s = ls_clock_seconds();
    t->events = (ls_event_sink){.take = take_event, .ctx = &r};
    r.flops = ls_model_step_flops(t->model, t->settings.B, t->settings.T);
    ls_progress_init(&r.progress, loop->out);
    LS_TRY(ls_stop_install());
    while (t->step < t->settings.steps && r.stop == 0 && !is_over(&r)) {
        LS_TRY_OUT(step(&r));
        LS_TRY_OUT(after_step(&r));
    }
    LS_TRY_OUT(save(&r));
    if (r.speaks && is_over(&r)) LS_TRY_OUT(tell_early_stop(&r));
    if (r.speaks) LS_TRY_OUT(ls_progress_end(&r.progress));
    status = ls_stop_status_of(r.stop);
out:
    if (status != LS_OK && r.speaks && ferror(loop->out) == 0) {
        char message[LS_MESSAGE_MAX];
        snprintf(message, sizeof message, "%s", ls_status_message());
        if (ls_progress_end(&r.progress) != LS_OK) clearerr(loop->out);
        ls_fail(status, "%s", message);
    }
    t->events = (ls_event_sink){.take = NULL};
    ls_stop_restore();
    return status;
}
