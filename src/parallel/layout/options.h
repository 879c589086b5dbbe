/* options.h: the options that say a layout. */
#ifndef LS_PARALLEL_LAYOUT_OPTIONS_H
#define LS_PARALLEL_LAYOUT_OPTIONS_H

#include "config/options.h"
#include "parallel/layout/layout.h"

/* Whether the option gives a member of a request: --dp, --shares, --micro-batch …, not --layout. */
bool ls_layout_is_option(ls_option_id id);
/* Sets the members of `request` that were given from `weakest` on, a default being weaker than all. Texts are borrowed.
 */
ls_status ls_layout_request_add(const ls_options *options, ls_option_origin weakest, ls_layout_request *request);

#endif
