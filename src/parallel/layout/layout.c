/* layout.c: from what a user asked for to a layout. What was left open is filled in here; what is wrong with the result
 * is said in layout_check.c. */
#include "parallel/layout/layout.h"

#include <stdio.h>

#include "base/status.h"
#include "parallel/layout/parts.h"

enum { SAID_MAX = 96 };

ls_layout ls_layout_one(const ls_layout_task *task, size_t micro) {
    return (ls_layout){.dp = 1,
                       .tp = 1,
                       .pp = 1,
                       .share = {task->G},
                       .virtual_stages = 1,
                       .chunk_first = {0, task->model->nblocks},
                       .schedule = LS_SCHEDULE_1F1B,
                       .micro = micro};
}

static ls_status check_count(const char *flag, int count) {
    if (count >= 0 && count <= LS_WORKERS_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "--%s %d: must be between 1 and %d", flag, count, LS_WORKERS_MAX);
}

/* Workers that are no multiple of what tp and pp need. */
static ls_status fail_multiple(const ls_layout_wish *wish, const ls_layout *layout) {
    int row = layout->tp * layout->pp, below = wish->workers / row * row;
    char said[SAID_MAX], use[SAID_MAX];
    if (wish->launcher)
        snprintf(said, sizeof said, "%s started %d workers", wish->launcher, wish->workers);
    else
        snprintf(said, sizeof said, "--workers %d", wish->workers);
    if (below == 0)
        snprintf(use, sizeof use, "%d", row);
    else
        snprintf(use, sizeof use, "%d or %d", below, below + row);
    return ls_fail(LS_ERR_INPUT, "%s: --tp %d × --pp %d needs %d workers per data-parallel replica: %s %s", said,
                   layout->tp, layout->pp, row, wish->launcher ? "start" : "use --workers", use);
}

/* Workers that are not dp × tp × pp. */
static ls_status fail_product(const ls_layout_wish *wish, const ls_layout *layout) {
    int product = ls_layout_workers(layout), row = layout->tp * layout->pp;
    char use[SAID_MAX] = "";
    if (!wish->launcher)
        return ls_fail(LS_ERR_INPUT,
                       "--workers %d: dp %d × tp %d × pp %d is %d workers; use --workers %d, or omit --workers",
                       wish->workers, layout->dp, layout->tp, layout->pp, product, product);
    if (wish->workers % row == 0) snprintf(use, sizeof use, ", or use --dp %d", wish->workers / row);
    return ls_fail(LS_ERR_INPUT, "%s started %d workers, but --dp %d × tp %d × pp %d is %d: start %d%s", wish->launcher,
                   wish->workers, layout->dp, layout->tp, layout->pp, product, product, use);
}

/* What cannot be whatever dp is is said first: a number of workers that fits it would be no help. */
static ls_status resolve_mesh(const ls_layout_wish *wish, const ls_layout_task *task, ls_layout *out) {
    LS_TRY(check_count("workers", wish->workers));
    LS_TRY(check_count("dp", wish->dp));
    LS_TRY(check_count("tp", wish->tp));
    LS_TRY(check_count("pp", wish->pp));
    out->dp = wish->dp > 0 ? wish->dp : 1;
    out->tp = wish->tp > 0 ? wish->tp : 1;
    out->pp = wish->pp > 0 ? wish->pp : 1;
    LS_TRY(ls_layout_check_parts(out, task));
    if (wish->workers > 0 && wish->dp == 0) {
        int row = out->tp * out->pp;
        if (wish->workers % row != 0) return fail_multiple(wish, out);
        out->dp = wish->workers / row;
    }
    LS_TRY(ls_layout_check_dp(out, task, wish));
    if (wish->workers == 0 || ls_layout_workers(out) == wish->workers) return LS_OK;
    return fail_product(wish, out);
}

static void resolve_schedule(const ls_layout_wish *wish, ls_layout *out) {
    bool interleaved = wish->schedule < 0 ? wish->virtual_stages > 1 : wish->schedule == LS_SCHEDULE_INTERLEAVED;
    out->schedule = interleaved          ? LS_SCHEDULE_INTERLEAVED
                    : wish->schedule < 0 ? LS_SCHEDULE_1F1B
                                         : (ls_schedule_kind)wish->schedule;
    out->virtual_stages = wish->virtual_stages != 0 ? wish->virtual_stages : interleaved ? 2 : 1;
}

ls_status ls_layout_make(const ls_layout_wish *wish, const ls_layout_task *task, ls_layout *out) {
    ls_layout layout = {.micro = wish->micro};
    LS_TRY(resolve_mesh(wish, task, &layout));
    resolve_schedule(wish, &layout);
    LS_TRY(ls_layout_check_schedule(&layout, task));
    LS_TRY(ls_layout_divide_blocks(wish->stages, task, &layout));
    LS_TRY(ls_layout_divide_groups(wish->shares, wish->speeds, task, &layout));
    layout.zero = wish->zero >= 0 ? wish->zero : layout.dp > 1 ? 1 : 0;
    layout.recompute = wish->recompute >= 0 ? (ls_recompute)wish->recompute : LS_RECOMPUTE_NONE;
    layout.sequence_parallel = wish->sequence_parallel > 0;
    LS_TRY(ls_layout_check(&layout, task));
    *out = layout;
    return LS_OK;
}
