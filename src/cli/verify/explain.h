/* explain.h: what a difference is, to the element. */
#ifndef LS_CLI_VERIFY_EXPLAIN_H
#define LS_CLI_VERIFY_EXPLAIN_H

#include "cli/verify/run.h"

/* Two runs of the same case, one worker and a layout, whose records differ. */
typedef struct ls_verify_pair {
    const ls_verify_case *one;
    const ls_verify_order *alone, *row;
    const ls_verify_record *alone_record, *row_record;
    ls_verify_difference difference;
} ls_verify_pair;

enum { LS_VERIFY_TEXT_MAX = 256 };

/* "step 2: gradient of tokens.weight, element 17: … , on one worker …". Runs both again, up to that step, to fetch the
 * values. */
ls_status ls_verify_explain(const ls_verify_place *place, const ls_verify_pair *pair, char text[LS_VERIFY_TEXT_MAX]);

#endif
