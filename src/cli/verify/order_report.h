/* order_report.h: what `lockstep verify --order` prints and draws. */
#ifndef LS_CLI_VERIFY_ORDER_REPORT_H
#define LS_CLI_VERIFY_ORDER_REPORT_H

#include <jansson.h>

#include "cli/verify/case.h"
#include "report/order_chart.h"

/* The words below the tables. */
const char *ls_order_explanation(void);

void ls_order_print_head(const ls_verify_case *one);
void ls_order_print_row(const ls_order_case *done, int way);
/* Behind the rows of a case: the hashes of our own. */
void ls_order_print_hash(const ls_order_case *done);

/* New references; NULL: no memory. */
json_t *ls_order_case_json(const ls_verify_case *one);
json_t *ls_order_row_json(const ls_order_case *done, int way);

#endif
