/* make.h: making and checking a layout, piece by piece; for the files of this folder. */
#ifndef LS_PARALLEL_LAYOUT_MAKE_H
#define LS_PARALLEL_LAYOUT_MAKE_H

#include "parallel/layout/layout.h"

/* How much of a user's text a message repeats. */
enum { LS_LAYOUT_SHOWN = 80 };

/* Each needs those before it. `request` tells how dp was asked for; NULL: by --dp. */
ls_status ls_layout_check_parts(const ls_layout *layout, const ls_layout_task *task);
ls_status ls_layout_check_dp(const ls_layout *layout, const ls_layout_task *task, const ls_layout_request *request);
ls_status ls_layout_check_schedule(const ls_layout *layout, const ls_layout_task *task);
ls_status ls_layout_check_shares(const ls_layout *layout, const ls_layout_task *task);

/* Sets chunk_first; `stages` as in the request, NULL: by cost. */
ls_status ls_layout_divide_blocks(const char *stages, const ls_layout_task *task, ls_layout *layout);
/* Sets share; as in the request. */
ls_status ls_layout_divide_groups(const char *shares, const double *speeds, const ls_layout_task *task,
                                  ls_layout *layout);

/* "5,4,4", cut off where there is no more room; and back: 1 … max numbers ≥ 1. Messages
 * say `flag` and what is `wanted` behind "must be". */
ls_status ls_layout_list_parse(const char *flag, const char *text, const char *wanted, int max, int *numbers,
                               int *count);

#endif
