/* run_lines.c: parses the lines of metrics.jsonl: tells their kinds apart and adds their members to the log. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "observe/line_scan.h"
#include "observe/metrics.h"
#include "observe/run_read.h"

static const int64_t STEP_MAX = (INT64_C(1) << 48) - 1;
enum { SCALE_MAX = 1024 };

/* ---- members ----------------------------------------------------------------------------------------------------- */

/* Returns a number, or one written as text ("nan", "-inf", "0x1.8p+1"); NaN if it is absent or anything else. */
static double number_member(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (json_is_number(value)) return json_number_value(value);
    const char *text = json_string_value(value);
    if (!text || !*text) return (double)NAN;
    char *end;
    double x = strtod(text, &end);
    return *end ? (double)NAN : x;
}

/* Returns a whole number from `low` to `high`, or else `none`. */
static int64_t whole_member(const json_t *object, const char *key, int64_t low, int64_t high, int64_t none) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) return none;
    int64_t n = (int64_t)json_integer_value(value);
    return n >= low && n <= high ? n : none;
}

/* Returns the rank of a worker, or LS_RUN_NONE. */
static int worker_member(const json_t *object, const char *key) {
    return (int)whole_member(object, key, 0, LS_WORKERS_MAX - 1, LS_RUN_NONE);
}

/* Returns the exponent of a loss scale, or INT_MIN if there is none. */
static int scale_member(const json_t *object, const char *key) {
    return (int)whole_member(object, key, -SCALE_MAX, SCALE_MAX, INT_MIN);
}

/* Returns a count, index or time of at least 0, or LS_RUN_NONE. */
static int64_t place_member(const json_t *object, const char *key) {
    return whole_member(object, key, 0, INT64_MAX, LS_RUN_NONE);
}

/* Copies a text, cut to `capacity` bytes with its NUL and without control characters; "" if it is absent. */
static void text_member(const json_t *object, const char *key, char *out, size_t capacity) {
    const char *from = json_string_value(json_object_get(object, key));
    ls_run_log_copy_text(out, capacity, from ? from : "");
}

void ls_run_log_copy_text(char *out, size_t capacity, const char *from) {
    size_t used = 0;
    for (; *from && used + 1 < capacity; from++) {
        unsigned char c = (unsigned char)*from;
        /* U+0080 to U+009F are controls too; in UTF-8 they begin with C2. */
        bool is_control = c < 0x20 || c == 0x7F || (c == 0xC2 && (unsigned char)from[1] < 0xA0);
        if (is_control && c == 0xC2 && from[1]) from++;
        out[used++] = is_control ? '?' : (char)c;
    }
    /* Half a character at the end is none. */
    if (*from) {
        while (used > 0 && ((unsigned char)*from & 0xC0) == 0x80) {
            from--;
            used--;
        }
    }
    out[used] = '\0';
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

/* Returns a number as a float: +infinity if it is too large for one, NaN if it is absent. */
static float float_member(const json_t *line, const char *key) {
    double x = number_member(line, key);
    return x > (double)HUGE_VALF ? HUGE_VALF : (float)x;
}

/* Sets *out to the index of the block in run->blocks, which it is added to if new; LS_RUN_NONE beyond
 * LS_RUN_BLOCKS_MAX. Blocks come in the same order every time, so the one after the last is tried first. */
static ls_status find_block(ls_run_log *run, const char *name, int *out) {
    int n = run->block_count,
        guess = n > 0 && run->numerics_count > 0 ? (run->numerics[run->numerics_count - 1].block + 1) % n : 0;
    for (int i = 0; i < n; i++) {
        *out = (guess + i) % n;
        if (strcmp(run->blocks[*out], name) == 0) return LS_OK;
    }
    *out = LS_RUN_NONE;
    if (n == LS_RUN_BLOCKS_MAX) return LS_OK;
    LS_TRY(ls_run_log_grow(&run->blocks, (size_t)n, sizeof *run->blocks));
    memcpy(run->blocks[n], name, strlen(name) + 1);
    *out = run->block_count++;
    return LS_OK;
}

/* Adds the --numerics record of one block; beyond LS_RUN_BLOCKS_MAX blocks the line is only counted as unknown. */
static ls_status add_numerics(ls_run_log *run, int64_t step, const json_t *line) {
    char name[LS_RUN_NAME_MAX];
    int block;
    text_member(line, "numerics", name, sizeof name);
    LS_TRY(find_block(run, name, &block));
    if (block == LS_RUN_NONE) {
        run->unknown_lines++;
        return LS_OK;
    }
    LS_TRY(ls_run_log_grow(&run->numerics, run->numerics_count, sizeof *run->numerics));
    run->numerics[run->numerics_count++] = (ls_run_log_numerics){
        .step = step,
        .block = block,
        .grad_norm = float_member(line, "grad_norm"),
        .weight_norm = float_member(line, "weight_norm"),
        .update_norm = float_member(line, "update_norm"),
        .grad_flushed = float_member(line, "grad_flushed"),
        .grad_high = float_member(line, "grad_high"),
        .act_flushed = float_member(line, "act_flushed"),
        .act_high = float_member(line, "act_high"),
        .lost = float_member(line, "lost"),
    };
    return LS_OK;
}

static const char *const event_names[LS_EVENT_KINDS] = {
    [LS_EVENT_OVERFLOW] = "overflow", [LS_EVENT_FLOOR] = "floor",     [LS_EVENT_NON_FINITE] = "non-finite",
    [LS_EVENT_OUTLIER] = "outlier",   [LS_EVENT_REPLICA] = "replica", [LS_EVENT_STATE] = "state",
    [LS_EVENT_AUDIT] = "audit",       [LS_EVENT_STOPPED] = "stopped",
};

const char *ls_run_log_event_name(ls_run_log_event_kind kind) { return event_names[kind]; }

/* Reads the list of suspected workers, at most LS_RUN_SUSPECTS_MAX. The first one becomes event->worker if that is
 * not set. */
static void read_suspects(const json_t *line, ls_run_log_event *event) {
    const json_t *list = json_object_get(line, "workers");
    for (size_t i = 0; i < json_array_size(list) && event->suspect_count < LS_RUN_SUSPECTS_MAX; i++) {
        const json_t *item = json_array_get(list, i);
        int64_t rank = json_is_integer(item) ? (int64_t)json_integer_value(item) : -1;
        if (rank >= 0 && rank < LS_WORKERS_MAX) event->suspects[event->suspect_count++] = (int)rank;
    }
    if (event->worker == LS_RUN_NONE && event->suspect_count > 0) event->worker = event->suspects[0];
}

/* Fills the event from its line. Members are named differently by kind: `what` and `worker` come from those of
 * event->kind. */
static void read_event(const json_t *line, ls_run_log_event *event) {
    static const char *const what_of[LS_EVENT_KINDS] = {[LS_EVENT_NON_FINITE] = "phase",
                                                        [LS_EVENT_OUTLIER] = "action",
                                                        [LS_EVENT_STATE] = "what",
                                                        [LS_EVENT_STOPPED] = "reason"};
    event->worker = worker_member(line, event->kind == LS_EVENT_AUDIT ? "wrong" : "worker");
    event->owner = worker_member(line, "owner");
    event->auditor = worker_member(line, "auditor");
    event->group = (int)whole_member(line, "group", 0, INT_MAX, LS_RUN_NONE);
    event->scale = scale_member(line, "scale");
    event->next_scale = scale_member(line, "next_scale");
    event->micro = place_member(line, "micro");
    event->index = place_member(line, "index");
    event->first_sample = place_member(line, "first_sample");
    event->samples = place_member(line, "samples");
    event->norm = number_member(line, "norm");
    event->median = number_member(line, "median");
    event->spread = number_member(line, "spread");
    event->score = number_member(line, "score");
    event->group_loss = number_member(line, "group_loss");
    event->peers_loss = number_member(line, "peers_loss");
    event->loss_score = number_member(line, "loss_score");
    event->angle_deg = number_member(line, "angle_deg");
    event->length_with = number_member(line, "length_with");
    event->length_without = number_member(line, "length_without");
    event->has_recurs = json_is_boolean(json_object_get(line, "recurs"));
    event->recurs = json_is_true(json_object_get(line, "recurs"));
    event->has_persistent = json_is_boolean(json_object_get(line, "persistent"));
    event->persistent = json_is_true(json_object_get(line, "persistent"));
    event->left_out = json_is_true(json_object_get(line, "left_out"));
    event->found_step = place_member(line, "found_step");
    event->suspect_from = place_member(line, "suspect_from");
    event->suspect_to = place_member(line, "suspect_to");
    text_member(line, "block", event->block, sizeof event->block);
    text_member(line, "tensor", event->tensor, sizeof event->tensor);
    text_member(line, "value", event->value, sizeof event->value);
    if (what_of[event->kind]) text_member(line, what_of[event->kind], event->what, sizeof event->what);
    read_suspects(line, event);
}

/* Adds the record of a process that begins (or continues) the run, and makes it the run's last one. */
static ls_status add_start(ls_run_log *run, int64_t step, const json_t *line) {
    ls_run_log_start *s = &run->start;
    *s = (ls_run_log_start){.step = step,
                            .threads = (int)whole_member(line, "threads", 1, INT_MAX, 0),
                            .crowded = json_is_true(json_object_get(line, "crowded")),
                            .watched = json_is_true(json_object_get(line, "watched")),
                            .unigram = number_member(line, "unigram_nats"),
                            .unix_ms = place_member(line, "unix_ms"),
                            .restart = (int)whole_member(line, "restart", 0, INT_MAX, 0),
                            .recovery_ms = number_member(line, "recovery_ms"),
                            .taken = json_is_true(json_object_get(line, "taken"))};
    text_member(line, "version", s->version, sizeof s->version);
    text_member(line, "model", s->model, sizeof s->model);
    text_member(line, "cpu", s->cpu, sizeof s->cpu);
    text_member(line, "device", s->device, sizeof s->device);
    LS_TRY(ls_run_log_grow(&run->starts, run->start_count, sizeof *run->starts));
    run->starts[run->start_count++] = *s;
    return LS_OK;
}

/* Adds a text that the model generated; newlines stay, other control characters become '?'. */
static ls_status add_sample(ls_run_log *run, int64_t step, const json_t *line) {
    const char *from = json_string_value(json_object_get(line, "sample"));
    size_t room = strlen(from) + 1;
    LS_TRY(ls_run_log_grow(&run->samples, run->sample_count, sizeof *run->samples));
    char *copy = malloc(room);
    if (!copy) return ls_fail(LS_ERR_RESOURCE, "out of memory for a sample of %zu bytes", room);
    ls_run_log_copy_text(copy, room, from);
    /* Restores the newlines: the copy has '?' for each control character, which has one byte or, after C2, two. */
    for (size_t i = 0, k = 0; from[i] && copy[k]; i++, k++) {
        if (from[i] == '\n') copy[k] = '\n';
        if ((unsigned char)from[i] == 0xC2 && (unsigned char)from[i + 1] < 0xA0 && from[i + 1]) i++;
    }
    run->samples[run->sample_count++] = (ls_run_log_sample){step, place_member(line, "unix_ms"), copy};
    return LS_OK;
}

/* Reads the reason of a stop. A reason that fills the buffer was cut off, so its last, incomplete clause is dropped. */
static void read_stop(const json_t *line, char out[LS_RUN_TEXT_MAX]) {
    text_member(line, "stopped", out, LS_RUN_TEXT_MAX);
    char *last = strlen(out) == LS_RUN_TEXT_MAX - 1 ? strrchr(out, ';') : NULL;
    if (last) *last = '\0';
}

/* Adds an event; the reason of a stop also becomes run->stop. Events beyond LS_RUN_EVENTS_MAX of a kind are only
 * counted, and lines with an unknown kind count as unknown. */
static ls_status add_event(ls_run_log *run, int64_t step, const json_t *line) {
    const char *name = json_string_value(json_object_get(line, "event"));
    int kind = 0;
    /* Readers see a line with "stopped" as an event, and its value as the reason. */
    bool is_stop = json_is_string(json_object_get(line, "stopped"));
    if (is_stop) name = event_names[LS_EVENT_STOPPED];
    while (kind < LS_EVENT_KINDS && (!name || strcmp(name, event_names[kind]) != 0)) kind++;
    if (kind == LS_EVENT_KINDS) {
        run->unknown_lines++;
        return LS_OK;
    }
    if (run->of_kind[kind]++ >= LS_RUN_EVENTS_MAX) return LS_OK;
    LS_TRY(ls_run_log_grow(&run->events, run->event_count, sizeof *run->events));
    ls_run_log_event *event = &run->events[run->event_count++];
    *event = (ls_run_log_event){.step = step, .kind = (ls_run_log_event_kind)kind};
    read_event(line, event);
    if (is_stop) {
        read_stop(line, event->what);
        memcpy(run->stop, event->what, sizeof run->stop);
        run->stopped = true;
    }
    return LS_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Reads a list of times in ms by worker, and returns its length: 0 if it is absent or too long. A time that is no
 * number is 0. */
static int read_list(const json_t *line, const char *key, float out[LS_WORKERS_MAX]) {
    const json_t *list = json_object_get(line, key);
    size_t count = json_array_size(list);
    if (count > LS_WORKERS_MAX) return 0;
    for (size_t i = 0; i < count; i++) out[i] = ls_line_ms(json_number_value(json_array_get(list, i)));
    return (int)count;
}

/* Adds the times of the workers in a step. A single worker records no busy time: its whole step is busy. */
static ls_status put_usage(ls_run_log *run, const ls_run_log_step *step, ls_line_usage *usage) {
    const float *list[LS_USAGE_KINDS] = {NULL};
    int count = usage->count[LS_USAGE_BUSY];
    if (count == 0 && step->ms >= 0 && usage->count[LS_USAGE_INPUT] == 1) {
        count = 1;
        usage->ms[LS_USAGE_BUSY][0] = (float)step->ms;
    }
    if (count == 0) return LS_OK;
    list[LS_USAGE_BUSY] = usage->ms[LS_USAGE_BUSY];
    for (int k = LS_USAGE_WAIT; k < LS_USAGE_KINDS; k++)
        if (usage->count[k] == count) list[k] = usage->ms[k];
    return ls_run_log_add_usage(run, step->step, count, list);
}

/* Drops the records of `step` and later steps if the log has them, because the run repeats them. Numerics, events and
 * validations of `step` itself stay: they may precede the line of their step. */
static void cut_back(ls_run_log *run, int64_t step) {
    if (run->step_count == 0 || run->steps[run->step_count - 1].step < step) return;
    run->cuts++;
    while (run->step_count > 0 && run->steps[run->step_count - 1].step >= step) run->step_count--;
    while (run->usage_count > 0 && run->usage[run->usage_count - 1].step >= step)
        run->usage_ms_count = run->usage[--run->usage_count].at;
    while (run->validation_count > 0 && run->validations[run->validation_count - 1].step > step)
        run->validation_count--;
    while (run->save_count > 0 && run->saves[run->save_count - 1].step >= step) run->save_count--;
    while (run->start_count > 0 && run->starts[run->start_count - 1].step > step) run->start_count--;
    while (run->sample_count > 0 && run->samples[run->sample_count - 1].step >= step)
        free(run->samples[--run->sample_count].text);
    while (run->numerics_count > 0 && run->numerics[run->numerics_count - 1].step > step) run->numerics_count--;
    while (run->noise_count > 0 && run->noises[run->noise_count - 1].step > step) run->noise_count--;
    while (run->event_count > 0 && run->events[run->event_count - 1].step > step)
        run->of_kind[run->events[--run->event_count].kind]--;
}

void ls_run_log_mark_make(const ls_run_log *run, ls_run_log_mark *out) {
    *out = (ls_run_log_mark){.steps = run->step_count,
                             .validations = run->validation_count,
                             .saves = run->save_count,
                             .numerics = run->numerics_count,
                             .noises = run->noise_count,
                             .events = run->event_count,
                             .usage = run->usage_count,
                             .usage_ms = run->usage_ms_count,
                             .starts = run->start_count,
                             .samples = run->sample_count,
                             .cuts = run->cuts,
                             .lines = run->lines,
                             .damaged_lines = run->damaged_lines,
                             .unknown_lines = run->unknown_lines,
                             .start = run->start,
                             .noise = run->noise,
                             .stopped = run->stopped};
    memcpy(out->of_kind, run->of_kind, sizeof out->of_kind);
    memcpy(out->stop, run->stop, sizeof out->stop);
}

bool ls_run_log_go_back(ls_run_log *run, const ls_run_log_mark *mark) {
    if (run->cuts != mark->cuts) return false;
    while (run->sample_count > mark->samples) free(run->samples[--run->sample_count].text);
    run->step_count = mark->steps;
    run->validation_count = mark->validations;
    run->save_count = mark->saves;
    run->numerics_count = mark->numerics;
    run->noise_count = mark->noises;
    run->event_count = mark->events;
    run->usage_count = mark->usage;
    run->usage_ms_count = mark->usage_ms;
    run->start_count = mark->starts;
    run->lines = mark->lines;
    run->damaged_lines = mark->damaged_lines;
    run->unknown_lines = mark->unknown_lines;
    run->start = mark->start;
    run->noise = mark->noise;
    run->stopped = mark->stopped;
    run->ends_torn = false;
    memcpy(run->of_kind, mark->of_kind, sizeof run->of_kind);
    memcpy(run->stop, mark->stop, sizeof run->stop);
    return true;
}

/* Copies 32 hexadecimal digits; anything else gives "". */
static void copy_hash(char out[33], const char *text) {
    bool is_hash = text && strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
    snprintf(out, 33, "%s", is_hash ? text : "");
}

void ls_run_log_step_init(ls_run_log_step *step) {
    const double none = (double)NAN;
    *step = (ls_run_log_step){.loss = none,
                              .norm = none,
                              .lr = none,
                              .ms = none,
                              .tokens_s = none,
                              .mfu = none,
                              .gpu_wait_ms = none,
                              .memory = none,
                              .gpu_memory = none,
                              .unix_ms = LS_RUN_NONE,
                              .scale = INT_MIN};
}

/* Adds a step and its times by worker, after dropping the records of this and later steps that an earlier process
 * left. */
static ls_status put_step(ls_run_log *run, const ls_run_log_step *step, ls_line_usage *usage) {
    cut_back(run, step->step);
    run->stopped = false;
    LS_TRY(ls_run_log_grow(&run->steps, run->step_count, sizeof *run->steps));
    run->steps[run->step_count++] = *step;
    return put_usage(run, step, usage);
}

/* Parses a step's line that the fast parser (line_scan.h) left, and adds it. */
static ls_status add_step(ls_run_log *run, int64_t number_done, const json_t *line) {
    ls_run_log_step step = {
        .step = number_done,
        .loss = number_member(line, "loss"),
        .norm = number_member(line, "norm"),
        .has_norm = json_object_get(line, "norm") != NULL,
        .lr = number_member(line, "lr"),
        .ms = number_member(line, "ms"),
        .tokens_s = number_member(line, "tokens_per_s"),
        .unix_ms = place_member(line, "unix_ms"),
        .audited = (int)whole_member(line, "audited", 0, INT_MAX, 0),
        .mfu = number_member(line, "mfu"),
        .gpu_wait_ms = number_member(line, "gpu_wait_ms"),
        .memory = number_member(line, "memory_bytes"),
        .gpu_memory = number_member(line, "gpu_memory_bytes"),
        .scale = scale_member(line, "scale"),
        .dropped = (int)json_array_size(json_object_get(line, "dropped")),
        .skipped = json_is_true(json_object_get(line, "skipped")),
    };
    copy_hash(step.state_before, json_string_value(json_object_get(line, "state_before")));
    ls_line_usage usage;
    for (int k = 0; k < LS_USAGE_KINDS; k++) usage.count[k] = read_list(line, ls_line_usage_names[k], usage.ms[k]);
    return put_step(run, &step, &usage);
}

/* Adds an evaluation on the validation data. */
static ls_status add_validation(ls_run_log *run, int64_t step, const json_t *line) {
    LS_TRY(ls_run_log_grow(&run->validations, run->validation_count, sizeof *run->validations));
    run->validations[run->validation_count++] = (ls_run_log_validation){.step = step,
                                                                        .loss = number_member(line, "val_loss"),
                                                                        .ms = number_member(line, "ms"),
                                                                        .accuracy = number_member(line, "val_accuracy"),
                                                                        .unix_ms = place_member(line, "unix_ms")};
    return LS_OK;
}

/* Adds a checkpoint and for how long training waited for it; a checkpoint that failed is ignored. */
static ls_status add_save(ls_run_log *run, int64_t step, const json_t *line) {
    if (json_is_false(json_object_get(line, "saved"))) return LS_OK;
    LS_TRY(ls_run_log_grow(&run->saves, run->save_count, sizeof *run->saves));
    double ms = number_member(line, json_object_get(line, "stall_ms") ? "stall_ms" : "ms");
    run->saves[run->save_count++] = (ls_run_log_save){step, ms};
    return LS_OK;
}

/* Adds an estimate of the gradient noise scale, and makes it the run's newest. */
static ls_status add_noise(ls_run_log *run, int64_t step, const json_t *line) {
    run->noise = (ls_run_log_noise){step, number_member(line, "scale_tokens"), number_member(line, "scale_sequences")};
    LS_TRY(ls_run_log_grow(&run->noises, run->noise_count, sizeof *run->noises));
    run->noises[run->noise_count++] = run->noise;
    return LS_OK;
}

/* Adds a parsed line to the list of its kind. Lines after run->limit_step are ignored; unknown kinds are counted. */
static ls_status add_object(ls_run_log *run, const json_t *line) {
    int64_t step = whole_member(line, "step", 0, STEP_MAX, LS_RUN_NONE);
    if (step == LS_RUN_NONE) {
        run->unknown_lines++;
        return LS_OK;
    }
    if (step > run->limit_step) return LS_OK;
    if (json_object_get(line, "event") || json_is_string(json_object_get(line, "stopped")))
        return add_event(run, step, line);
    if (json_is_true(json_object_get(line, "started"))) return add_start(run, step, line);
    if (json_is_string(json_object_get(line, "numerics"))) return add_numerics(run, step, line);
    if (json_object_get(line, "loss")) return add_step(run, step, line);
    if (json_object_get(line, "val_loss")) return add_validation(run, step, line);
    if (json_is_true(json_object_get(line, "noise"))) return add_noise(run, step, line);
    if (json_object_get(line, "saved")) return add_save(run, step, line);
    if (json_is_string(json_object_get(line, "sample"))) return add_sample(run, step, line);
    /* The first line of a file has nothing for the series. */
    if (json_object_get(line, "continues") || json_object_get(line, "thinned")) return LS_OK;
    run->unknown_lines++;
    return LS_OK;
}

ls_status ls_run_log_add_line(ls_run_log *run, const char *line, size_t bytes) {
    json_error_t error;
    ls_run_log_step step;
    ls_line_usage usage;
    run->lines++;
    if (!ls_metrics_line_is_intact(line, bytes)) {
        run->damaged_lines++;
        return LS_OK;
    }
    if (ls_line_scan_step(line, bytes, &step, &usage))
        return step.step > run->limit_step ? LS_OK : put_step(run, &step, &usage);
    json_t *object = bytes <= LS_METRICS_LINE_MAX ? json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &error) : NULL;
    ls_status status = LS_OK;
    if (!object && bytes <= LS_METRICS_LINE_MAX && json_error_code(&error) == json_error_out_of_memory)
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a line of metrics");
    else if (!json_is_object(object))
        run->damaged_lines++;
    else
        status = add_object(run, object);
    json_decref(object);
    return status;
}

ls_status ls_run_log_add_metrics(ls_run_log *run, const char *text, size_t bytes) {
    for (const char *end = text + bytes; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        long long damaged = run->damaged_lines;
        LS_TRY(ls_run_log_add_line(run, text, (size_t)((newline ? newline : end) - text)));
        if (!newline) run->ends_torn = run->damaged_lines > damaged;
        text = newline ? newline + 1 : end;
    }
    return LS_OK;
}
