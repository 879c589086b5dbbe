/* make.h: the parts of ls_layout_make() and ls_layout_check(), which turn a user's request into a layout (layout.h);
 * for the files of this folder. Failures are LS_ERR_INPUT with the message for the user, or LS_ERR_RESOURCE. */
#ifndef LS_PARALLEL_LAYOUT_MAKE_H
#define LS_PARALLEL_LAYOUT_MAKE_H

#include "parallel/layout/layout.h"

/* How much of a user's text a message repeats. */
enum { LS_LAYOUT_SHOWN = 80 };

/* Checks dp, tp and pp by themselves and against the model. To be called first of these checks. */
ls_status ls_layout_check_parts(const ls_layout *layout, const ls_layout_task *task);
/* Checks that dp is at most the number of groups. `request` tells which option gave dp, for the message; NULL: --dp. */
ls_status ls_layout_check_dp(const ls_layout *layout, const ls_layout_task *task, const ls_layout_request *request);
/* Checks the schedule and the number of virtual stages. */
ls_status ls_layout_check_schedule(const ls_layout *layout, const ls_layout_task *task);
/* Checks that each replica has at least one group, and all together have G. */
ls_status ls_layout_check_shares(const ls_layout *layout, const ls_layout_task *task);

/* Sets layout->chunk_first from the option --stages: "cost", "count" or a list; NULL: by cost. */
ls_status ls_layout_divide_blocks(const char *stages, const ls_layout_task *task, ls_layout *layout);
/* Sets layout->share from the option --shares, a list or "auto": by `speeds` of the replicas. NULL, or no speeds:
 * evenly. */
ls_status ls_layout_divide_groups(const char *shares, const double *speeds, const ls_layout_task *task,
                                  ls_layout *layout);

/* Parses "5,4,4": 1 … max numbers ≥ 1. LS_ERR_INPUT names `flag` and says that it must be `wanted`. */
ls_status ls_layout_list_parse(const char *flag, const char *text, const char *wanted, int max, int *numbers,
                               int *count);

#endif
