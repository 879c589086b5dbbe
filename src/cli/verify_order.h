/* verify_order.h: what the two halves of `lockstep verify` share. */
#ifndef LS_CLI_VERIFY_ORDER_H
#define LS_CLI_VERIFY_ORDER_H

#include "lab/verify/steps.h"

/* `lockstep verify --order`: what the order of a sum does to training. LS_ERR_FAILED where lockstep's own sums depend
 * on the number of workers. */
ls_status ls_verify_show_order(const ls_options *options);

/* The fault of LS_FAULT_BITS, for tests; *out is left alone where there is none. Quiets the warning of more workers
 * than cores. */
ls_status ls_verify_read_fault(const ls_options *options, ls_verify_fault *fault, const ls_verify_fault **out);

#endif
