/* layout.c: makes a layout of what a user asked for. What was left open is filled in here; check.c reports what is
 * wrong with the result. */
#include "parallel/layout/layout.h"

#include <stdio.h>

#include "base/status.h"
#include "parallel/layout/make.h"

enum { SAID_MAX = 96 };

ls_layout ls_layout_one(const ls_layout_task *task, size_t micro) {
    ls_layout one = {.knobs = ls_knobs_neutral(), .share = {task->G}, .chunk_first = {0, task->model->nblocks}};
    one.micro = micro;
    return one;
}

/* Returns LS_ERR_INPUT if a number of workers is out of range; 0 (not given) is valid. */
static ls_status check_count(const char *flag, int count) {
    if (count >= 0 && count <= LS_WORKERS_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "--%s %d: must be between 1 and %d", flag, count, LS_WORKERS_MAX);
}

/* Returns the error for a number of workers that is no multiple of tp × pp. */
static ls_status fail_multiple(const ls_layout_request *request, const ls_layout *layout) {
    int row = layout->tp * layout->pp, below = request->workers / row * row;
    char said[SAID_MAX], use[SAID_MAX];
    if (request->launcher)
        snprintf(said, sizeof said, "%s started %d workers", request->launcher, request->workers);
    else
        snprintf(said, sizeof said, "--workers %d", request->workers);
    if (below == 0)
        snprintf(use, sizeof use, "%d", row);
    else
        snprintf(use, sizeof use, "%d or %d", below, below + row);
    return ls_fail(LS_ERR_INPUT, "%s: --tp %d × --pp %d needs %d workers per data-parallel replica: %s %s", said,
                   layout->tp, layout->pp, row, request->launcher ? "start" : "use --workers", use);
}

/* Returns the error for a number of workers that is not dp × tp × pp. */
static ls_status fail_product(const ls_layout_request *request, const ls_layout *layout) {
    int product = ls_layout_workers(layout), row = layout->tp * layout->pp;
    char use[SAID_MAX] = "";
    if (!request->launcher)
        return ls_fail(LS_ERR_INPUT,
                       "--workers %d: dp %d × tp %d × pp %d is %d workers; use --workers %d, or omit --workers",
                       request->workers, layout->dp, layout->tp, layout->pp, product, product);
    if (request->workers % row == 0) snprintf(use, sizeof use, ", or use --dp %d", request->workers / row);
    return ls_fail(LS_ERR_INPUT, "%s started %d workers, but --dp %d × tp %d × pp %d is %d: start %d%s",
                   request->launcher, request->workers, layout->dp, layout->tp, layout->pp, product, product, use);
}

/* Returns LS_ERR_INPUT if a knob that only other programs have is not neutral. */
static ls_status refuse_others(const ls_layout_request *request) {
    for (int k = 0; k < LS_KNOBS; k++) {
        const ls_knob_info *info = ls_knob_info_get((ls_knob)k);
        if (info->owner == LS_KNOB_OF_OTHERS && ls_knob_get(&request->knobs, (ls_knob)k) != info->neutral)
            return ls_fail(LS_ERR_INPUT, "%s: lockstep does not train with it, other programs do; omit it",
                           ls_knob_name((ls_knob)k));
    }
    return LS_OK;
}

/* Sets dp from the number of workers if it was left open, and checks the mesh. What is wrong for every dp is reported
 * first: a number of workers that fits it would be no help. */
static ls_status resolve_mesh(const ls_layout_request *request, const ls_layout_task *task, ls_layout *out) {
    bool open = request->workers > 0 && !ls_knob_is_given(request, LS_KNOB_dp);
    LS_TRY(check_count("workers", request->workers));
    LS_TRY(ls_layout_check_parts(out, task));
    if (open) {
        int row = out->tp * out->pp;
        if (request->workers % row != 0) return fail_multiple(request, out);
        out->dp = request->workers / row;
    }
    LS_TRY(ls_layout_check_dp(out, task, request));
    if (request->workers == 0 || ls_layout_workers(out) == request->workers) return LS_OK;
    return fail_product(request, out);
}

/* Fills in what was left open: virtual stages imply the interleaved schedule, which has 2 of them by default. */
static void resolve_schedule(const ls_layout_request *request, ls_layout *out) {
    bool given = ls_knob_is_given(request, LS_KNOB_schedule);
    if (!given && out->virtual_stages > 1) out->schedule = LS_SCHEDULE_INTERLEAVED;
    if (!ls_knob_is_given(request, LS_KNOB_virtual_stages) && out->schedule == LS_SCHEDULE_INTERLEAVED)
        out->virtual_stages = 2;
}

void ls_knob_give(ls_layout_request *request, ls_knob knob, double value) {
    ls_knob_set(&request->knobs, knob, value);
    request->given |= 1u << knob;
}

void ls_knob_leave_open(ls_layout_request *request, ls_knob knob) {
    ls_knob_set(&request->knobs, knob, ls_knob_info_get(knob)->neutral);
    request->given &= ~(1u << knob);
}

unsigned ls_layout_kept_parts(const ls_layout *layout) {
    switch (layout->recompute) {
    case LS_RECOMPUTE_FULL: return 0;
    case LS_RECOMPUTE_SELECTIVE: return LS_SAVE_ALL & ~LS_SAVE_WIDE;
    default: return LS_SAVE_ALL;
    }
}

ls_status ls_layout_make(const ls_layout_request *request, const ls_layout_task *task, ls_layout *out) {
    ls_layout layout = {.knobs = request->knobs};
    LS_TRY(refuse_others(request));
    LS_TRY(resolve_mesh(request, task, &layout));
    resolve_schedule(request, &layout);
    LS_TRY(ls_layout_check_schedule(&layout, task));
    LS_TRY(ls_layout_divide_blocks(request->stages, task, &layout));
    LS_TRY(ls_layout_divide_groups(request->shares, request->speeds, task, &layout));
    if (!ls_knob_is_given(request, LS_KNOB_zero)) layout.zero = layout.dp > 1 ? 1 : 0;
    LS_TRY(ls_layout_check(&layout, task));
    *out = layout;
    return LS_OK;
}
