/* verify.c: ls_verify(): reads the options of verify, and compares layouts with one worker, bit for bit (lab/verify),
 * for programs. */
#include <stdlib.h>
#include <string.h>

#include "api/run.h"
#include "config/value.h"
#include "model/model.h"

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* A config file may have been written for training, so options that come from a file say nothing about verify itself;
 * only flags and the environment do (ls_options_is_asked_for). */

/* Reads --part, such as 2/12: which part of the layouts to check, of how many; 1 of 1 without it. */
static ls_status read_part(const ls_options *o, ls_verify_request *r) {
    const char *text = o->part, *slash = text ? strchr(text, '/') : NULL;
    int64_t part = 0, parts = 0;
    char number[16];
    r->part = r->parts = 1;
    if (!text) return LS_OK;
    bool sound = slash && (size_t)(slash - text) < sizeof number;
    if (sound) {
        memcpy(number, text, (size_t)(slash - text));
        number[slash - text] = '\0';
        sound = ls_value_parse_int(number, &part) == LS_OK && ls_value_parse_int(slash + 1, &parts) == LS_OK;
    }
    if (!sound || part < 1 || parts < part || parts > 1000000)
        return ls_options_fail(o, LS_OPT_part, "must be a part and the number of parts, e.g. 2/12");
    r->part = (int)part;
    r->parts = (int)parts;
    return LS_OK;
}

/* Chooses the layouts: --quick and --all, else the one that layout options describe (r->matrix false), else the usual
 * ones. Layout options of flags or environment contradict --quick and --all. */
static ls_status read_tier(const ls_options *o, ls_verify_request *r) {
    bool tier_said = o->quick || o->all;
    if (o->quick && o->all) return ls_options_fail(o, LS_OPT_all, "--quick and --all exclude each other: omit one");
    r->tier = o->quick ? LS_VERIFY_QUICK : o->all ? LS_VERIFY_ALL : LS_VERIFY_USUAL;
    r->matrix = true;
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        if (o->source[id].origin == LS_ORIGIN_DEFAULT || !(ls_layout_is_option(id) || id == LS_OPT_layout)) continue;
        if (tier_said && ls_options_is_asked_for(o, id))
            return ls_options_fail(o, id, "--quick and --all choose the layouts: omit this option, or --quick/--all");
        if (!tier_said) r->matrix = false;
    }
    return LS_OK;
}

ls_status ls_verify_request_read(const ls_options *o, ls_verify_fault *fault, ls_verify_request *r) {
    r->options = o;
    LS_TRY(read_tier(o, r));
    if (o->svg) return ls_options_fail(o, LS_OPT_svg, "requires --order: add --order, or omit this option");
    LS_TRY(read_part(o, r));
    if (o->resume && ls_options_is_asked_for(o, LS_OPT_resume) && !ls_options_is_asked_for(o, LS_OPT_out))
        return ls_options_fail(o, LS_OPT_resume, "name the folder with the results: --out DIR");
    if (ls_options_is_asked_for(o, LS_OPT_out)) r->journal = o->out;
    return ls_verify_read_fault(fault, &r->fault);
}

ls_status ls_verify_read_fault(ls_verify_fault *fault, const ls_verify_fault **out) {
    const char *text = getenv("LS_FAULT_BITS");
    if (!text) return LS_OK;
    *out = fault;
    return ls_verify_fault_parse(text, fault) == LS_OK ? LS_OK : ls_fail_at(LS_ERR_INPUT, "LS_FAULT_BITS=");
}

/* ---- for programs ------------------------------------------------------------------------------------------------ */

/* The caller, and how many layouts it was told of. */
typedef struct listener {
    const ls_run_setup *setup;
    uint64_t done;
} listener;

/* Reports a finished layout to the caller as an event LS_RUN_VERIFIED; callback of ls_verify_run(). `row`, its JSON, is
 * not used. */
static ls_status on_row(void *ctx, const ls_verify_result *r, json_t *row) {
    static const char *const verdicts[] = {
        [LS_VERDICT_EQUAL] = "the same bits", [LS_VERDICT_DIFFERS] = "other bits", [LS_VERDICT_FAILED] = "failed"};
    listener *l = ctx;
    char text[LS_VERIFY_LAYOUT_MAX + 32];
    ls_run_event event = {.kind = LS_RUN_VERIFIED, .text = text, .done = ++l->done};
    (void)row;
    snprintf(text, sizeof text, "%s: %s", r->layout, verdicts[r->verdict]);
    return l->setup->event ? l->setup->event(l->setup->event_ctx, &event) : LS_OK;
}

/* Runs the request and reports each layout; LS_ERR_FAILED, with the first difference as the message, if one differs. */
static ls_status verify_and_report(ls_verify_request *request, const ls_run_setup *setup) {
    listener l = {.setup = setup};
    ls_verify_outcome outcome;
    request->on_row = on_row;
    request->ctx = &l;
    LS_TRY(ls_verify_run(request, &outcome));
    return outcome.status == LS_OK ? LS_OK : ls_fail(outcome.status, "%s", outcome.message);
}

/* Compares the layout of an opened run with one worker, for `steps` steps on its data. */
static ls_status verify_run(const ls_run *r, int64_t steps) {
    ls_options untraced = r->options; /* borrows all texts */
    ls_lab_model one = {.start = r->start,
                        .settings = r->settings,
                        .steps = steps,
                        .corpus = r->data.corpus,
                        .val_corpus = r->data.val_corpus,
                        .images = r->data.images,
                        .val_images = r->data.val_images,
                        .augment = r->data.augment};
    ls_verify_request request = {.options = &untraced, .one = &one, .layout = &r->layout};
    untraced.trace = NULL;
    if (r->launched || !(r->data.corpus || r->data.images))
        return ls_fail(LS_ERR_INPUT, "a layout is verified without mpirun or srun, on data");
    LS_TRY(ls_model_create(&r->settings.shape, r->settings.slices, &one.model));
    one.task = ls_trainer_task(&r->settings, one.model);
    ls_status status = verify_and_report(&request, &r->setup);
    ls_model_destroy(one.model);
    return status;
}

ls_status ls_verify(const ls_run_setup *setup, int64_t steps) {
    ls_verify_request request = {0};
    ls_verify_fault fault;
    ls_run *r = NULL;
    if (setup->options->command == LS_COMMAND_VERIFY) {
        LS_TRY(ls_verify_request_read(setup->options, &fault, &request));
        return verify_and_report(&request, setup);
    }
    if (steps < 1 || setup->options->command != LS_COMMAND_TRAIN)
        return ls_fail(LS_ERR_INPUT, "verifying takes the options of verify, or those of train and at least one step");
    LS_TRY(ls_run_open_trial(setup, &r));
    ls_status status = verify_run(r, steps);
    ls_run_close(r);
    return status;
}
