/* loop.c: what happens after each step. */
#include "run/loop.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/fault.h"
#include "base/log.h"
#include "comm/status_page.h"
#include "comm/world.h"
#include "numerics/elementary.h"
#include "run/agree.h"
#include "run/progress.h"
#include "run/state_hash.h"
#include "run/stop.h"

enum { NOTE_MAX = 256 };

/* An evaluation that is better than those saved is saved as well where a tenth of --save-every, of at least one step,
 * has passed since the last save: a model that gets better at every evaluation is not saved at every one. A run with
 * --early-stop is meant to end behind its best evaluation, and saves each of them. */
enum { BEST_SHARE = 10 };

static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

/* Counts metrics lines that cannot be written. They never end the run, because its weights are worth more than its
 * metrics. */
static void wrote(ls_loop *l, ls_status status) {
    if (status == LS_OK) return;
    if (l->lost++ == 0) {
        l->from = l->trainer->step;
        ls_log_warn("%s; training continues without the metrics that cannot be written", ls_status_message());
    }
    l->to = l->trainer->step;
}

static void tell_lost(const ls_loop *l) {
    if (l->lost > 0)
        ls_log_warn("%" PRId64 " line%s of metrics of the steps %" PRId64 " to %" PRId64 " could not be written",
                    l->lost, l->lost == 1 ? "" : "s", l->from, l->to);
}

/* Estimates the entropy of single tokens from a sample spread over the data: a model has learned something only if its
 * loss is lower. NaN if it is not known, as for images. */
static double unigram_nats(const ls_trainer *t) {
    enum { PIECES = 64, PIECE = 1024 };
    const ls_corpus *corpus = t->data.corpus;
    uint64_t all = corpus ? ls_corpus_count(corpus) : 0, counted = 0;
    size_t V = t->settings.shape.V;
    int32_t *ids = malloc(PIECE * sizeof *ids);
    uint32_t *count = calloc(V, sizeof *count);
    double sum = 0;
    for (uint64_t i = 0; ids && count && all > PIECE && i < PIECES; i++) {
        if (ls_corpus_read(corpus, (all - PIECE) / PIECES * i, PIECE, ids) != LS_OK) break;
        for (int k = 0; k < PIECE; k++)
            if (ids[k] >= 0 && (size_t)ids[k] < V) count[ids[k]]++, counted++;
    }
    for (size_t v = 0; counted > 0 && v < V; v++)
        if (count[v] > 0) sum -= (double)count[v] * ls_log_f64((double)count[v] / (double)counted);
    free(count);
    free(ids);
    return counted > 0 ? sum / (double)counted : (double)NAN;
}

/* Records how long recovery took after the loss of a worker, and its parts: the old workers end, the new ones start,
 * take over the state, and are ready. */
static void record_recovery(ls_loop *l, const ls_attempt *attempt) {
    const ls_recovery *r = &l->recovery;
    const uint64_t at[] = {attempt->seen_ns ? attempt->seen_ns : attempt->begun_ns, attempt->begun_ns, r->made_ns,
                           r->taken_ns, r->ready_ns};
    enum { PARTS = sizeof at / sizeof *at - 1 };
    double ms[PARTS];
    for (int i = 0; i < PARTS; i++) ms[i] = (double)(at[i + 1] - at[i]) * 1e-6;
    ls_metrics_add_f64(l->metrics, "recovery_ms", (double)(at[PARTS] - at[0]) * 1e-6);
    ls_metrics_add_ms_list(l->metrics, "recovery_parts_ms", ms, PARTS);
    /* The step of this line is one that the workers before had committed, or the first of these. */
    ls_metrics_add_bool(l->metrics, "taken", !l->taken->settled && l->trainer->step == l->taken->step);
}

static int64_t unix_us(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

/* Adds the time at which the line is written, for curves over time. */
static void add_time(ls_metrics *m) { ls_metrics_add_i64(m, "unix_ms", unix_us() / 1000); }

/* Records the machine that makes the next steps. Called with the first step, so that a start without steps leaves no
 * line. */
static void record_start(ls_loop *l) {
    const ls_trainer *t = l->trainer;
    ls_metrics_begin(l->metrics);
    ls_metrics_add_i64(l->metrics, "step", t->step);
    ls_metrics_add_bool(l->metrics, "started", true);
    ls_metrics_add_text(l->metrics, "version", LS_VERSION);
    ls_metrics_add_text(l->metrics, "model", t->settings.shape.name);
    ls_metrics_add_text(l->metrics, "cpu", ls_cpu_detect()->model);
    ls_metrics_add_text(l->metrics, "device", t->device->name);
    ls_metrics_add_i64(l->metrics, "threads", t->world ? ls_world_threads(t->world) : ls_cpu_count());
    ls_metrics_add_bool(l->metrics, "crowded", t->world && ls_world_is_crowded(t->world));
    ls_metrics_add_bool(l->metrics, "watched", t->guard.outlier || t->guard.contribution.workers > 0);
    if (l->taken) { /* this process is one of a new set of workers */
        const ls_attempt *attempt = ls_world_attempt(l->world);
        int64_t ago_us = attempt->seen_ns > 0 ? (int64_t)(ls_clock_ns() - attempt->seen_ns) / 1000 : 0;
        ls_metrics_add_i64(l->metrics, "restart", attempt->number);
        ls_metrics_add_i64(l->metrics, "lost_unix_us", unix_us() - ago_us);
        record_recovery(l, attempt);
        if (t->layout.dp > 1) ls_metrics_add_i64_list(l->metrics, "shares", t->layout.share, t->layout.dp);
    }
    double unigram = unigram_nats(t);
    if (isfinite(unigram)) ls_metrics_add_f64(l->metrics, "unigram_nats", unigram);
    add_time(l->metrics);
    wrote(l, ls_metrics_end(l->metrics));
    l->told_start = true;
}

/* Records why the run stops if there are steps left. */
static void record_stop(ls_loop *l, const char *reason) {
    const ls_trainer *t = l->trainer;
    if (!l->reports || !l->told_start || t->step >= t->settings.options.steps) return;
    ls_metrics_begin(l->metrics);
    ls_metrics_add_i64(l->metrics, "step", t->step);
    ls_metrics_add_text(l->metrics, "stopped", reason);
    wrote(l, ls_metrics_end(l->metrics));
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static ls_status report_run_event(const ls_loop *l, ls_run_event event) {
    return l->event && l->reports ? l->event(l->event_ctx, &event) : LS_OK;
}

/* ---- stopping in time --------------------------------------------------------------------------------------------
 *
 * From a signal on there are --grace seconds. Half of them, or twice the longest save so far, are kept for the save.
 * Work in progress is finished if its last duration says that there is time for it. Otherwise, and at the latest when
 * the time is up, the worker that notices abandons it (partition.h: ls_partition_ask): it keeps sending, so that no
 * peer waits for it, and reports that in the sum that all workers make at the end. */

/* Returns the signal that this worker, or another worker of this machine, received; 0 if none did. */
static int asked(void *ctx) {
    const ls_loop *l = ctx;
    ls_world *world = l->trainer->world;
    uint64_t ns;
    int own = ls_stop_signal();
    if (own && world) ls_world_ask(world, own, ls_stop_ns()); /* it must not be lost with this worker */
    return own || !world ? own : ls_world_asked(world, &ns);
}

static bool gives_up(void *ctx) {
    const ls_loop *l = ctx;
    ls_world *world = l->trainer->world;
    int own = ls_stop_signal();
    uint64_t since_ns = own ? ls_stop_ns() : 0;
    if (own && world) ls_world_ask(world, own, since_ns);
    if (!own && (!world || ls_world_asked(world, &since_ns) == 0)) return false;
    double grace_s = l->trainer->settings.options.grace, now_s = ls_clock_seconds();
    double kept_s = 4 * l->save_s > grace_s ? 2 * l->save_s : grace_s / 2;
    double left_s = grace_s - kept_s - (double)(ls_clock_ns() - since_ns) * 1e-9;
    return left_s <= 0 || (l->usual_s > 0 && l->begin_s + 1.25 * l->usual_s - now_s > left_s);
}

/* Begins work that a grace period may cut short. */
static void begin_work(ls_loop *l, ls_phase phase, double usual_s) {
    (void)ls_phase_enter(phase);
    l->begin_s = ls_clock_seconds();
    l->usual_s = usual_s;
}
static void end_work(const ls_loop *l, double *usual_s) { *usual_s = ls_clock_seconds() - l->begin_s; }

/* Agrees on the signal for which all workers stop, after work that was cut short and at the start. Collective. */
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
    begin_work(l, LS_PHASE_EVALUATE, l->evaluation_s);
    ls_fault_point(LS_POINT_EVALUATE);
    ls_status status = ls_trainer_evaluate(t, t->settings.options.eval_batches, &out->loss, &out->accuracy);
    t->validation.is_due = status == LS_TRAINER_GAVE_UP;
    if (status == LS_TRAINER_GAVE_UP) return agree_stop(l);
    LS_TRY(status);
    end_work(l, &l->evaluation_s);
    ls_validation_add(&t->validation, t->step, out->loss);
    ls_fault_point(LS_POINT_EVALUATE);
    if (!l->reports) return LS_OK;
    out->seconds = l->evaluation_s;
    ls_metrics_begin(l->metrics);
    ls_metrics_add_i64(l->metrics, "step", t->step);
    ls_metrics_add_hex(l->metrics, "val_loss", out->loss);
    if (out->accuracy >= 0) ls_metrics_add_f64(l->metrics, "val_accuracy", out->accuracy);
    ls_metrics_add_f64(l->metrics, "ms", out->seconds * 1e3);
    add_time(l->metrics);
    wrote(l, ls_metrics_end(l->metrics));
    if (out->accuracy >= 0)
        snprintf(note, sizeof note, "step %lld | validation loss %.4f | accuracy %.2f %% | %.1f s", (long long)t->step,
                 out->loss, 100 * out->accuracy, out->seconds);
    else
        snprintf(note, sizeof note, "step %lld | validation loss %.4f | perplexity %.4g | %.1f s", (long long)t->step,
                 out->loss, ls_exp_f64(out->loss), out->seconds);
    return report_run_event(l, (ls_run_event){.kind = LS_RUN_EVALUATED, .text = note, .evaluation = out});
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

typedef struct sample {
    ls_trainer *trainer;
    int32_t *ids;
    size_t count;
    bool gave_up, is_finite;
} sample;

enum { AGREE_TOKENS = 64, SAMPLE_MAX = 8192 };

static ls_status keep_token(void *ctx, int32_t id, bool *stop) {
    sample *s = ctx;
    s->is_finite &= id >= 0;
    s->ids[s->count++] = id;
    /* A worker that has given up draws tokens out of nothing, but not for long. */
    if (s->count % AGREE_TOKENS == 0) LS_TRY(ls_trainer_has_given_up(s->trainer, &s->gave_up));
    *stop = s->gave_up;
    return LS_OK;
}

/* Records a generated sample, truncated so that the line has a bounded length. */
static void record_sample(ls_loop *l, const char *text, size_t bytes) {
    char kept[SAMPLE_MAX + 1];
    if (bytes > SAMPLE_MAX) bytes = SAMPLE_MAX;
    for (size_t i = 0; i < bytes; i++) kept[i] = text[i] ? text[i] : '?';
    kept[bytes] = '\0';
    ls_metrics_begin(l->metrics);
    ls_metrics_add_i64(l->metrics, "step", l->trainer->step);
    ls_metrics_add_text(l->metrics, "sample", kept);
    add_time(l->metrics);
    wrote(l, ls_metrics_end(l->metrics));
}

static ls_status show_sample(ls_loop *l) {
    ls_status status = LS_OK;
    char *text = NULL, *framed = NULL;
    size_t bytes;
    sample s = {.trainer = l->trainer, .count = l->prompt_tokens, .is_finite = true};
    ls_generate_options options = l->sample;
    options.tokenizer = l->tokenizer;
    s.ids = malloc((l->prompt_tokens + (size_t)l->sample.max_tokens) * sizeof *s.ids);
    if (!s.ids)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a sample of %lld tokens", (long long)l->sample.max_tokens);
    for (size_t i = 0; i < l->prompt_tokens; i++) s.ids[i] = l->prompt[i];
    begin_work(l, LS_PHASE_SAMPLE, l->sample_s);
    LS_TRY_OUT(ls_generate(l->trainer->partition, l->trainer->settings.T, &options, l->prompt, l->prompt_tokens,
                           keep_token, &s));
    if (!s.gave_up) LS_TRY_OUT(ls_trainer_has_given_up(l->trainer, &s.gave_up));
    end_work(l, &l->sample_s);
    if (s.gave_up) status = agree_stop(l);
    if (s.gave_up || !l->reports) goto out;
    if (!s.is_finite) {
        status = report_run_event(
            l, (ls_run_event){.kind = LS_RUN_NOTICED, .text = "no sample: the model's output is not finite"});
        goto out;
    }
    LS_TRY_OUT(ls_tokenizer_decode(l->tokenizer, s.ids, s.count, &text, &bytes));
    record_sample(l, text, bytes);
    LS_TRY_OUT(ls_sample_frame(l->trainer->step, text, bytes, &framed));
    LS_TRY_OUT(report_run_event(l, (ls_run_event){.kind = LS_RUN_SAMPLED, .text = framed}));
out:
    (void)ls_partition_end_skip(l->trainer->partition);
    free(framed);
    free(text);
    free(s.ids);
    return status;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

/* Records that a checkpoint was saved, so that a resumed run that does not find it can tell. */
static void record_save(ls_loop *l, const ls_save_outcome *o) {
    ls_metrics_begin(l->metrics);
    ls_metrics_add_i64(l->metrics, "step", l->trainer->step);
    ls_metrics_add_bool(l->metrics, "saved", o->status == LS_OK);
    if (o->step != l->trainer->step) ls_metrics_add_i64(l->metrics, "saved_step", o->step);
    if (o->status != LS_OK) ls_metrics_add_text(l->metrics, "error", o->text);
    if (o->status == LS_OK) ls_metrics_add_f64(l->metrics, "ms", o->seconds * 1e3);
    if (o->status == LS_OK) ls_metrics_add_f64(l->metrics, "stall_ms", o->stall_s * 1e3);
    if (l->trainer->settings.save_auto) ls_metrics_add_f64(l->metrics, "every_s", l->every_s);
    wrote(l, ls_metrics_end(l->metrics));
}

/* Chooses the interval of --save-every auto with the formula of Young and Daly: with one failure every M seconds and
 * saves that cost C seconds, an interval of √(2 · C · M) loses least. Called on rank 0, whose clock counts. The
 * interval is at least two saves long, so that each save can finish. */
static void choose_interval(ls_loop *l, const ls_save_outcome *o) {
    const double mtbf_h = 3, least_s = 10, most_s = 86400;
    const ls_options *given = &l->trainer->settings.options;
    double mtbf_s = 3600 * (given->mtbf > 0 ? given->mtbf : mtbf_h), every_s = sqrt(2 * o->stall_s * mtbf_s);
    if (every_s < 2 * o->seconds) every_s = 2 * o->seconds;
    if (every_s < least_s) every_s = least_s;
    if (every_s > most_s) every_s = most_s;
    if (!(fabs(every_s - l->every_s) > 0.1 * l->every_s)) return;
    l->every_s = every_s;
    ls_log_info("a checkpoint every %.0f s: training waited %.3f s for one, with a failure every %.1f h (--mtbf)",
                every_s, o->stall_s, mtbf_s / 3600);
}

/* Reports the outcome of a save. Does nothing except on rank 0. */
static ls_status tell_saved(ls_loop *l, const ls_save_outcome *o) {
    char text[NOTE_MAX];
    if (!l->reports) return LS_OK;
    record_save(l, o);
    if (o->status != LS_OK) {
        ls_log_warn(
            "the checkpoint of step %" PRId64
            " could NOT be saved: %s; training continues, and the newest checkpoint is still that of step %" PRId64,
            o->step, o->text, l->sound_step > 0 ? l->sound_step : 0);
        return LS_OK;
    }
    if (l->trainer->settings.save_auto) choose_interval(l, o);
    if (o->along)
        snprintf(text, sizeof text, "step %lld | checkpoint saved in %.1f s; training waited %.3f s",
                 (long long)o->step, o->seconds, o->stall_s);
    else
        snprintf(text, sizeof text, "step %lld | checkpoint saved in %.1f s", (long long)o->step, o->seconds);
    return report_run_event(l, (ls_run_event){.kind = LS_RUN_SAVED, .text = text});
}

/* Makes this step the newest sound one, unless its save fails; take_failure() undoes it. */
static void take_saving(ls_loop *l) {
    ls_trainer *t = l->trainer;
    l->before = t->validation;
    l->sound_step = l->saved_step;
    ls_validation_saving(&t->validation, t->step);
    if (l->store) ls_store_set_best(l->store, t->validation.saved_step);
    if (l->store && t->guard.audit.every > 0) ls_store_set_clean(l->store, t->guard.audit.clean_step);
    l->saved_s = ls_clock_seconds(); /* what fails is not tried again at once */
}

static void take_failure(ls_loop *l) {
    ls_validation *v = &l->trainer->validation;
    l->saved_step = l->sound_step;
    v->saved_loss = l->before.saved_loss;
    v->saved_step = l->before.saved_step;
}

/* Waits for the save in progress and handles its outcome. Collective. */
static ls_status settle_save(ls_loop *l) {
    ls_save_outcome o;
    bool news;
    LS_TRY(ls_saver_settle(l->saver, &o, &news));
    if (o.step >= 0 && o.status != LS_OK && l->saved_step == o.step) take_failure(l);
    return news ? tell_saved(l, &o) : LS_OK;
}

/* Saves while training waits. */
static ls_status save_now(ls_loop *l, double since_s) {
    ls_save_outcome o;
    take_saving(l);
    l->in_save = true;
    (void)ls_phase_enter(LS_PHASE_SAVE);
    ls_fault_point(LS_POINT_SAVE);
    ls_status status = ls_saver_save(l->saver, since_s, ls_metrics_share(l->metrics), &o);
    if (status != LS_OK) {
        take_failure(l);
        return status;
    }
    l->in_save = false;
    l->saved_step = l->trainer->step;
    ls_fault_point(LS_POINT_SAVED);
    if (o.seconds > l->save_s) l->save_s = o.seconds;
    return tell_saved(l, &o);
}

ls_status ls_loop_save(ls_loop *l) {
    ls_trainer *t = l->trainer;
    double since_s = ls_clock_seconds();
    if (!l->saves) return LS_OK;
    LS_TRY(settle_save(l));
    /* Before the first step there is nothing that could not be made again. */
    if (l->saved_step == t->step || (l->stop != 0 && t->step == t->base_step)) return LS_OK;
    LS_TRY(ls_trainer_prove_state(t));
    return save_now(l, since_s);
}

/* Starts a save in the background, for which a snapshot must fit into memory. */
static ls_status begin_save(ls_loop *l, double since_s) {
    take_saving(l);
    (void)ls_phase_enter(LS_PHASE_SAVE);
    ls_fault_point(LS_POINT_SAVE);
    ls_status status = ls_saver_begin(l->saver, since_s, ls_metrics_share(l->metrics));
    if (status == LS_OK)
        l->saved_step = l->trainer->step;
    else
        take_failure(l);
    ls_fault_point(LS_POINT_SAVED);
    return status;
}

/* Saves at a step that is due, between two steps. */
static ls_status save_along(ls_loop *l) {
    double since_s = ls_clock_seconds();
    LS_TRY(settle_save(l));
    if (l->saved_step == l->trainer->step) return LS_OK;
    LS_TRY(ls_trainer_prove_state(l->trainer)); /* what is not sound ends the run */
    ls_status status = ls_saver_has_snapshot(l->saver) ? begin_save(l, since_s) : save_now(l, since_s);
    l->in_save = false;
    if (status == LS_OK) return LS_OK;
    /* It is not the save that has failed. */
    if (l->trainer->damaged || (l->trainer->world && l->trainer->world->failed)) return status;
    ls_save_outcome o = {.step = l->trainer->step, .status = status};
    snprintf(o.text, sizeof o.text, "%s", ls_status_message());
    return tell_saved(l, &o);
}

/* Allocates the memory of the first save halfway before it is due, so that the save itself does not wait. */
static ls_status prepare_first_save(ls_loop *l, bool is_due_now) {
    const ls_settings *s = &l->trainer->settings;
    char why[LS_MESSAGE_MAX];
    bool half_way = s->save_every > 0 && 2 * (l->trainer->step % s->save_every) >= s->save_every;
    if (l->prepared || !(is_due_now || half_way || l->requests & LS_REQUEST_SAVE_BEST)) return LS_OK;
    l->prepared = true;
    LS_TRY(ls_saver_prepare(l->saver, s->options.save_mode, why));
    if (why[0]) ls_log_warn("%s: training waits while checkpoints are written", why);
    return LS_OK;
}

/* Returns whether the state is that of the last completed step on all workers, and they can still save together. */
static bool may_save(const ls_loop *l) {
    const ls_trainer *t = l->trainer;
    bool alone = !t->world || ls_world_size(t->world) == 1;
    if (t->step == 0 || l->in_save || t->damaged) return false;
    return l->in_step ? t->ended_whole : alone;
}

/* Saves after a failure. Keeps all older checkpoints, because the cause may have begun before them. */
static ls_status save_last(ls_loop *l) {
    bool finite = false;
    LS_TRY(ls_trainer_is_finite(l->trainer, &finite));
    if (!finite) return LS_OK;
    if (l->saves) LS_TRY(settle_save(l));
    if (l->store) ls_store_set_keep(l->store, 0);
    return ls_loop_save(l);
}

/* Reports a background save that has ended since the last call. */
static ls_status look_at_save(ls_loop *l) {
    ls_save_outcome o;
    return l->reports && ls_saver_look(l->saver, &o) ? tell_saved(l, &o) : LS_OK;
}

static bool save_is_due(const ls_loop *l) {
    const ls_trainer *t = l->trainer;
    const ls_settings *s = &t->settings;
    int64_t done = t->step, since = done - (l->saved_step > 0 ? l->saved_step : t->base_step);
    if (is_due(done, s->save_every) || l->requests & LS_REQUEST_SAVE) return true;
    if (!ls_validation_is_best_at(&t->validation, done)) return false;
    if (s->options.early_stop > 0) return s->save_every > 0 || s->save_every_s > 0;
    if (l->requests & LS_REQUEST_SAVE_BEST) return true;
    return s->save_every >= BEST_SHARE && since >= s->save_every / BEST_SHARE;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static ls_status take_event(void *ctx, const ls_train_event *event) {
    ls_loop *l = ctx;
    char note[2 * NOTE_MAX];
    if (!l->reports) return LS_OK;
    wrote(l, ls_event_record(event, l->metrics));
    ls_event_text(event, note, sizeof note);
    return report_run_event(l, (ls_run_event){.kind = LS_RUN_NOTICED, .text = note});
}

/* Adds the state hash after the previous step, which is known only now (run/state_hash.h). */
static void add_state(ls_metrics *m, const ls_trainer *t) {
    char text[LS_HASH_TEXT_BYTES];
    ls_hash_text(t->state.hash, text);
    ls_metrics_add_text(m, "state_before", text);
}

/* Adds the memory in use, at most once a second, because reading it is a system call. Of a GPU: all memory in use on
 * the device of rank 0. */
static void add_memory(ls_loop *l) {
    const ls_trainer *t = l->trainer;
    ls_device_usage usage;
    double now = ls_clock_seconds(), bytes;
    if (!l->metrics || (l->memory_s > 0 && now - l->memory_s < 1)) return;
    l->memory_s = now;
    if ((bytes = ls_status_memory(t->time.world)) > 0) ls_metrics_add_f64(l->metrics, "memory_bytes", bytes);
    if (ls_device_has_usage(t->device) && ls_device_get_usage(t->device, &usage) == LS_OK && usage.total > usage.free)
        ls_metrics_add_f64(l->metrics, "gpu_memory_bytes", (double)(usage.total - usage.free));
}

static ls_status record_step(ls_loop *l, const ls_step_result *result, const ls_step *step) {
    ls_metrics *m = l->metrics;
    const ls_trainer *t = l->trainer;
    ls_metrics_begin(m);
    ls_metrics_add_i64(m, "step", t->step);
    ls_metrics_add_hex(m, "loss", result->loss);
    ls_metrics_add_f64(m, "norm", result->norm);
    ls_metrics_add_f64(m, "lr", result->lr);
    ls_metrics_add_f64(m, "ms", step->seconds * 1e3);
    ls_metrics_add_f64(m, "tokens_per_s", step->samples / step->seconds);
    if (step->mfu > 0) ls_metrics_add_f64(m, "mfu", step->mfu);
    if (l->gpu_wait_ms >= 0) ls_metrics_add_f64(m, "gpu_wait_ms", l->gpu_wait_ms);
    add_memory(l);
    if (t->time.due) {
        /* A single worker never waits, and its busy time is its step. */
        for (int k = t->time.world ? 0 : LS_WORKER_INPUT; k < LS_WORKER_TIMES; k++)
            ls_metrics_add_ms_list(m, ls_worker_time_name((ls_worker_time_kind)k), t->time.ms[k], t->time.workers);
    }
    if (t->settings.policy.act == LS_F16) ls_metrics_add_i64(m, "scale", result->scale);
    if (result->skipped) ls_metrics_add_bool(m, "skipped", true);
    if (result->audited > 0) ls_metrics_add_i64(m, "audited", result->audited);
    if (result->dropped > 0) ls_metrics_add_flags(m, "dropped", t->guard.absent, t->guard.groups);
    if (t->state.step == t->step - 1) add_state(m, t);
    add_time(m);
    return ls_metrics_end(m);
}

/* Adds the times of a step to the watch that decides whether to redistribute the groups among replicas. Rank 0 only. */
static void look_at_shares(ls_loop *l, double step_s) {
    const ls_trainer *t = l->trainer;
    double left_s = step_s * (double)(t->settings.options.steps - t->step);
    if (!l->may_share || !t->time.due || l->shares_anew) return;
    l->shares_anew = ls_share_watch_add(&l->share_watch, t->time.ms[LS_WORKER_BUSY], ls_clock_seconds(), left_s);
}

/* Adds part / whole to the line, or nothing if `whole` is 0. */
static void add_share(ls_metrics *m, const char *name, int64_t part, int64_t whole) {
    if (whole > 0) ls_metrics_add_f64(m, name, (double)part / (double)whole);
}

static double length(ls_exact_sum sum) { return sqrt(ls_exact_sum_value(&sum)); }

static ls_status record_block(ls_metrics *m, const ls_trainer *t, int b) {
    const ls_block_numerics *n = &t->guard.numerics[b];
    char name[LS_PARAM_NAME_MAX];
    ls_event_block_name(t->model, b, name);
    ls_metrics_begin(m);
    ls_metrics_add_i64(m, "step", t->step);
    ls_metrics_add_text(m, "numerics", name);
    /* Gradients as the step used them: unscaled, and clipped. */
    ls_metrics_add_f64(m, "grad_norm", length(n->grad_squares) * (double)t->clip.factor);
    ls_metrics_add_f64(m, "weight_norm", length(n->weight_squares));
    ls_metrics_add_f64(m, "update_norm", length(n->update_squares));
    add_share(m, "grad_flushed", n->grads[LS_COUNT_FLUSHED], n->grads[LS_COUNT_NONZERO]);
    add_share(m, "grad_high", n->grads[LS_COUNT_HIGH], n->grads[LS_COUNT_NONZERO]);
    if (n->acts_elems > 0) {
        add_share(m, "act_flushed", n->acts[LS_COUNT_FLUSHED], n->acts[LS_COUNT_NONZERO]);
        add_share(m, "act_high", n->acts[LS_COUNT_HIGH], n->acts[LS_COUNT_NONZERO]);
    }
    add_share(m, "lost", n->lost, n->elems);
    return ls_metrics_end(m);
}

static ls_status record_noise(ls_metrics *m, const ls_trainer *t) {
    const ls_settings *s = &t->settings;
    ls_noise_value v = ls_noise_get(&t->guard.noise, (int64_t)(s->B * s->T), (int64_t)s->B);
    if (!v.valid) return LS_OK;
    ls_metrics_begin(m);
    ls_metrics_add_i64(m, "step", t->step);
    ls_metrics_add_bool(m, "noise", true);
    ls_metrics_add_i64(m, "groups", s->groups);
    ls_metrics_add_f64(m, "grad_sq", v.grad_sq);
    ls_metrics_add_f64(m, "trace", v.trace);
    ls_metrics_add_f64(m, "scale_tokens", v.scale_tokens);
    ls_metrics_add_f64(m, "scale_sequences", v.scale_sequences);
    return ls_metrics_end(m);
}

/* Records a line per block and one for the noise scale. */
static ls_status record_numerics(ls_metrics *m, const ls_trainer *t) {
    for (int b = 0; b < t->model->nblocks; b++) LS_TRY(record_block(m, t, b));
    return record_noise(m, t);
}

static ls_status record(ls_loop *l, const ls_step_result *result, const ls_step *step) {
    const ls_trainer *t = l->trainer;
    if (!l->told_start) record_start(l);
    wrote(l, record_step(l, result, step));
    l->summary.steps++;
    l->summary.step_s += step->seconds;
    l->summary.samples += step->samples;
    if (result->finite && is_due(t->step, t->settings.options.numerics)) wrote(l, record_numerics(l->metrics, t));
    return report_run_event(l, (ls_run_event){.kind = LS_RUN_STEPPED, .step = step});
}

/* Returns the requests of this worker for the next step: save, if the time has come (rank 0) or SIGUSR1 arrived (any
 * worker), or leave. All workers know them after the step. */
static int requests_of(const ls_loop *l, double now_s) {
    double every_s = l->every_s, passed_s = now_s - l->saved_s;
    int asked_to = ls_stop_take_save() ? LS_REQUEST_SAVE : 0;
    if (l->world && (l->shares_anew || ls_world_should_leave(l->world))) asked_to |= LS_REQUEST_LEAVE;
    if (!l->reports || !(every_s > 0) || !l->saver || ls_saver_is_busy(l->saver)) return asked_to;
    return asked_to | (passed_s >= every_s ? LS_REQUEST_SAVE : 0) |
           (passed_s >= every_s / BEST_SHARE ? LS_REQUEST_SAVE_BEST : 0);
}

/* Appends the sums of the state to the log that `lockstep bisect` reads. A failure only disables the log. */
static void keep_state(ls_loop *l) {
    const ls_trainer *t = l->trainer;
    if (!l->folder || l->states_are_lost || !t->state.parts || t->state.step != t->step - 1) return;
    ls_status status = LS_OK;
    if (!l->states) status = ls_state_log_open(l->folder, t->model, t->rank, ls_layout_workers(&t->layout), &l->states);
    if (status == LS_OK) status = ls_state_log_write(l->states, t->state.step, t->state.sum, t->state.parts);
    l->states_are_lost = status != LS_OK;
    if (l->states_are_lost) ls_log_warn("%s; lockstep bisect will not be able to name tensors", ls_status_message());
}

ls_status ls_loop_step(ls_loop *l, ls_step *out) {
    ls_trainer *t = l->trainer;
    ls_step_result result;
    double start = ls_clock_seconds();
    uint64_t read_ns = t->device->read_ns;
    l->in_step = true;
    begin_work(l, LS_PHASE_STEP, l->step_s);
    LS_TRY(ls_trainer_step(t, requests_of(l, start), &result));
    l->in_step = false;
    keep_state(l);
    l->stop = result.stop;
    *out = (ls_step){.step = t->step, .steps = t->settings.options.steps, .loss = (double)NAN};
    l->gave_up = result.gave_up;
    if (result.gave_up) return LS_OK;
    end_work(l, &l->step_s);
    l->requests = result.requests;
    *out = (ls_step){.step = t->step,
                     .steps = t->settings.options.steps,
                     .loss = result.loss,
                     .norm = result.norm,
                     .lr = result.lr,
                     .seconds = ls_clock_seconds() - start,
                     .samples = (double)(t->settings.B * t->settings.T),
                     .is_images = t->data.images != NULL,
                     .audited = result.audited,
                     .skipped = result.skipped};
    l->gpu_wait_ms = t->room.known ? (double)(t->device->read_ns - read_ns) / 1e6 : -1;
    if (l->peak_flops_s > 0) out->mfu = l->flops / out->seconds / l->peak_flops_s;
    if (l->reports) look_at_shares(l, out->seconds);
    return l->reports ? record(l, &result, out) : LS_OK;
}

/* ---- all steps --------------------------------------------------------------------------------------------------- */

static bool is_over(const ls_loop *l) {
    return ls_validation_is_over(&l->trainer->validation, l->trainer->settings.options.early_stop);
}

static ls_status save_as_due(ls_loop *l) {
    bool is_due_now = save_is_due(l);
    LS_TRY(prepare_first_save(l, is_due_now));
    return is_due_now ? save_along(l) : look_at_save(l);
}

static ls_status after_step(ls_loop *l) {
    const ls_settings *s = &l->trainer->settings;
    int64_t done = l->trainer->step;
    bool last = done == s->options.steps;
    ls_evaluation evaluation;
    if (l->trainer->has_val && s->options.eval_every > 0 && (last || is_due(done, s->options.eval_every)))
        LS_TRY(ls_loop_evaluate(l, &evaluation));
    last = last || is_over(l);
    if (l->stop == 0 && l->tokenizer && s->options.sample_every > 0 && (last || is_due(done, s->options.sample_every)))
        LS_TRY(show_sample(l));
    LS_TRY(last || !l->saves ? ls_loop_save(l) : save_as_due(l));
    /* One that is still being written may come to nothing. */
    ls_left_settle(l->trainer, l->saver && ls_saver_is_busy(l->saver) ? l->sound_step : l->saved_step);
    return LS_OK;
}

/* Returns the seconds since a worker was lost; more than 0. */
static double lost_s(const ls_loop *l) {
    uint64_t seen_ns = ls_world_attempt(l->world)->seen_ns, now_ns = ls_clock_ns();
    return seen_ns > 0 && now_ns > seen_ns ? (double)(now_ns - seen_ns) * 1e-9 : 1e-3;
}

/* Records the step that the previous attempt had decided but perhaps not recorded: its metrics may end before this
 * step. */
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
                    .is_images = t->data.images != NULL,
                    .audited = result->audited,
                    .skipped = result->skipped};
    l->gpu_wait_ms = -1;
    /* Requests that all workers agreed on in that step; a request to leave is made again in the next one. */
    l->requests = result->requests & ~LS_REQUEST_LEAVE;
    if (l->reports) LS_TRY(record(l, result, &step));
    return after_step(l);
}

static ls_status tell_early_stop(ls_loop *l) {
    const ls_validation *v = &l->trainer->validation;
    char note[NOTE_MAX], best[NOTE_MAX / 2] = "";
    if (v->best_step >= 0)
        snprintf(best, sizeof best, " than %.4f at step %lld", v->best_loss, (long long)v->best_step);
    snprintf(
        note, sizeof note,
        "step %lld | stopped early: %lld evaluations in a row without a lower validation loss%s (--early-stop %lld)",
        (long long)l->trainer->step, (long long)v->stale, best, (long long)l->trainer->settings.options.early_stop);
    return report_run_event(l, (ls_run_event){.kind = LS_RUN_NOTICED, .text = note});
}

ls_status ls_loop_begin(ls_loop *l) {
    ls_trainer *t = l->trainer;
    l->saved_step = l->taken ? l->taken->saved_step : t->step > 0 ? t->step : -1;
    l->sound_step = l->saved_step;
    l->every_s = t->settings.save_every_s;
    l->reports = t->rank == 0;
    if (t->validation.saved_step > l->saved_step) { /* it was being saved when workers were lost */
        t->validation.saved_loss = (double)NAN;
        t->validation.saved_step = -1;
    }
    l->saved_s = ls_clock_seconds();
    l->flops = ls_model_step_flops(t->model, t->settings.B, t->settings.T);
    ls_share_watch_begin(&l->share_watch, &t->layout, l->cost_s, l->shared_times, l->shared_s);
    l->summary = (ls_run_summary){.first_step = t->step, .is_images = t->data.images != NULL};
    t->events = (ls_event_sink){.take = take_event, .ctx = l};
    if (l->saves) LS_TRY(ls_agree(t->world, ls_saver_open(t, l->store, l->identity, l->tokenizer, &l->saver)));
    ls_trainer_set_asked(t, (ls_trainer_asked){.signal = asked, .gives_up = gives_up, .ctx = l});
    LS_TRY(ls_stop_install());
    return agree_stop(l); /* SIGUSR2 may have come while the run was starting */
}

void ls_loop_end(ls_loop *l) {
    (void)ls_phase_enter(LS_PHASE_END);
    if (!l->trainer) return;
    ls_saver_close(l->saver, l->failed);
    l->saver = NULL;
    tell_lost(l);
    ls_state_log_close(l->states);
    l->states = NULL;
    l->trainer->events = (ls_event_sink){.take = NULL};
    ls_trainer_set_asked(l->trainer, (ls_trainer_asked){.ctx = NULL});
    ls_stop_restore();
}

/* Tells the supervisor which replica is slow. */
static void tell_shares(const ls_loop *l) {
    const ls_share_watch *w = &l->share_watch;
    ls_left_shares shares = {.rows = l->trainer->layout.dp};
    int slow = 0;
    memcpy(shares.speeds, w->speeds, sizeof shares.speeds);
    for (int d = 1; d < shares.rows; d++)
        if (w->speeds[d] < w->speeds[slow]) slow = d;
    snprintf(shares.text, sizeof shares.text,
             "replica %d is the slowest, with %.3g ms per gradient group, so a step takes %.3g ms; other shares would "
             "take %.3g ms",
             slow, 1 / w->speeds[slow], w->step_ms, w->then_ms);
    ls_left_share(l->trainer, &shares);
}

/* Leaves the run, which continues with other workers: copies the state to shared memory, where they find it. */
static ls_status leave(ls_loop *l) {
    if (l->shares_anew) tell_shares(l);
    if (l->saves) LS_TRY(settle_save(l));
    LS_TRY(report_run_event(l, (ls_run_event){.kind = LS_RUN_STEPS_ENDED}));
    LS_TRY(ls_left_rescue(l->trainer, l->world));
    ls_world_go_on(l->world);
    return LS_OK;
}

/* Leaves after a wrong result. The supervisor decides which worker it does not start again. */
static ls_status leave_wrong(ls_loop *l) {
    if (l->saves) LS_TRY(settle_save(l)); /* what is being saved was proved */
    l->failed = false;
    LS_TRY(ls_left_rescue(l->trainer, l->world));
    ls_left_blame(l->trainer, &l->trainer->blame);
    l->leaves = true;
    ls_world_go_on(l->world);
    return LS_OK;
}

static ls_status run_all_steps(ls_loop *l) {
    ls_trainer *t = l->trainer;
    double begin = ls_clock_seconds();
    ls_step step;
    ls_evaluation evaluation;
    l->recovery.ready_ns = ls_clock_ns();
    if (l->taken && l->taken->result.stop) l->stop = l->taken->result.stop; /* all had agreed on it */
    if (l->taken && !l->taken->settled) LS_TRY(settle_taken(l));
    /* One that was given up, when the run was stopped, decides about its end and about what is best. */
    if (t->has_val && t->validation.is_due && l->stop == 0) {
        LS_TRY(ls_loop_evaluate(l, &evaluation));
        ls_validation_saving(&t->validation, t->step); /* it was */
        if (l->store) ls_store_set_best(l->store, t->validation.saved_step);
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
        record_stop(l, "early stop");
    }
    LS_TRY(report_run_event(l, (ls_run_event){.kind = LS_RUN_STEPS_ENDED}));
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
    bool goes_on = l->world && l->stop == 0 && l->trainer->blame.is_found;
    if (!goes_on) record_stop(l, message);
    if (l->stop == 0 && may_save(l) && save_last(l) != LS_OK)
        ls_log_warn("the last step could not be saved: %s", ls_status_message());
    (void)report_run_event(l, (ls_run_event){.kind = LS_RUN_STEPS_ENDED});
    if (goes_on) return leave_wrong(l);
    return strcmp(message, ls_status_message()) == 0 ? status : ls_fail(status, "%s", message);
}
