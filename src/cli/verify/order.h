/* order.h: `lockstep verify --order`: what the order of a sum does to training. */
#ifndef LS_CLI_VERIFY_ORDER_H
#define LS_CLI_VERIFY_ORDER_H

#include "config/options.h"

/* LS_ERR_FAILED where lockstep's own sums depend on the number of workers. */
ls_status ls_verify_show_order(const ls_options *options);

#endif
