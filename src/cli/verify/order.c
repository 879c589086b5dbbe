/* order.c: every way of adding trains the same steps, in workers of its own, one after the other. */
#include "cli/verify/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/verify/order_report.h"
#include "cli/verify/report.h"
#include "cli/verify/run.h"
#include "parallel/layout/layout.h"

enum { STEPS = 40 };

typedef struct session {
    const ls_options *opts;
    ls_verify_place place;
    ls_verify_fault fault, *has_fault;
    int count;
    ls_order_case cases[LS_ORDER_CASES_MAX];
    json_t *sums; /* of the case at hand; borrowed from `json` */
    json_t *json;
    char message[LS_MESSAGE_MAX]; /* of the first of our own ways that depends on workers; "": none does */
} session;

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* What belongs to layouts; a file may have been written for training. */
static ls_status check_options(const ls_options *o) {
    static const ls_option_id others[] = {LS_OPT_all, LS_OPT_quick,  LS_OPT_part,
                                          LS_OPT_out, LS_OPT_resume, LS_OPT_trace};
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        bool other = ls_layout_is_option(id) || id == LS_OPT_layout;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) other |= id == others[i];
        if (other && (o->source[id].origin == LS_ORIGIN_FLAG || o->source[id].origin == LS_ORIGIN_ENV))
            return ls_options_fail(o, id,
                                   "--order compares summation orders, not layouts, and chooses the workers: omit this "
                                   "option, or --order");
    }
    if (ls_launcher_place().size > 0)
        return ls_fail(LS_ERR_INPUT, "verify --order starts its own workers: run it without mpirun or srun");
    return o->svg ? ls_file_can_write(o->svg) : LS_OK;
}

static ls_status check_groups(const ls_options *o, int groups) {
    if (groups < 2)
        return ls_options_fail(o, LS_OPT_groups,
                               "a single gradient group has no order: use at least --groups 2 and a batch of 2");
    if (groups <= LS_ORDER_GROUPS_MAX) return LS_OK;
    return ls_options_fail(o, LS_OPT_groups, "--order keeps one model per group: use at most --groups %d",
                           LS_ORDER_GROUPS_MAX);
}

static ls_status read_options(session *s) {
    const ls_options *o = s->opts;
    const char *fault = getenv("LS_FAULT_BITS");
    LS_TRY(check_options(o));
    if (fault) {
        if (ls_verify_fault_parse(fault, &s->fault) != LS_OK) return ls_fail_at(LS_ERR_INPUT, "LS_FAULT_BITS=");
        s->has_fault = &s->fault;
    }
    /* More workers than cores are wanted here. */
    if (o->source[LS_OPT_log_level].origin == LS_ORIGIN_DEFAULT) ls_log_set_level(LS_LOG_ERROR);
    return LS_OK;
}

/* ---- ways -------------------------------------------------------------------------------------------------------- */

static ls_status train(session *s, const ls_verify_case *one, const ls_order_way *way, ls_order_record *record) {
    ls_order_task task = {.way = *way, .record = record};
    int workers = way->kind == LS_ORDER_LOCKSTEP ? way->workers : 1;
    ls_layout_request request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_dp, workers);
    ls_verify_order order = {.job = {.settings = &one->settings,
                                     .data = ls_verify_case_data(one),
                                     .weights = one->start.weights,
                                     .steps = one->steps,
                                     .fault = s->has_fault},
                             .workers = workers,
                             .threads = (int)s->opts->threads,
                             .sums = &task};
    LS_TRY(ls_layout_make(&request, &one->task, &order.job.layout));
    return ls_verify_run(&s->place, &order);
}

static ls_status keep(const ls_order_record *record, const ls_order_record *base, ls_order_result *r) {
    size_t bytes = (size_t)record->steps * sizeof *r->loss;
    r->loss = malloc(bytes);
    if (!r->loss) return ls_fail(LS_ERR_RESOURCE, "out of memory for %lld losses", (long long)record->steps);
    memcpy(r->loss, record->loss, bytes);
    r->weights = *record->weights;
    r->grad = ls_order_compare(record->grad, base->grad, record->elems);
    r->weight = ls_order_compare(record->weight, base->weight, record->elems);
    r->first_bits = ls_order_first_bits(record->loss, base->loss, record->steps);
    r->first_seen = ls_order_first_seen(record->loss, base->loss, record->steps);
    return LS_OK;
}

static void judge_own(session *s, const ls_order_case *done, const ls_order_result *r) {
    const ls_order_result *base = &done->result[r->way.base];
    bool equal = r->grad.changed == 0 && r->weight.changed == 0 && r->first_bits == 0 &&
                 strcmp(r->weights.text, base->weights.text) == 0;
    if (r->way.kind != LS_ORDER_LOCKSTEP || equal || s->message[0]) return;
    snprintf(s->message, sizeof s->message,
             "%.60s: lockstep on %d workers differs from one worker: %zu gradients after step 1, %zu weights after "
             "step %lld; find the tensor with lockstep verify --dp %d",
             done->model, r->way.workers, r->grad.changed, r->weight.changed, (long long)done->steps, r->way.workers);
}

static ls_status report(const session *s, ls_order_case *done, int way) {
    ls_verify_progress(NULL, 0, 0, NULL);
    if (!s->opts->json) ls_order_print_row(done, way);
    if (json_array_append_new(s->sums, ls_order_row_json(done, way)) == 0) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE, "out of memory for a row");
}

static ls_status run_way(session *s, const ls_verify_case *one, ls_order_case *done, int way,
                         ls_order_record records[LS_ORDER_WAYS_MAX]) {
    ls_order_result *r = &done->result[way];
    char text[64];
    ls_order_way_text(&r->way, text, sizeof text);
    ls_verify_progress(done->model, way + 1, done->ways, text);
    LS_TRY(ls_order_record_open(one->steps, ls_model_elems(one->model), &records[way]));
    LS_TRY(train(s, one, &r->way, &records[way]));
    LS_TRY(keep(&records[way], &records[r->way.base], r));
    judge_own(s, done, r);
    bool wanted = false;
    for (int i = way; i < done->ways; i++) wanted |= done->result[i].way.base == way;
    if (!wanted) ls_order_record_close(&records[way]);
    return report(s, done, way);
}

static ls_status run_ways(session *s, const ls_verify_case *one, ls_order_case *done) {
    ls_order_record records[LS_ORDER_WAYS_MAX] = {{0}};
    ls_order_way ways[LS_ORDER_WAYS_MAX];
    ls_status status = LS_OK;
    done->ways = ls_order_ways(one->settings.groups, ways);
    for (int i = 0; i < done->ways; i++) done->result[i].way = ways[i];
    for (int i = 0; i < done->ways && status == LS_OK; i++) status = run_way(s, one, done, i, records);
    for (int i = 0; i < done->ways; i++) ls_order_record_close(&records[i]);
    return status;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static ls_status run_case(session *s, const char *name) {
    ls_order_case *done = &s->cases[s->count];
    ls_verify_case one;
    ls_status status = LS_OK;
    LS_TRY(ls_verify_case_open(s->opts, name, STEPS, &one));
    LS_TRY_OUT(check_groups(s->opts, one.settings.groups));
    snprintf(done->model, sizeof done->model, "%.60s", one.settings.shape.name);
    done->steps = one.steps;
    json_t *json = ls_order_case_json(&one);
    s->sums = json_object_get(json, "sums");
    s->count++;
    if (!json || json_array_append_new(json_object_get(s->json, "models"), json) != 0) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for JSON");
        goto out;
    }
    if (!s->opts->json) ls_order_print_head(&one);
    LS_TRY_OUT(run_ways(s, &one, done));
    if (!s->opts->json) ls_order_print_hash(done);
out:
    ls_verify_case_close(&one);
    return status;
}

static ls_status tell(session *s) {
    if (s->opts->svg) LS_TRY(ls_order_draw(s->cases, s->count, s->opts->svg));
    if (!s->opts->json) {
        printf("\n%s\n", ls_order_explanation());
        if (s->opts->svg) printf("drawn: %s\n", s->opts->svg);
        return LS_OK;
    }
    json_object_set_new(s->json, "lockstep_equal", json_boolean(!s->message[0]));
    json_object_set_new(s->json, "explanation", json_string(ls_order_explanation()));
    if (json_dumpf(s->json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0 || putchar('\n') == EOF)
        return ls_fail_errno(LS_ERR_RESOURCE, "cannot write the results to standard output");
    return LS_OK;
}

static ls_status run(session *s) {
    const char *name;
    LS_TRY(read_options(s));
    s->json = json_pack("{s:[]}", "models");
    if (!s->json) return ls_fail(LS_ERR_RESOURCE, "out of memory for JSON");
    for (int i = 0; i < LS_ORDER_CASES_MAX && ls_verify_case_name(s->opts, i, &name); i++) {
        if (i > 0 && !s->opts->json) putchar('\n');
        LS_TRY(run_case(s, name));
    }
    LS_TRY(tell(s));
    return s->message[0] ? ls_fail(LS_ERR_FAILED, "%s", s->message) : LS_OK;
}

ls_status ls_verify_show_order(const ls_options *opts) {
    session *s = calloc(1, sizeof *s);
    if (!s) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    s->opts = opts;
    s->place.options = opts;
    ls_status status = run(s);
    ls_verify_progress(NULL, 0, 0, NULL);
    for (int i = 0; i < s->count; i++)
        for (int k = 0; k < s->cases[i].ways; k++) free(s->cases[i].result[k].loss);
    json_decref(s->json);
    free(s);
    return status;
}
