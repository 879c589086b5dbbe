/* cmd_verify.c: `lockstep verify` trains a few steps under many layouts and compares every bit with one worker.
 *
 * Each row runs in workers of its own. Under mpirun or srun the rows are those with as many workers as there are, and
 * all processes go through this file together; the first one compares, prints, and tells the others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "run/inputs/layout.h"
#include "cli/verify/explain.h"
#include "cli/verify/journal.h"
#include "cli/verify/order.h"
#include "cli/verify/report.h"
#include "config/value.h"
#include "parallel/layout/layout.h"
#include "run/agree.h"

enum { WORKERS_MAX = 16, QUICK_STEPS = 3, STEPS = 10 };

typedef struct session {
    const ls_options *opts;
    ls_verify_place place;
    bool matrix; /* many layouts; otherwise the one that the options ask for */
    ls_verify_tier tier;
    int part, parts;
    ls_verify_fault fault, *has_fault;
    ls_verify_journal journal;
    ls_verify_counts counts;
    json_t *cases;
    ls_status status; /* the first difference or failure of a row */
    char message[LS_MESSAGE_MAX];
} session;

/* One case on its way. */
typedef struct comparison {
    session *session;
    ls_verify_case one;
    ls_verify_record alone, record; /* of one worker, of the row */
    ls_verify_order alone_order;
    ls_verify_row *matrix; /* many layouts, */
    int matrix_rows;
    ls_layout layout; /* or one */
    json_t *rows;     /* borrowed */
} comparison;

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* A file may have been written for training: there only flags and the environment say something about verify itself. */
static bool is_said(const ls_options *o, ls_option_id id) {
    return o->source[id].origin == LS_ORIGIN_FLAG || o->source[id].origin == LS_ORIGIN_ENV;
}

static ls_status read_part(session *s) {
    const char *text = s->opts->part, *slash = text ? strchr(text, '/') : NULL;
    int64_t part = 0, parts = 0;
    char number[16];
    s->part = s->parts = 1;
    if (!text) return LS_OK;
    bool sound = slash && (size_t)(slash - text) < sizeof number;
    if (sound) {
        memcpy(number, text, (size_t)(slash - text));
        number[slash - text] = '\0';
        sound = ls_value_parse_int(number, &part) == LS_OK && ls_value_parse_int(slash + 1, &parts) == LS_OK;
    }
    if (!sound || part < 1 || parts < part || parts > 1000000)
        return ls_options_fail(s->opts, LS_OPT_part, "must be a part and the number of parts, e.g. 2/12");
    s->part = (int)part;
    s->parts = (int)parts;
    return LS_OK;
}

/* The layout that was asked for is the matrix where any was; --quick and --all win over one from a file. */
static ls_status read_tier(session *s) {
    const ls_options *o = s->opts;
    bool tier_said = o->quick || o->all;
    if (o->quick && o->all) return ls_options_fail(o, LS_OPT_all, "--quick and --all exclude each other: omit one");
    s->tier = o->quick ? LS_VERIFY_QUICK : o->all ? LS_VERIFY_ALL : LS_VERIFY_USUAL;
    s->matrix = true;
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        if (o->source[id].origin == LS_ORIGIN_DEFAULT || !(ls_layout_is_option(id) || id == LS_OPT_layout)) continue;
        if (tier_said && is_said(o, id))
            return ls_options_fail(o, id, "--quick and --all choose the layouts: omit this option, or --quick/--all");
        if (!tier_said) s->matrix = false;
    }
    return LS_OK;
}

static ls_status read_options(session *s) {
    const ls_options *o = s->opts;
    const char *fault = getenv("LS_FAULT_BITS");
    LS_TRY(read_tier(s));
    if (o->svg) return ls_options_fail(o, LS_OPT_svg, "requires --order: add --order, or omit this option");
    LS_TRY(read_part(s));
    if (o->resume && is_said(o, LS_OPT_resume) && !is_said(o, LS_OPT_out))
        return ls_options_fail(o, LS_OPT_resume, "name the folder with the results: --out DIR");
    if (fault) {
        if (ls_verify_fault_parse(fault, &s->fault) != LS_OK) return ls_fail_at(LS_ERR_INPUT, "LS_FAULT_BITS=");
        s->has_fault = &s->fault;
    }
    /* Rows of many workers on few cores are wanted here. */
    if (o->source[LS_OPT_log_level].origin == LS_ORIGIN_DEFAULT) ls_log_set_level(LS_LOG_ERROR);
    return LS_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static bool is_stopped(ls_status status) { return status == LS_ERR_INTERRUPTED || status == LS_ERR_TERMINATED; }

/* The first one is what the command ends with. */
static void note(session *s, ls_status status, const char *model, const char *layout, const char *what) {
    if (s->status != LS_OK) return;
    s->status = status;
    snprintf(s->message, sizeof s->message, "%.48s, %.200s: %.250s", model, layout, what);
}

static ls_status explain(comparison *c, const ls_verify_order *order, ls_verify_difference d, const char *layout) {
    session *s = c->session;
    char text[LS_VERIFY_TEXT_MAX];
    ls_verify_pair pair = {.one = &c->one,
                           .alone = &c->alone_order,
                           .row = order,
                           .alone_record = &c->alone,
                           .row_record = &c->record,
                           .difference = d};
    if (s->status != LS_OK) return LS_OK;
    LS_TRY(ls_verify_explain(&s->place, &pair, text));
    note(s, LS_ERR_FAILED, c->one.settings.shape.name, layout, text);
    return LS_OK;
}

/* Of a launcher's workers the first knows. */
static ls_status compare(comparison *c, const ls_verify_order *order, ls_verify_result *result) {
    ls_world *world = c->session->place.world;
    ls_verify_difference d = {.kind = LS_VERIFY_EQUAL};
    if (ls_verify_is_first(&c->session->place)) d = ls_verify_compare(&c->alone, &c->record);
    LS_TRY(ls_agree_tell(world, &d, sizeof d));
    result->totals = *c->record.totals;
    if (d.kind == LS_VERIFY_EQUAL) return LS_OK;
    result->verdict = LS_VERDICT_DIFFERS;
    c->session->counts.different++;
    return explain(c, order, d, result->layout);
}

static ls_status report(comparison *c, const ls_verify_result *result) {
    session *s = c->session;
    if (!ls_verify_is_first(&s->place)) return LS_OK;
    ls_verify_progress(NULL, 0, 0, NULL);
    if (!s->opts->json) ls_verify_print_row(result);
    json_t *row = ls_verify_row_json(&c->one, &c->alone, result);
    if (!row) return ls_fail(LS_ERR_RESOURCE, "out of memory for a row");
    ls_status status = ls_verify_journal_add(&s->journal, row);
    if (json_array_append_new(c->rows, row) != 0 && status == LS_OK)
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a row");
    return status;
}

/* A row that cannot be run does not keep the others from it, but where the workers are the launcher's. */
static ls_status run_row(comparison *c, ls_verify_order *order, ls_verify_result *result) {
    session *s = c->session;
    order->job.record = &c->record;
    order->job.fault = s->has_fault;
    order->traced = true;
    ls_status status = ls_verify_run(&s->place, order);
    if (status == LS_OK) {
        LS_TRY(compare(c, order, result));
    } else {
        if (is_stopped(status) || s->place.world) return status;
        result->verdict = LS_VERDICT_FAILED;
        s->counts.failed++;
        note(s, status, c->one.settings.shape.name, result->layout, ls_status_message());
    }
    s->counts.rows++;
    return report(c, result);
}

static ls_verify_order order_of(const ls_verify_case *one, const ls_layout *layout, int threads) {
    return (ls_verify_order){.job = {.settings = &one->settings,
                                     .data = ls_verify_case_data(one),
                                     .weights = one->start.weights,
                                     .layout = *layout,
                                     .steps = one->steps},
                             .workers = ls_layout_workers(layout),
                             .threads = threads};
}

/* The first one of a launcher's workers has the journal. */
static ls_status was_done(comparison *c, const char *layout, bool *done) {
    session *s = c->session;
    *done = ls_verify_journal_has(&s->journal, c->one.settings.shape.name, c->alone.totals->weights.text, layout);
    s->counts.before += *done;
    return ls_agree_tell(s->place.world, done, sizeof *done);
}

/* What the text of a layout leaves out: the schedule of a single stage, and what is no part of a layout. */
static void add_rest(const ls_verify_row *row, char text[LS_VERIFY_LAYOUT_MAX]) {
    size_t used = strlen(text);
    bool one_stage = row->pp == 1;
    snprintf(text + used, LS_VERIFY_LAYOUT_MAX - used, "%s%s, %s, %d thread%s", one_stage ? ", " : "",
             one_stage ? ls_schedule_kind_name((ls_schedule_kind)row->schedule) : "", ls_verify_isa_name(row->isa),
             row->threads, row->threads == 1 ? "" : "s");
}

static ls_status run_matrix_row(comparison *c, const ls_verify_row *row, int number, int count) {
    bool done;
    ls_layout layout;
    ls_verify_result result = {.workers = row->dp * row->tp * row->pp};
    LS_TRY(ls_verify_row_layout(row, &c->one.task, &layout));
    ls_verify_order order = order_of(&c->one, &layout, row->threads);
    order.isa = row->isa;
    ls_layout_text(&layout, result.layout, sizeof result.layout);
    add_rest(row, result.layout);
    LS_TRY(was_done(c, result.layout, &done));
    if (done) return LS_OK;
    if (ls_verify_is_first(&c->session->place))
        ls_verify_progress(c->one.settings.shape.name, number, count, result.layout);
    return run_row(c, &order, &result);
}

static ls_status make_matrix(comparison *c) {
    session *s = c->session;
    ls_world *world = s->place.world;
    int launched = world ? ls_world_size(world) : 0;
    ls_verify_limits limits = {.workers_min = world ? launched : 1,
                               .workers_max = world ? launched : WORKERS_MAX,
                               .threads = world ? ls_world_threads(world) : (int)s->opts->threads,
                               .seed = (uint64_t)s->opts->seed};
    LS_TRY(ls_verify_matrix_make(&c->one.task, s->tier, &limits, &c->matrix, &c->matrix_rows));
    if (c->matrix_rows > 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "no layout of %s uses %d workers: start a different number",
                   c->one.settings.shape.name, launched);
}

/* The one layout that was asked for. */
static ls_status make_request(comparison *c) {
    session *s = c->session;
    json_t *file = NULL;
    ls_layout_request request;
    LS_TRY(ls_layout_request_from_options(s->opts, &file, &request));
    if (s->place.world) request.workers = ls_world_size(s->place.world);
    ls_status status = ls_layout_make(&request, &c->one.task, &c->layout);
    json_decref(file);
    return status;
}

/* Row i belongs to part i mod parts: large and small ones are in all parts. */
static ls_status run_matrix(comparison *c) {
    session *s = c->session;
    for (int i = s->part - 1; i < c->matrix_rows; i += s->parts)
        LS_TRY(run_matrix_row(c, &c->matrix[i], i + 1, c->matrix_rows));
    return LS_OK;
}

static ls_status run_request(comparison *c) {
    ls_verify_order order = order_of(&c->one, &c->layout, (int)c->session->opts->threads);
    ls_verify_result result = {.workers = order.workers};
    ls_layout_text(&c->layout, result.layout, sizeof result.layout);
    return run_row(c, &order, &result);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static ls_status run_alone(comparison *c) {
    session *s = c->session;
    ls_layout one = ls_layout_one(&c->one.task, c->one.settings.B);
    c->alone_order = order_of(&c->one, &one, (int)s->opts->threads);
    c->alone_order.job.record = &c->alone;
    if (ls_verify_is_first(&s->place)) ls_verify_progress(c->one.settings.shape.name, 0, 1, "one worker");
    LS_TRY(ls_verify_run(&s->place, &c->alone_order));
    if (!ls_verify_is_first(&s->place)) return LS_OK;
    ls_verify_progress(NULL, 0, 0, NULL);
    if (!s->opts->json) ls_verify_print_case(&c->one, &c->alone);
    json_t *json = ls_verify_case_json(&c->one, &c->alone);
    c->rows = json_object_get(json, "rows");
    if (!json || json_array_append_new(s->cases, json) != 0) return ls_fail(LS_ERR_RESOURCE, "out of memory for JSON");
    return LS_OK;
}

static ls_status run_case(session *s, const char *name) {
    comparison c = {.session = s};
    ls_status status = LS_OK;
    LS_TRY(ls_verify_case_open(s->opts, name, s->opts->quick ? QUICK_STEPS : STEPS, &c.one));
    int params = ls_model_params(c.one.model);
    LS_TRY_OUT(ls_verify_record_open(c.one.steps, params, &c.alone));
    LS_TRY_OUT(ls_verify_record_open(c.one.steps, params, &c.record));
    LS_TRY_OUT(s->matrix ? make_matrix(&c) : make_request(&c));
    LS_TRY_OUT(run_alone(&c));
    status = s->matrix ? run_matrix(&c) : run_request(&c);
out:
    free(c.matrix);
    ls_verify_record_close(&c.alone);
    ls_verify_record_close(&c.record);
    ls_verify_case_close(&c.one);
    return status;
}

static ls_status run_cases(session *s) {
    const ls_options *o = s->opts;
    double start = ls_clock_seconds();
    const char *name;
    for (int i = 0; ls_verify_case_name(o, i, &name); i++) {
        if (i > 0 && !o->json && ls_verify_is_first(&s->place)) putchar('\n');
        LS_TRY(run_case(s, name));
    }
    s->counts.seconds = ls_clock_seconds() - start;
    if (!ls_verify_is_first(&s->place)) return LS_OK;
    if (o->json) return ls_verify_print_json(s->cases, &s->counts);
    ls_verify_print_counts(&s->counts);
    return LS_OK;
}

static ls_status run_launched(ls_world *world, void *arg) {
    session *s = arg;
    s->place.world = world;
    return run_cases(s);
}

ls_status ls_cmd_verify(const ls_options *opts) {
    session s = {.opts = opts, .place = {.options = opts}, .journal = {.fd = -1}};
    ls_workers_options workers;
    ls_status status = LS_OK;
    LS_TRY(ls_workers_options_from(opts, &workers));
    if (opts->order) return ls_verify_show_order(opts);
    LS_TRY(read_options(&s));
    s.cases = json_array();
    if (!s.cases) return ls_fail(LS_ERR_RESOURCE, "out of memory for JSON");
    LS_TRY_OUT(ls_verify_journal_open(is_said(opts, LS_OPT_out) && ls_launcher_place().rank == 0 ? opts->out : NULL,
                                      opts->resume, &s.journal));
    workers.workers = 0;
    status = ls_launcher_place().size > 0 ? ls_workers_run(&workers, run_launched, &s) : run_cases(&s);
    if (status == LS_OK && s.status != LS_OK)
        status = ls_fail(ls_launcher_place().rank == 0 ? s.status : LS_ERR_PEER, "%s", s.message);
out:
    ls_verify_progress(NULL, 0, 0, NULL);
    ls_verify_journal_close(&s.journal);
    json_decref(s.cases);
    return status;
}
