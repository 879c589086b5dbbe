/* cmd_verify.c: `lockstep verify` trains a few steps under many layouts and compares every bit with one worker. */
#include <stdlib.h>
#include <string.h>

#include "api/run.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "run/inputs/inputs.h"

/* Results for --json: `cases`, a list of models (owned), and `rows`, the list of layouts inside the last one
 * (borrowed). */
typedef struct session {
    const ls_options *opts;
    json_t *cases, *rows;
} session;

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static const char *const verdicts[] = {
    [LS_VERDICT_EQUAL] = "ok", [LS_VERDICT_DIFFERS] = "DIFFERS", [LS_VERDICT_FAILED] = "FAILED"};

/* Prints a layout's row: workers, hash of the weights, time, traffic, and whether it equals one worker. */
static void print_layout_row(const ls_verify_result *r) {
    printf("%7d  %-32s  %8.3f  %10s  %-7s  %s\n", r->workers, r->totals.weights.text, r->totals.seconds,
           ls_cli_bytes(r->totals.traffic_bytes).text, verdicts[r->verdict], r->layout);
    fflush(stdout);
}

/* Prints a model, its losses on one worker (`alone`), the head of the table, and that worker's row. */
static void print_case(const char *device, const ls_lab_model *c, const ls_verify_record *alone) {
    const ls_settings *s = &c->settings;
    ls_verify_result one = {.layout = "one worker", .workers = 1, .totals = *alone->totals};
    printf(
        "%s: %zu parameters, %zu layers, vocabulary %zu, %s; %lld step%s of %zu × %zu tokens, %d groups, %d slices\n",
        s->shape.name, ls_model_elems(c->model), s->shape.L, s->shape.V, s->shape.tied ? "tied" : "untied",
        (long long)c->steps, c->steps == 1 ? "" : "s", s->B, s->T, s->groups, s->slices);
    ls_cli_print_device(device, s->policy.unit);
    printf("loss %a … %a\n\n", alone->loss[0], alone->loss[c->steps - 1]);
    printf("%7s  %-32s  %8s  %10s  %-7s  %s\n", "workers", "weights (xxh128)", "time s", "traffic", "", "layout");
    print_layout_row(&one);
}

/* Prints how many layouts were equal, different and failed, and the time that it took. */
static void print_counts(const ls_verify_outcome *n) {
    int minutes = (int)(n->seconds / 60);
    printf("\n%d layout%s in %d min %04.1f s: ", n->rows, n->rows == 1 ? "" : "s", minutes, n->seconds - 60 * minutes);
    if (n->different + n->failed == 0)
        printf("every loss, gradient and weight is bit-identical to one worker");
    else
        printf("%d are bit-identical to one worker, %d differ, %d failed", n->rows - n->different - n->failed,
               n->different, n->failed);
    if (n->before > 0) printf("; %d were verified before", n->before);
    putchar('\n');
}

/* Returns a new object for a model with the results of one worker and an empty list "rows"; NULL: out of memory. */
static json_t *case_json(const ls_lab_model *c, const ls_verify_record *alone) {
    const ls_settings *s = &c->settings;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:o, s:s, s:f, s:[]}", "model", s->shape.name, "parameters",
                     (json_int_t)ls_model_elems(c->model), "steps", (json_int_t)c->steps, "global_batch",
                     (json_int_t)s->B, "seq", (json_int_t)s->T, "groups", s->groups, "slices", s->slices, "loss_hex",
                     json_sprintf("%a", alone->loss[c->steps - 1]), "weights_xxh128", alone->totals->weights.text,
                     "seconds", alone->totals->seconds, "rows");
}

/* Prints all results as JSON; keeps the caller's reference to `cases`. */
static ls_status print_verify_json(json_t *cases, const ls_verify_outcome *n) {
    return ls_cli_print_json_lines(json_pack("{s:O, s:i, s:i, s:i, s:i, s:f}", "models", cases, "layouts", n->rows,
                                             "before", n->before, "different", n->different, "failed", n->failed,
                                             "seconds", n->seconds));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Shows which layout is trained now. A callback of ls_verify_run(). */
static void on_start(void *ctx, const char *model, int row, int rows, const char *layout) {
    (void)ctx;
    ls_cli_progress("%s, layout %d of %d: %.80s", model, row, rows, layout);
}

/* Prints and records a model when its reference, the run on one worker, is finished. A callback of ls_verify_run(); ctx
 * is the session. */
static ls_status on_case(void *ctx, const ls_lab_model *one, const ls_verify_record *alone) {
    session *s = ctx;
    ls_cli_progress_end();
    if (!s->opts->json) {
        if (json_array_size(s->cases) > 0) putchar('\n');
        print_case(s->opts->device, one, alone);
    }
    json_t *json = case_json(one, alone);
    s->rows = json_object_get(json, "rows");
    if (!json || json_array_append_new(s->cases, json) != 0) return ls_fail(LS_ERR_RESOURCE, "out of memory for JSON");
    return LS_OK;
}

/* Prints and records a layout when it has been compared; borrows `row`. A callback of ls_verify_run(); ctx is the
 * session. */
static ls_status on_row(void *ctx, const ls_verify_result *result, json_t *row) {
    const session *s = ctx;
    ls_cli_progress_end();
    if (!s->opts->json) print_layout_row(result);
    return json_array_append(s->rows, row) == 0 ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a row");
}

/* Verifies and prints. Fails with the status of the outcome if any layout differs or fails; on all ranks but 0 with
 * LS_ERR_PEER, which is silent. */
static ls_status run_verify(session *s) {
    ls_verify_fault fault;
    ls_verify_request request = {.on_start = on_start, .on_case = on_case, .on_row = on_row, .ctx = s};
    ls_verify_outcome outcome;
    bool first = ls_launcher_place().rank == 0;
    LS_TRY(ls_verify_request_read(s->opts, &fault, &request));
    s->cases = json_array();
    if (!s->cases) return ls_fail(LS_ERR_RESOURCE, "out of memory for JSON");
    LS_TRY(ls_verify_run(&request, &outcome));
    if (first && s->opts->json) LS_TRY(print_verify_json(s->cases, &outcome));
    if (first && !s->opts->json) print_counts(&outcome);
    if (outcome.status == LS_OK) return LS_OK;
    return ls_fail(first ? outcome.status : LS_ERR_PEER, "%s", outcome.message);
}

/* Runs `lockstep verify`, or verify --order. LS_ERR_FAILED if any layout's bits differ from those of one worker. */
ls_status ls_cmd_verify(const ls_options *opts) {
    session s = {.opts = opts};
    ls_workers_options workers;
    LS_TRY(ls_workers_options_from(opts, &workers));
    /* More workers than cores are wanted here. */
    if (opts->source[LS_OPT_log_level].origin == LS_ORIGIN_DEFAULT) ls_log_set_level(LS_LOG_ERROR);
    if (opts->order) return ls_cmd_verify_order(opts);
    if (opts->unit) return ls_cmd_verify_unit(opts);
    ls_status status = run_verify(&s);
    ls_cli_progress_end();
    json_decref(s.cases);
    return status;
}
