/* make.h: the parts of ls_layout_make() and ls_layout_check(); for the files of this folder. Failures are LS_ERR_INPUT
 * with the message for the user, or LS_ERR_RESOURCE. */
#ifndef LS_PARALLEL_LAYOUT_MAKE_H
#define LS_PARALLEL_LAYOUT_MAKE_H

#include "parallel/layout/layout.h"

/* How much of a user's text a message repeats. */
enum { LS_LAYOUT_SHOWN = 80 };

/* Check a layout. Each function requires that the ones before it passed. `request` tells which option gave dp; NULL:
 * --dp. */
ls_status ls_layout_check_parts(const ls_layout *layout, const ls_layout_task *task);
ls_status ls_layout_check_dp(const ls_layout *layout, const ls_layout_task *task, const ls_layout_request *request);
ls_status ls_layout_check_schedule(const ls_layout *layout, const ls_layout_task *task);
ls_status ls_layout_check_shares(const ls_layout *layout, const ls_layout_task *task);

/* Sets chunk_first from the option --stages; NULL: by cost. */
ls_status ls_layout_divide_blocks(const char *stages, const ls_layout_task *task, ls_layout *layout);
/* Sets share from the option --shares, or from speeds. */
ls_status ls_layout_divide_groups(const char *shares, const double *speeds, const ls_layout_task *task,
                                  ls_layout *layout);

/* Parses "5,4,4": 1 … max numbers ≥ 1. Its message names `flag` and says that it must be `wanted`. */
ls_status ls_layout_list_parse(const char *flag, const char *text, const char *wanted, int max, int *numbers,
                               int *count);

#endif
