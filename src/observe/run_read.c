/* run_read.c: reads the files of a run directory beside the metrics, and manages the arrays of the log. */
#include "observe/run_read.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/store.h"
#include "config/saved_config.h"
#include "observe/series.h"
#include "observe/timeline.h"

enum { SHOWN = 160, OPTIONS_BYTES_MAX = 1 << 20 };

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

void ls_run_log_init(ls_run_log *run) {
    *run = (ls_run_log){.noise = {.step = LS_RUN_NONE},
                        .start = {.step = LS_RUN_NONE, .unigram = (double)NAN},
                        .limit_step = LLONG_MAX};
}

void ls_run_log_free(ls_run_log *run) {
    if (!run) return;
    free(run->steps);
    free(run->validations);
    free(run->saves);
    free(run->numerics);
    free(run->blocks);
    free(run->noises);
    free(run->events);
    free(run->usage);
    free(run->usage_ms);
    free(run->options);
    free(run->starts);
    free(run->checkpoints);
    for (size_t i = 0; i < run->sample_count; i++) free(run->samples[i].text);
    free(run->samples);
    ls_run_log_init(run);
}

ls_status ls_run_log_add_usage(ls_run_log *run, long long step, int workers, const float *const ms[LS_USAGE_KINDS]) {
    LS_TRY(ls_run_log_grow(&run->usage, run->usage_count, sizeof *run->usage));
    run->usage[run->usage_count] = (ls_run_log_usage){step, workers, run->usage_ms_count};
    for (int k = 0; k < LS_USAGE_KINDS; k++)
        for (int w = 0; w < workers; w++) {
            LS_TRY(ls_run_log_grow(&run->usage_ms, run->usage_ms_count, sizeof *run->usage_ms));
            run->usage_ms[run->usage_ms_count++] = ms[k] ? ms[k][w] : NAN;
        }
    run->usage_count++;
    return LS_OK;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* Adds the text of a file to the log: ls_run_log_add_options() and the like. */
typedef ls_status add_text_fn(ls_run_log *run, const char *text, size_t bytes);

/* Writes "folder/name" to `path`; fails if that is too long. */
static ls_status join_run_path(char path[PATH_MAX], const char *folder, const char *name) {
    if (snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "path %.*s… is too long", SHOWN, folder);
}

/* Reads a small file beside the metrics and passes it to `add`. A file that is absent, unreadable or too large is
 * ignored. */
static ls_status read_text(ls_run_log *run, const char *folder, const char *name, add_text_fn *add) {
    char path[PATH_MAX], *text;
    size_t bytes;
    struct stat about;
    LS_TRY(join_run_path(path, folder, name));
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return LS_OK;
    ls_status status = ls_file_read(path, OPTIONS_BYTES_MAX, &text, &bytes);
    if (status == LS_ERR_RESOURCE) return status;
    if (status != LS_OK) return LS_OK;
    status = add(run, text, bytes);
    free(text);
    return status;
}

/* Adds the times of workers from trace.json, but only if the metrics have none. A bad trace is not a failure:
 * run->trace_problem has the reason. */
static ls_status read_trace(ls_run_log *run, const char *folder) {
    char path[PATH_MAX];
    struct stat about;
    ls_trace trace;
    LS_TRY(join_run_path(path, folder, "trace.json"));
    if (run->usage_count > 0 || stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return LS_OK;
    ls_status status = ls_trace_open(path, &trace);
    if (status == LS_OK) {
        status = ls_run_log_add_trace(run, path, &trace);
        ls_trace_free(&trace);
    }
    if (status == LS_OK || status == LS_ERR_RESOURCE) return status;
    ls_run_log_copy_text(run->trace_problem, sizeof run->trace_problem, ls_status_message());
    return LS_OK;
}

/* Fails, with a message for the user, unless `path` is a folder with identity.json, metrics.jsonl or checkpoints. */
static ls_status check_folder(const char *path) {
    static const char *const marks[] = {"identity.json", "metrics.jsonl", "checkpoints"};
    char name[PATH_MAX];
    struct stat about;
    if (stat(path, &about) != 0) return ls_file_fail_open(path);
    if (!S_ISDIR(about.st_mode))
        return ls_fail(LS_ERR_INPUT, "%.*s is a file; give a run folder (the --out of lockstep train)", SHOWN, path);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        LS_TRY(join_run_path(name, path, marks[i]));
        if (ls_file_exists(name)) return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT,
                   "%.*s is not a run: it has neither identity.json nor metrics.jsonl; give a run folder (the --out of "
                   "lockstep train)",
                   SHOWN, path);
}

/* A process that works in the folder holds its lock (run/folder/run_lock.h). A non-blocking attempt to get a shared
 * lock, which is released at once, fails meanwhile. */
bool ls_run_folder_is_open(const char *folder) {
    char path[PATH_MAX];
    if (join_run_path(path, folder, "lock") != LS_OK) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) (void)close(fd);
    return held;
}

/* Lists the checkpoints in the run folder, complete or not; the caller frees *entries. */
static ls_status list_checkpoints(const char *path, ls_store_entry **entries, int *count) {
    ls_store *store;
    LS_TRY(ls_store_open(path, LS_STORE_READ, &store));
    ls_status status = ls_store_list(store, entries, count);
    ls_store_close(store);
    return status;
}

ls_status ls_run_log_add_checkpoints(ls_run_log *run, const char *path) {
    ls_store_entry *entries = NULL;
    int count = 0;
    run->has_folder = true;
    run->checkpoint_count = 0;
    ls_status status = list_checkpoints(path, &entries, &count);
    for (int i = 0; status == LS_OK && i < count; i++) {
        if (!entries[i].is_complete) continue;
        status = ls_run_log_grow(&run->checkpoints, run->checkpoint_count, sizeof *run->checkpoints);
        if (status == LS_OK) run->checkpoints[run->checkpoint_count++] = entries[i].step;
    }
    free(entries);
    return status == LS_ERR_RESOURCE ? status : LS_OK;
}

long long ls_run_log_checkpoint_before(const ls_run_log *run, long long step) {
    size_t count = run->has_folder ? run->checkpoint_count : run->save_count;
    for (size_t i = count; i-- > 0;) {
        long long saved = run->has_folder ? run->checkpoints[i] : run->saves[i].step;
        if (saved < step) return saved;
    }
    return LS_RUN_NONE;
}

/* Adds config.json or, if that is damaged, its copy; nothing if neither can be used. */
static ls_status read_config(ls_run_log *run, const char *folder) {
    char path[PATH_MAX];
    switch (ls_saved_config_find(folder, path)) {
    case LS_CONFIG_SOUND: return read_text(run, folder, LS_CONFIG_FILE, ls_run_log_add_options);
    case LS_CONFIG_OF_COPY: return read_text(run, folder, LS_CONFIG_COPY, ls_run_log_add_options);
    default: return LS_OK;
    }
}

ls_status ls_run_log_add_folder(ls_run_log *run, const char *path) {
    LS_TRY(check_folder(path));
    LS_TRY(read_config(run, path));
    LS_TRY(read_text(run, path, "identity.json", ls_run_log_add_options));
    LS_TRY(read_text(run, path, "layout.json", ls_run_log_add_layout));
    LS_TRY(read_text(run, path, "device.json", ls_run_log_add_device));
    LS_TRY(ls_run_log_add_checkpoints(run, path));
    run->is_open = ls_run_folder_is_open(path);
    return LS_OK;
}

ls_status ls_run_log_open(const char *path, ls_run_log *out) {
    ls_series *series;
    ls_run_log_init(out);
    LS_TRY(ls_series_open(path, LS_SERIES_OWN, &series));
    ls_series_take_log(series, out);
    ls_status status = read_trace(out, path);
    if (status != LS_OK) ls_run_log_free(out);
    return status;
}

enum { OPTIONS_MAX = 512 };

/* ---- options ----------------------------------------------------------------------------------------------------- */

const char *ls_run_log_option_get(const ls_run_log *run, const char *name) {
    for (size_t i = 0; i < run->option_count; i++)
        if (strcmp(run->options[i].name, name) == 0) return run->options[i].value;
    return NULL;
}

bool ls_run_option_choice(const ls_run_log *run, ls_option_id id, int *value) {
    const ls_option_info *info = ls_option_info_get(id);
    const char *word = ls_run_log_option_get(run, info->name);
    return word && ls_choice_find(info->choices, word, value);
}

double ls_run_log_option_number(const ls_run_log *run, const char *name) {
    const char *text = ls_run_log_option_get(run, name);
    if (!text || !*text) return (double)NAN;
    char *end;
    double x = strtod(text, &end);
    return *end || !isfinite(x) ? (double)NAN : x;
}

/* Formats a JSON value as text; returns false if it is a list, null or such. A number of the identity may be {"f64":
 * "0x1p+0"}. */
static bool value_text(const json_t *value, char out[LS_RUN_TEXT_MAX]) {
    if (json_is_object(value)) value = json_object_get(value, "f64");
    if (json_is_string(value))
        ls_run_log_copy_text(out, LS_RUN_TEXT_MAX, json_string_value(value));
    else if (json_is_integer(value))
        snprintf(out, LS_RUN_TEXT_MAX, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, LS_RUN_TEXT_MAX, "%.17g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(out, LS_RUN_TEXT_MAX, "%s", json_is_true(value) ? "true" : "false");
    else
        return false;
    return true;
}

/* Adds each member as an option, up to OPTIONS_MAX; an option that the run already has keeps its value. */
static ls_status add_members(ls_run_log *run, json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char name[LS_RUN_NAME_MAX], text[LS_RUN_TEXT_MAX];
        ls_run_log_copy_text(name, sizeof name, key);
        if (run->option_count == OPTIONS_MAX || ls_run_log_option_get(run, name) || !value_text(value, text)) continue;
        LS_TRY(ls_run_log_grow(&run->options, run->option_count, sizeof *run->options));
        ls_run_log_option *option = &run->options[run->option_count++];
        memcpy(option->name, name, sizeof name);
        memcpy(option->value, text, sizeof text);
    }
    return LS_OK;
}

/* Parses JSON; *out is NULL if the text is malformed, which is no failure. Fails only with LS_ERR_RESOURCE. */
static ls_status load_run_json(const char *text, size_t bytes, json_t **out) {
    json_error_t error;
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*out && json_error_code(&error) == json_error_out_of_memory)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the options of a run");
    return LS_OK;
}

ls_status ls_run_log_add_options(ls_run_log *run, const char *text, size_t bytes) {
    json_t *json;
    ls_status status;
    LS_TRY(load_run_json(text, bytes, &json));
    (void)json_object_del(json, LS_CONFIG_CHECKSUM);
    json_t *fields = json_object_get(json, "fields"), *loose = json_object_get(json, "free");
    LS_TRY_OUT(add_members(run, json_is_object(fields) ? fields : json));
    if (json_is_object(loose)) LS_TRY_OUT(add_members(run, loose));
out:
    json_decref(json);
    return status;
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

/* Returns the whole number from 1 to LS_WORKERS_MAX, or 0 for any other value. */
static int64_t count_of(const json_t *json, const char *key) {
    const json_t *value = json_object_get(json, key);
    int64_t n = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;
    return n >= 1 && n <= LS_WORKERS_MAX ? n : 0;
}

/* Parses "3,2,2", one share (number of gradient groups) per replica, into run->share. If it is malformed, all are 0. */
static void read_shares(ls_run_log *run, const char *text) {
    char *end = NULL;
    for (int d = 0; d < run->dp; d++) {
        long n = text && *text >= '1' && *text <= '9' ? strtol(text, &end, 10) : 0;
        if (n < 1 || n > 1 << 16 || *end != (d + 1 < run->dp ? ',' : '\0')) {
            memset(run->share, 0, sizeof run->share);
            return;
        }
        run->share[d] = (int)n;
        text = end + 1;
    }
}

ls_status ls_run_log_add_layout(ls_run_log *run, const char *text, size_t bytes) {
    json_t *json;
    LS_TRY(load_run_json(text, bytes, &json));
    int64_t dp = count_of(json, "dp"), tp = count_of(json, "tp"), pp = count_of(json, "pp");
    if (dp && tp && pp && dp * tp * pp <= LS_WORKERS_MAX) {
        run->dp = (int)dp;
        run->tp = (int)tp;
        run->pp = (int)pp;
        run->micro = (int)count_of(json, ls_option_info_get(LS_OPT_micro_batch)->name);
        const char *schedule = json_string_value(json_object_get(json, ls_option_info_get(LS_OPT_schedule)->name));
        ls_run_log_copy_text(run->schedule, sizeof run->schedule, schedule ? schedule : "");
        read_shares(run, json_string_value(json_object_get(json, "shares")));
    }
    json_decref(json);
    return LS_OK;
}

/* ---- device ------------------------------------------------------------------------------------------------------ */

/* Copies a text member, cut and without control characters; "" if it is absent. */
static void copy_member(const json_t *json, const char *key, char out[LS_RUN_NAME_MAX]) {
    const char *text = json_string_value(json_object_get(json, key));
    ls_run_log_copy_text(out, LS_RUN_NAME_MAX, text ? text : "");
}

ls_status ls_run_log_add_device(ls_run_log *run, const char *text, size_t bytes) {
    ls_run_log_device *device = &run->device;
    json_t *json;
    char name[LS_RUN_NAME_MAX];
    LS_TRY(load_run_json(text, bytes, &json));
    *device = (ls_run_log_device){0};
    copy_member(json, "device", name);
    device->is_gpu = strncmp(name, "cuda", 4) == 0;
    copy_member(json, "gpu", device->gpu);
    copy_member(json, "matrix_unit", device->unit);
    copy_member(json, "precision", device->precision);
    device->gpus = (int)count_of(json, "gpus");
    double peak = json_number_value(json_object_get(json, "peak_flops_per_second"));
    device->peak_flops_s = peak > 0 && isfinite(peak) ? peak : 0;
    json_decref(json);
    return LS_OK;
}

enum { SAMPLES_MAX = 16 };

/* Returns how long, in microseconds, a worker waits for gradient reductions after the last action of any worker. */
static double exposed_finish_us(const ls_timeline *line, const ls_timeline_worker *w) {
    double sum = 0;
    for (size_t i = 0; i < w->count; i++) {
        const ls_trace_span *span = &w->spans[i];
        double begin = span->begin_us > line->work_end_us ? span->begin_us : line->work_end_us;
        if (span->mark == LS_MARK_FINISH && span->end_us > begin) sum += span->end_us - begin;
    }
    return sum;
}

/* Adds busy time (inside actions, without waits) and waiting time (the rest of the work phase, and waits for
 * reductions) of each worker, and to run->device the idle time of each worker's first GPU queue. */
static ls_status add_traced_step(ls_run_log *run, const ls_timeline *line) {
    float busy[LS_WORKERS_MAX], wait[LS_WORKERS_MAX];
    double work_us = line->work_end_us - line->work_begin_us;
    for (int r = 0; r < line->workers; r++) {
        const ls_timeline_worker *w = &line->worker[r];
        busy[r] = (float)(w->busy * work_us / 1e3);
        wait[r] = (float)(((w->waiting + w->bubble) * work_us + exposed_finish_us(line, w)) / 1e3);
    }
    for (size_t i = 0; i < line->kernels.lanes; i++) {
        const ls_kernel_lane *lane = &line->kernels.lane[i];
        if (i > 0 && line->kernels.lane[i - 1].worker == lane->worker) continue; /* the one that computes is first */
        run->device.idle_us += lane->gaps_us;
        run->device.traced_us += line->end_us - line->begin_us;
    }
    return ls_run_log_add_usage(run, line->step, line->workers, (const float *[LS_USAGE_KINDS]){busy, wait});
}

ls_status ls_run_log_add_trace(ls_run_log *run, const char *source, const ls_trace *trace) {
    ls_timeline line;
    LS_TRY(ls_timeline_make(trace, source, 0, &line));
    int64_t first = line.first_step, last = line.last_step, count;
    ls_timeline_free(&line);
    if (__builtin_sub_overflow(last, first, &count) || count < 0 || count > INT32_MAX)
        return ls_fail(LS_ERR_INPUT, "%s: steps %lld to %lld cannot belong to one run", source, (long long)first,
                       (long long)last);
    count++;
    int64_t samples = count < SAMPLES_MAX ? count : SAMPLES_MAX;
    run->usage_of_trace = true;
    for (int64_t i = 0; i < samples; i++) {
        /* The middle of part i of the steps; a step in between that is not whole is no loss. */
        int64_t step = first + (2 * i + 1) * count / (2 * samples);
        ls_status status = ls_timeline_make(trace, source, step, &line);
        if (status == LS_ERR_RESOURCE) return status;
        if (status != LS_OK) continue;
        status = add_traced_step(run, &line);
        ls_timeline_free(&line);
        LS_TRY(status);
    }
    return LS_OK;
}
