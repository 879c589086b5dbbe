/* token_order.h: the rows of a call in the order of their ids. */
#ifndef LS_DEVICE_CPU_OPS_TOKEN_ORDER_H
#define LS_DEVICE_CPU_OPS_TOKEN_ORDER_H

#include "device/calls.h"

/* Writes the rows whose id is in the table, sorted by id, rows of one id ascending, and returns their number. `rows`
 * and `spare` have space for tokens->rows each. */
size_t ls_cpu_order_tokens(const ls_embed_tokens *tokens, size_t *rows, size_t *spare);

#endif
