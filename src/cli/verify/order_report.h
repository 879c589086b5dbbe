/* order_report.h: what `lockstep verify --order` prints and draws. */
#ifndef LS_CLI_VERIFY_ORDER_REPORT_H
#define LS_CLI_VERIFY_ORDER_REPORT_H

#include <jansson.h>

#include "cli/verify/case.h"
#include "lab/verify/sum_orders_run.h"

/* One way of adding, against the one that it is compared with. */
typedef struct ls_order_result {
    ls_order_way way;
    ls_order_difference grad;   /* after the first step */
    ls_order_difference weight; /* after the last */
    int64_t first_bits, first_seen;
    ls_verify_hash weights;
    double *loss; /* [steps] */
} ls_order_result;

typedef struct ls_order_case {
    char model[64];
    int64_t steps;
    int ways;
    ls_order_result result[LS_ORDER_WAYS_MAX];
    json_t *json;
} ls_order_case;

enum { LS_ORDER_CASES_MAX = 8 };

/* The words below the tables. */
const char *ls_order_explanation(void);

void ls_order_print_head(const ls_verify_case *one);
void ls_order_print_row(const ls_order_case *done, int way);
/* Behind the rows of a case: the hashes of our own. */
void ls_order_print_hash(const ls_order_case *done);

/* The name of a way among its like, with its workers: "ring, 4 workers". */
void ls_order_way_text(const ls_order_way *way, char *text, size_t room);

/* New references; NULL: no memory. */
json_t *ls_order_case_json(const ls_verify_case *one);
json_t *ls_order_row_json(const ls_order_case *done, int way);

/* |loss − loss of the base| of every case. */
ls_status ls_order_draw(const ls_order_case *cases, int count, const char *path);

#endif
