/* facts.c: computes the figures of a run from its records. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/run/view.h"

enum { LAST = 100, WINDOW_MAX = 50, WINDOW_SHARE = 10 };

/* Orders numbers. A callback of qsort(). */
static int compare_doubles(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* Returns the median of a value over the last 100 steps; NaN if none recorded it. */
static double median(const ls_run_log *log, double (*get)(const ls_run_log_step *step)) {
    double values[LAST];
    int count = 0;
    size_t from = log->step_count > LAST ? log->step_count - LAST : 0;
    for (size_t i = from; i < log->step_count; i++) {
        double value = get(&log->steps[i]);
        if (isfinite(value)) values[count++] = value;
    }
    if (count == 0) return (double)NAN;
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Returns the tokens (or images) per second of a step. */
static double speed_of(const ls_run_log_step *s) { return s->tokens_s; }
/* Returns the MFU of a step, as a share of 1. */
static double mfu_of(const ls_run_log_step *s) { return s->mfu; }
static double seconds_of(const ls_run_log_step *s) { return s->ms / 1e3; }

/* Computes trained time, wall time, goodput and tokens; goodput is NaN if the records contradict each other. */
static void find_times(const ls_run_log *log, ls_view_facts *f) {
    long long first = log->start_count > 0 ? log->starts[0].unix_ms : LS_RUN_NONE, last = LS_RUN_NONE;
    f->trained_s = f->tokens = 0;
    for (size_t i = 0; i < log->step_count; i++) {
        const ls_run_log_step *s = &log->steps[i];
        if (isfinite(s->ms)) f->trained_s += s->ms / 1e3;
        if (isfinite(s->ms) && isfinite(s->tokens_s)) f->tokens += s->tokens_s * s->ms / 1e3;
        if (s->unix_ms > last) last = s->unix_ms;
    }
    for (size_t i = 0; i < log->validation_count; i++)
        if (log->validations[i].unix_ms > last) last = log->validations[i].unix_ms;
    f->wall_s = first > 0 && last > first ? (double)(last - first) / 1e3 : (double)NAN;
    f->goodput = f->wall_s > 0 && f->trained_s <= f->wall_s * 1.001 ? f->trained_s / f->wall_s : (double)NAN;
}

/* Computes the losses; skipped steps do not count in the mean. */
static void find_losses(const ls_run_log *log, ls_view_facts *f) {
    double sum = 0;
    int count = 0;
    size_t window = log->step_count / WINDOW_SHARE;
    if (window > WINDOW_MAX) window = WINDOW_MAX;
    if (window < 1) window = log->step_count > 0;
    f->train_window = (int)window;
    f->last_loss = window > 0 ? log->steps[log->step_count - 1].loss : (double)NAN;
    f->loss = f->best_loss = (double)NAN;
    f->best_step = LS_RUN_NONE;
    for (size_t i = log->step_count - window; i < log->step_count; i++)
        if (!log->steps[i].skipped) sum += log->steps[i].loss, count++;
    f->train_loss = count > 0 ? sum / count : (double)NAN;
    for (size_t i = 0; i < log->validation_count; i++) {
        const ls_run_log_validation *v = &log->validations[i];
        if (isfinite(v->loss)) f->loss = v->loss;
        if (isfinite(v->loss) && !(v->loss >= f->best_loss)) {
            f->best_loss = v->loss;
            f->best_step = v->step;
        }
    }
}

/* Writes "gpt2-124m" as "GPT-2 124M (gpt2-124m)"; any other name, such as a file, stays. */
static void name_model(const char *name, char *out, size_t room) {
    static const struct {
        const char *begin, *family;
    } families[] = {{"gpt2-", "GPT-2 "}, {"gpt3-", "GPT-3 "},         {"llama-", "Llama "},     {"lenet", "LeNet"},
                    {"mlp", "MLP"},      {"resnet18-", "ResNet-18 "}, {"resnet18", "ResNet-18"}};
    char text[LS_RUN_NAME_MAX];
    ls_run_log_copy_text(text, sizeof text, name);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        size_t length = strlen(families[i].begin), end = strlen(text);
        if (strncmp(text, families[i].begin, length) != 0 || strpbrk(text, "/\\") || ls_ends_with(text, ".json") ||
            ls_ends_with(text, ".yaml") || ls_ends_with(text, ".yml"))
            continue;
        bool is_size = end > length && isdigit((unsigned char)text[length]) && strchr("mb", text[end - 1]);
        (void)snprintf(out, room, "%s%.*s%s (%s)", families[i].family, (int)(end - length - is_size), text + length,
                       !is_size               ? ""
                       : text[end - 1] == 'm' ? "M"
                                              : "B",
                       text);
        return;
    }
    (void)snprintf(out, room, "%s", text);
}

void ls_view_facts_find(const ls_run_log *log, ls_view_facts *f) {
    double planned = ls_run_log_option_number(log, "steps");
    const char *preset = ls_run_log_option_get(log, "preset"), *model = ls_run_log_option_get(log, "model");
    *f = (ls_view_facts){.steps = planned > 0 ? (long long)planned : 0, .sessions = (int)log->start_count};
    f->step = log->step_count > 0 ? log->steps[log->step_count - 1].step : 0;
    find_losses(log, f);
    find_times(log, f);
    f->speed = median(log, speed_of);
    f->mfu = median(log, mfu_of);
    f->step_s = median(log, seconds_of);
    for (size_t i = 0; i < log->start_count; i++) f->restarts += log->starts[i].restart > 0;
    bool done = f->steps > 0 && f->step >= f->steps;
    f->state = log->is_open ? "training" : done ? "finished" : log->stopped ? "stopped" : "ended early";
    f->eta_s =
        log->is_open && f->steps > f->step && f->step_s > 0 ? (double)(f->steps - f->step) * f->step_s : (double)NAN;
    /* The options of a fork name none: its model is that of the checkpoint. */
    if (!model) model = log->start_count > 0 ? log->starts[log->start_count - 1].model : "";
    name_model(preset && *preset ? preset : model, f->model, sizeof f->model);
    if (log->dp > 0) snprintf(f->layout, sizeof f->layout, "dp %d × tp %d × pp %d", log->dp, log->tp, log->pp);
}
