/* loop_record.c: formats and writes the lines of metrics of a run, and its log of state sums. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "comm/world/status_page.h"
#include "comm/world/world.h"
#include "numerics/elementary.h"
#include "run/loop.h"

enum { SAMPLE_MAX = 8192 };

/* Takes the status of writing a line: counts lines that cannot be written, and warns of the first. They never end the
 * run, because its weights are worth more than its metrics. */
static void wrote(ls_loop *l, ls_status status) {
    if (status == LS_OK) return;
    if (l->record.lost++ == 0) {
        l->record.from = l->trainer->step;
        ls_log_warn("%s; training continues without the metrics that cannot be written", ls_status_message());
    }
    l->record.to = l->trainer->step;
}

/* Returns the wall-clock time in microseconds since 1970. */
static int64_t unix_us(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

/* Adds the wall-clock time, in ms since 1970, at which the line is written, for curves over time. */
static void add_time(ls_metrics *m) { ls_metrics_add_i64(m, "unix_ms", unix_us() / 1000); }

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

/* Returns the entropy of single tokens, in nats, estimated from a sample spread over the data: a model has learned
 * something only if its loss is lower. NaN if it is not known, as for images. */
static double unigram_nats(const ls_trainer *t) {
    enum { PIECES = 64, PIECE = 1024 };
    const ls_corpus *corpus = t->input.data.corpus;
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

/* Adds to the line of a start how long recovery took after the loss of a worker, and its parts, in ms: the old workers
 * end, the new ones start, take over the state, and are ready. */
static void record_recovery(ls_loop *l, const ls_attempt *attempt) {
    const ls_recovery *r = &l->recovery;
    const uint64_t at[] = {attempt->seen_ns ? attempt->seen_ns : attempt->begun_ns, attempt->begun_ns, r->made_ns,
                           r->taken_ns, r->ready_ns};
    enum { PARTS = sizeof at / sizeof *at - 1 };
    double ms[PARTS];
    for (int i = 0; i < PARTS; i++) ms[i] = (double)(at[i + 1] - at[i]) * 1e-6;
    ls_metrics_add_f64(l->record.metrics, "recovery_ms", (double)(at[PARTS] - at[0]) * 1e-6);
    ls_metrics_add_ms_list(l->record.metrics, "recovery_parts_ms", ms, PARTS);
    /* The step of this line is one that the workers before had committed, or the first of these. */
    ls_metrics_add_bool(l->record.metrics, "taken", !l->taken->settled && l->trainer->step == l->taken->step);
}

/* Writes the line "started" with the machine that makes the next steps. Called with the first step, so that a start
 * without steps leaves no line. */
static void record_start(ls_loop *l) {
    const ls_trainer *t = l->trainer;
    ls_metrics_begin(l->record.metrics);
    ls_metrics_add_i64(l->record.metrics, "step", t->step);
    ls_metrics_add_bool(l->record.metrics, "started", true);
    ls_metrics_add_text(l->record.metrics, "version", LS_VERSION);
    ls_metrics_add_text(l->record.metrics, "model", t->settings.shape.name);
    ls_metrics_add_text(l->record.metrics, "cpu", ls_cpu_detect()->model);
    ls_metrics_add_text(l->record.metrics, "device", t->device->name);
    ls_metrics_add_i64(l->record.metrics, "threads", t->world ? ls_world_threads(t->world) : ls_cpu_count());
    ls_metrics_add_bool(l->record.metrics, "crowded", t->world && ls_world_is_crowded(t->world));
    ls_metrics_add_bool(l->record.metrics, "watched", t->guard.outlier || t->guard.contribution.workers > 0);
    if (l->taken) { /* this process is one of a new set of workers */
        const ls_attempt *attempt = ls_world_attempt(l->world);
        int64_t ago_us = attempt->seen_ns > 0 ? (int64_t)(ls_clock_ns() - attempt->seen_ns) / 1000 : 0;
        ls_metrics_add_i64(l->record.metrics, "restart", attempt->number);
        ls_metrics_add_i64(l->record.metrics, "lost_unix_us", unix_us() - ago_us);
        record_recovery(l, attempt);
        if (t->layout.dp > 1) ls_metrics_add_i64_list(l->record.metrics, "shares", t->layout.share, t->layout.dp);
    }
    double unigram = unigram_nats(t);
    if (isfinite(unigram)) ls_metrics_add_f64(l->record.metrics, "unigram_nats", unigram);
    add_time(l->record.metrics);
    wrote(l, ls_metrics_end(l->record.metrics));
    l->record.told_start = true;
}

void ls_loop_record_stop(ls_loop *l, const char *reason) {
    const ls_trainer *t = l->trainer;
    if (!l->reports || !l->record.told_start || t->step >= t->settings.options.steps) return;
    ls_metrics_begin(l->record.metrics);
    ls_metrics_add_i64(l->record.metrics, "step", t->step);
    ls_metrics_add_text(l->record.metrics, "stopped", reason);
    wrote(l, ls_metrics_end(l->record.metrics));
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* Adds the state hash after the previous step, which is known only now, because it travels with the sum of this step
 * (run/state_hash.h). */
static void add_state(ls_metrics *m, const ls_trainer *t) {
    char text[LS_HASH_TEXT_BYTES];
    ls_hash_text(t->state.hash, text);
    ls_metrics_add_text(m, "state_before", text);
}

/* Adds the bytes of memory in use, at most once a second, because reading it is a system call: of the host, and of rank
 * 0's GPU all that is in use there. */
static void add_memory(ls_loop *l) {
    const ls_trainer *t = l->trainer;
    ls_device_usage usage;
    double now = ls_clock_seconds(), bytes;
    if (!l->record.metrics || (l->record.memory_s > 0 && now - l->record.memory_s < 1)) return;
    l->record.memory_s = now;
    if ((bytes = ls_status_memory(t->time.world)) > 0) ls_metrics_add_f64(l->record.metrics, "memory_bytes", bytes);
    if (ls_device_has_usage(t->device) && ls_device_get_usage(t->device, &usage) == LS_OK && usage.total > usage.free)
        ls_metrics_add_f64(l->record.metrics, "gpu_memory_bytes", (double)(usage.total - usage.free));
}

/* Writes the line of a step; the loss as a hexadecimal float, so that no bit is lost. */
static ls_status record_step(ls_loop *l, const ls_step_result *result, const ls_step *step, double gpu_wait_ms) {
    ls_metrics *m = l->record.metrics;
    const ls_trainer *t = l->trainer;
    ls_metrics_begin(m);
    ls_metrics_add_i64(m, "step", t->step);
    ls_metrics_add_hex(m, "loss", result->loss);
    ls_metrics_add_f64(m, "norm", result->norm);
    ls_metrics_add_f64(m, "lr", result->lr);
    ls_metrics_add_f64(m, "ms", step->seconds * 1e3);
    ls_metrics_add_f64(m, "tokens_per_s", step->samples / step->seconds);
    if (step->mfu > 0) ls_metrics_add_f64(m, "mfu", step->mfu);
    if (gpu_wait_ms >= 0) ls_metrics_add_f64(m, "gpu_wait_ms", gpu_wait_ms);
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

/* Adds part / whole to the line, or nothing if `whole` is 0. */
static void add_share(ls_metrics *m, const char *name, int64_t part, int64_t whole) {
    if (whole > 0) ls_metrics_add_f64(m, name, (double)part / (double)whole);
}

/* Returns the square root of a sum of squares. */
static double length(ls_exact_sum sum) { return sqrt(ls_exact_sum_value(&sum)); }

/* Writes the numerics of one block: norms, and shares of values that rounding flushed to zero or that are near
 * overflow. */
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

/* Writes the line of the gradient noise scale, if it has been measured. */
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

/* Writes a line of numerics for each block, and the one of the noise scale. */
static ls_status record_numerics(ls_metrics *m, const ls_trainer *t) {
    for (int b = 0; b < t->model->nblocks; b++) LS_TRY(record_block(m, t, b));
    return record_noise(m, t);
}

void ls_loop_record_step(ls_loop *l, const ls_step_result *result, const ls_step *step, double gpu_wait_ms) {
    const ls_trainer *t = l->trainer;
    int64_t every = t->settings.options.numerics;
    if (!l->record.told_start) record_start(l);
    wrote(l, record_step(l, result, step, gpu_wait_ms));
    if (result->finite && every > 0 && t->step % every == 0) wrote(l, record_numerics(l->record.metrics, t));
}

void ls_loop_record_state(ls_loop *l) {
    const ls_trainer *t = l->trainer;
    if (!l->record.folder || l->record.states_are_lost || !t->state.parts || t->state.step != t->step - 1) return;
    ls_status status = LS_OK;
    if (!l->record.states)
        status =
            ls_state_log_open(l->record.folder, t->model, t->rank, ls_layout_workers(&t->layout), &l->record.states);
    if (status == LS_OK) status = ls_state_log_write(l->record.states, t->state.step, t->state.sum, t->state.parts);
    l->record.states_are_lost = status != LS_OK;
    if (l->record.states_are_lost)
        ls_log_warn("%s; lockstep bisect will not be able to name tensors", ls_status_message());
}

/* ---- beside the steps -------------------------------------------------------------------------------------------- */

void ls_loop_record_event(ls_loop *l, const ls_train_event *event) {
    wrote(l, ls_event_record(event, l->record.metrics));
}

void ls_loop_record_evaluation(ls_loop *l, const ls_evaluation *evaluation) {
    ls_metrics *m = l->record.metrics;
    ls_metrics_begin(m);
    ls_metrics_add_i64(m, "step", l->trainer->step);
    ls_metrics_add_hex(m, "val_loss", evaluation->loss);
    if (evaluation->accuracy >= 0) ls_metrics_add_f64(m, "val_accuracy", evaluation->accuracy);
    ls_metrics_add_f64(m, "ms", evaluation->seconds * 1e3);
    add_time(m);
    wrote(l, ls_metrics_end(m));
}

void ls_loop_record_sample(ls_loop *l, const char *text, size_t bytes) {
    char kept[SAMPLE_MAX + 1];
    if (bytes > SAMPLE_MAX) bytes = SAMPLE_MAX;
    for (size_t i = 0; i < bytes; i++) kept[i] = text[i] ? text[i] : '?';
    kept[bytes] = '\0';
    ls_metrics_begin(l->record.metrics);
    ls_metrics_add_i64(l->record.metrics, "step", l->trainer->step);
    ls_metrics_add_text(l->record.metrics, "sample", kept);
    add_time(l->record.metrics);
    wrote(l, ls_metrics_end(l->record.metrics));
}

void ls_loop_record_save(ls_loop *l, const ls_save_outcome *o) {
    ls_metrics_begin(l->record.metrics);
    ls_metrics_add_i64(l->record.metrics, "step", l->trainer->step);
    ls_metrics_add_bool(l->record.metrics, "saved", o->status == LS_OK);
    if (o->step != l->trainer->step) ls_metrics_add_i64(l->record.metrics, "saved_step", o->step);
    if (o->status != LS_OK) ls_metrics_add_text(l->record.metrics, "error", o->text);
    if (o->status == LS_OK) ls_metrics_add_f64(l->record.metrics, "ms", o->seconds * 1e3);
    if (o->status == LS_OK) ls_metrics_add_f64(l->record.metrics, "stall_ms", o->stall_s * 1e3);
    if (l->trainer->settings.save_auto) ls_metrics_add_f64(l->record.metrics, "every_s", l->saves.every_s);
    wrote(l, ls_metrics_end(l->record.metrics));
}

void ls_loop_record_end(ls_loop *l) {
    ls_loop_record *r = &l->record;
    if (r->lost > 0)
        ls_log_warn("%" PRId64 " line%s of metrics of the steps %" PRId64 " to %" PRId64 " could not be written",
                    r->lost, r->lost == 1 ? "" : "s", r->from, r->to);
    ls_state_log_close(r->states);
    r->states = NULL;
}
