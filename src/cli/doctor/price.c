/* price.c: predicts the step time of other layouts for a run from what the run itself measured.
 *
 * The run stands for the machine: how long a worker computes, waits for bytes and is idle in a step. What the layouts
 * differ in comes from the dry run, which needs no machine: bytes of a step, and the simulated schedule
 * (run/dry_run.h). With n workers now and m then, the parts of a step scale so:
 *
 *     computing   the same work in all: × n/m for each worker
 *     network     in proportion to the bytes that one worker sends
 *     bubble      computing × b/(1 − b), b from the simulated schedule, × measured over simulated bubble of this run
 *     imbalance   as computing, if there is more than one worker
 *     input       as computing
 *     host        as it is
 *
 * No layout changes a bit of the result, so the layout that is found may be used with --resume. */
#include "cli/doctor/price.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "base/files.h"
#include "model/model.h"
#include "run/dry_run.h"
#include "run/inputs/inputs.h"

/* A layout is advised below this share of the present time; layouts within this factor count as equally fast. */
static const double WORTH = .95, ALIKE = 1.02;
enum { FILE_BYTES_MAX = 1 << 20, TEXT_MAX = 256, CHANGES_MAX = 6 };

typedef struct layout_cost {
    ls_layout layout;
    double bytes, bubble; /* that a worker sends in a step, on average; share of the stages' time */
    double ms;            /* predicted for a step */
} layout_cost;

typedef struct pricing {
    ls_settings settings;
    ls_model *model;
    ls_layout_task task;
    ls_step_parts part;   /* now */
    double bubble_is_off; /* what the schedule's course is to be multiplied by */
    layout_cost now, best;
    int best_changes; /* knobs in which `best` differs from `now` */
} pricing;

/* ---- one layout -------------------------------------------------------------------------------------------------- */

/* Computes a layout's bytes and bubble by a dry run, and leaves ms at 0. */
static ls_status measure_layout(const pricing *p, const ls_layout *layout, layout_cost *out) {
    ls_dry_run dry;
    ls_status status = ls_dry_run_make(&p->settings, layout, &dry);
    if (status == LS_OK) {
        *out = (layout_cost){.layout = dry.layout, .bubble = ls_dry_bubble(&dry)};
        for (int a = 0; a < LS_TRAFFIC_AXES; a++)
            for (int k = 0; k < LS_TRAFFIC_KINDS; k++) out->bytes += (double)dry.traffic.of[a][k].bytes / dry.workers;
    }
    ls_dry_free(&dry);
    return status;
}

/* Returns the idle time that a bubble adds to this computing time; bubble: share of the whole. */
static double course(double computing, double bubble) { return computing * bubble / (1 - bubble); }

/* Predicts c->ms, the milliseconds of a step with this layout. */
static void price(const pricing *p, layout_cost *c) {
    double n = ls_layout_workers(&p->now.layout), m = ls_layout_workers(&c->layout), more = n / m;
    double computing = p->part.computing * more;
    c->ms = computing + p->part.input * more + p->part.host;
    c->ms += course(computing, c->bubble) * p->bubble_is_off;
    if (p->now.bytes > 0) c->ms += p->part.network * c->bytes / p->now.bytes;
    if (m > 1) c->ms += p->part.imbalance * more;
}

/* Returns in how many knobs the layouts differ. */
static int changes_of(const ls_knobs *a, const ls_knobs *b) {
    return (a->dp != b->dp) + (a->tp != b->tp) + (a->pp != b->pp) + (a->zero != b->zero) +
           (a->schedule != b->schedule) + (a->micro != b->micro);
}

/* Keeps the faster layout as p->best; among layouts of about the same speed, that with the fewest changes. Ignores the
 * present layout. */
static void keep_better_layout(pricing *p, const layout_cost *c) {
    int changes = changes_of(&c->layout.knobs, &p->now.layout.knobs);
    bool is_first = !(p->best.ms > 0);
    if (changes == 0) return;
    if (!is_first && (c->ms > p->best.ms * ALIKE || (c->ms > p->best.ms / ALIKE && changes >= p->best_changes))) return;
    p->best = *c;
    p->best_changes = changes;
}

/* Predicts one layout and keeps it if it is the best so far; skips it if it is not valid for the run. */
static void try_one(pricing *p, const ls_knobs *knobs) {
    ls_layout_request request = ls_layout_request_none();
    ls_layout layout;
    layout_cost c;
    ls_knob_give(&request, LS_KNOB_dp, knobs->dp);
    ls_knob_give(&request, LS_KNOB_tp, knobs->tp);
    ls_knob_give(&request, LS_KNOB_pp, knobs->pp);
    ls_knob_give(&request, LS_KNOB_zero, knobs->dp > 1 ? knobs->zero : 0);
    ls_knob_give(&request, LS_KNOB_schedule, knobs->schedule);
    ls_knob_give(&request, LS_KNOB_micro, (double)knobs->micro);
    if (knobs->recompute != LS_RECOMPUTE_NONE) ls_knob_give(&request, LS_KNOB_recompute, knobs->recompute);
    if (ls_layout_make(&request, &p->task, &layout) != LS_OK || measure_layout(p, &layout, &c) != LS_OK) return;
    price(p, &c);
    keep_better_layout(p, &c);
}

/* ---- those around it --------------------------------------------------------------------------------------------- */

/* Tries the micro-batch of `knobs` and, with a pipeline, its halves down to 1. */
static void try_micros(pricing *p, ls_knobs knobs) {
    size_t most = knobs.micro > 0 ? knobs.micro : 1;
    for (size_t micro = most;; micro /= 2) {
        knobs.micro = micro;
        try_one(p, &knobs);
        if (micro == 1 || knobs.pp == 1) break;
    }
}

/* Tries a mesh with every ZeRO stage and micro-batch, and 1F1B beside the run's own schedule. */
static void try_mesh(pricing *p, int dp, int tp, int pp) {
    ls_knobs knobs = p->now.layout.knobs;
    knobs.dp = dp, knobs.tp = tp, knobs.pp = pp;
    if (pp != p->now.layout.pp || knobs.virtual_stages > 1) knobs.virtual_stages = 1, knobs.schedule = LS_SCHEDULE_1F1B;
    for (int zero = 0; zero <= (dp > 1 ? 3 : 0); zero++) {
        knobs.zero = zero;
        try_micros(p, knobs);
        if (pp == 1 || knobs.schedule == LS_SCHEDULE_1F1B) continue;
        ls_knobs other = knobs;
        other.schedule = LS_SCHEDULE_1F1B;
        try_micros(p, other);
    }
}

/* Tries meshes with fewer stages or slices (tensor-parallel parts) on the same number of workers, and meshes with fewer
 * workers. */
static void try_all(pricing *p) {
    int dp = p->now.layout.dp, tp = p->now.layout.tp, pp = p->now.layout.pp;
    for (int s = pp; s >= 1; s /= 2)
        for (int t = tp; t >= 1; t /= 2) {
            try_mesh(p, dp * (pp / s) * (tp / t), t, s);
            for (int d = dp; d >= 1; d /= 2) try_mesh(p, d, t, s);
        }
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

/* Reads the run's layout.json into p->now, with its bytes and bubble. */
static ls_status read_layout(pricing *p, const char *path) {
    char file[PATH_MAX], *text;
    size_t bytes;
    json_error_t error;
    ls_layout_request request;
    ls_layout layout;
    if (snprintf(file, sizeof file, "%s/layout.json", path) >= PATH_MAX) return ls_fail(LS_ERR_INPUT, "too long");
    LS_TRY(ls_file_read(file, FILE_BYTES_MAX, &text, &bytes));
    json_t *json = json_loadb(text, bytes, 0, &error);
    free(text);
    ls_status status = ls_layout_request_from_json(file, json, &request);
    if (status == LS_OK) status = ls_layout_make(&request, &p->task, &layout);
    json_decref(json);
    if (status == LS_OK) status = measure_layout(p, &layout, &p->now);
    return status;
}

/* Reads settings, model and layout of the run in folder `path` as --resume would; `options` receives its options, which
 * the caller frees. */
static ls_status open_run(pricing *p, const char *path, ls_options *options) {
    ls_options given;
    ls_start start;
    ls_options_defaults(&given);
    ls_status status = ls_options_put(&given, LS_OPT_out, path, LS_ORIGIN_FLAG, 0);
    if (status == LS_OK) status = ls_options_put(&given, LS_OPT_resume, "true", LS_ORIGIN_FLAG, 0);
    if (status == LS_OK) status = ls_run_options_inherit(&given, options);
    ls_options_fini(&given);
    LS_TRY(status);
    LS_TRY(ls_start_look(ls_run_model_name(options), &start));
    status = ls_settings_resolve(options, &start.shape, &p->settings);
    ls_start_close(&start);
    LS_TRY(status);
    LS_TRY(ls_model_create(&p->settings.shape, p->settings.slices, &p->model));
    p->task = ls_trainer_task(&p->settings, p->model);
    return read_layout(p, path);
}

/* Calibrates the simulated bubble to the measured one, within a factor of four, because a larger deviation has other
 * causes than the schedule; then predicts the present layout. */
static void take_measured(pricing *p) {
    double expected = course(p->part.computing, p->now.bubble), off = expected > 0 ? p->part.bubble / expected : 1;
    p->bubble_is_off = off < .25 ? .25 : off > 4 ? 4 : off;
    price(p, &p->now);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Appends "--name value" to the text, with a blank in front unless it is empty. */
static void add_flag(char *text, const char *name, const char *value) {
    size_t used = strlen(text);
    snprintf(text + used, TEXT_MAX - used, "%s--%s %s", used ? " " : "", name, value);
}

/* Writes the flags that turn the present layout into the best one, such as "--tp 1 --dp 4". */
static void name_changes(const pricing *p, char text[TEXT_MAX]) {
    static const ls_knob shown[CHANGES_MAX] = {LS_KNOB_dp,   LS_KNOB_tp,       LS_KNOB_pp,
                                               LS_KNOB_zero, LS_KNOB_schedule, LS_KNOB_micro};
    text[0] = '\0';
    for (int i = 0; i < CHANGES_MAX; i++) {
        double value = ls_knob_get(&p->best.layout.knobs, shown[i]);
        const char *word = ls_knob_value_name(shown[i], (int)value);
        char number[32];
        snprintf(number, sizeof number, "%.0f", value);
        if (value != ls_knob_get(&p->now.layout.knobs, shown[i]))
            add_flag(text, ls_knob_name(shown[i]), word ? word : number);
    }
}

/* Writes the sentence of advice: flags, predicted time, gain, and the present layout. */
static void describe_faster_layout(const pricing *p, char *text, size_t capacity) {
    char flags[TEXT_MAX], was[TEXT_MAX], fewer[64] = "";
    name_changes(p, flags);
    ls_layout_text(&p->now.layout, was, sizeof was);
    int n = ls_layout_workers(&p->now.layout), m = ls_layout_workers(&p->best.layout);
    if (m < n) snprintf(fewer, sizeof fewer, " with %d worker%s instead of %d", m, m == 1 ? "" : "s", n);
    snprintf(
        text, capacity,
        "%s: about %.3g ms a step instead of %.3g%s, %.2f times as fast, by this run's own times and the planner's "
        "traffic and schedule (now %.120s); no bit of the result changes",
        flags, p->best.ms, p->part.all, fewer, p->part.all / p->best.ms, was);
}

bool ls_doctor_price(const char *path, const ls_step_parts *parts, char *text, size_t capacity) {
    ls_options options;
    bool found = false;
    pricing *p = calloc(1, sizeof *p);
    if (!p) return false;
    p->part = *parts;
    ls_options_defaults(&options);
    if (open_run(p, path, &options) == LS_OK && ls_layout_workers(&p->now.layout) == parts->workers) {
        take_measured(p);
        try_all(p);
        found = p->best.ms > 0 && p->best.ms < WORTH * parts->all;
        if (found) describe_faster_layout(p, text, capacity);
    }
    ls_model_destroy(p->model);
    ls_options_fini(&options);
    free(p);
    return found;
}
