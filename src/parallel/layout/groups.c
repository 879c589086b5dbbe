/* groups.c: how many gradient groups each dp row has. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/parts.h"

/* One group after the other goes to the row that would be done with it first: no other division ends earlier. */
void ls_layout_share_by_speed(const double *speeds, int rows, int n, int *share) {
    for (int d = 0; d < rows; d++) share[d] = 1;
    for (int given = rows; given < n; given++) {
        int next = 0;
        for (int d = 1; d < rows; d++)
            if ((share[d] + 1) / speeds[d] < (share[next] + 1) / speeds[next]) next = d;
        share[next]++;
    }
}

static ls_status by_speed(const double *speeds, const ls_layout_task *task, ls_layout *layout) {
    for (int d = 0; d < layout->dp; d++)
        if (!(speeds[d] > 0) || !isfinite(speeds[d]))
            return ls_fail(
                LS_ERR_INPUT,
                "--shares auto: the measured speed of data-parallel replica %d is %g; set the shares by hand", d,
                speeds[d]);
    ls_layout_share_by_speed(speeds, layout->dp, task->G, layout->share);
    return LS_OK;
}

static ls_status by_hand(const char *shares, const ls_layout_task *task, ls_layout *layout) {
    int count;
    LS_TRY(ls_layout_list_parse(
        "--shares", shares,
        "auto, or the number of gradient groups of each data-parallel replica, at least 1 each, e.g. 3,2,2",
        LS_WORKERS_MAX, layout->share, &count));
    if (count == layout->dp) return ls_layout_check_shares(layout, task);
    char use[32] = "";
    if (count <= task->G) snprintf(use, sizeof use, "use --dp %d, or ", count);
    return ls_fail(LS_ERR_INPUT, "--shares %.*s lists %d share%s, but --dp is %d: %suse %d share%s", LS_LAYOUT_SHOWN,
                   shares, count, count == 1 ? "" : "s", layout->dp, use, layout->dp, layout->dp == 1 ? "" : "s");
}

ls_status ls_layout_divide_groups(const char *shares, const double *speeds, const ls_layout_task *task,
                                  ls_layout *layout) {
    bool is_auto = shares && strcmp(shares, "auto") == 0;
    if (shares && !is_auto) return by_hand(shares, task, layout);
    if (is_auto && speeds) return by_speed(speeds, task, layout);
    for (int d = 0; d < layout->dp; d++)
        layout->share[d] =
            (int)(ls_slice_begin((size_t)task->G, layout->dp, d + 1) - ls_slice_begin((size_t)task->G, layout->dp, d));
    return LS_OK;
}
