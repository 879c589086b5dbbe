/* layout.h: the layout that the options of a command ask for. */
#ifndef LS_RUN_INPUTS_LAYOUT_H
#define LS_RUN_INPUTS_LAYOUT_H

#include <jansson.h>

#include "config/options.h"
#include "parallel/layout/layout.h"

/* The file that --layout names, if any, and over it the options that were given in the same place or a stronger one: a
 * flag wins over the file, and a file that a flag names wins over a --config file. Texts of the request belong to the
 * options and to *file, which the caller ends with json_decref(); it is NULL where there is no file, and on failure. */
ls_status ls_layout_request_from_options(const ls_options *o, json_t **file, ls_layout_request *out);

/* The part of the options that ls_workers_run() takes. */
ls_status ls_workers_options_from(const ls_options *options, ls_workers_options *workers);

#endif
