/* report.h: what `lockstep verify` prints: a table for people, or one JSON object. */
#ifndef LS_CLI_VERIFY_REPORT_H
#define LS_CLI_VERIFY_REPORT_H

#include <jansson.h>

#include "cli/verify/case.h"
#include "lab/verify/trial.h"

enum { LS_VERIFY_LAYOUT_MAX = 256 };

typedef enum ls_verify_verdict { LS_VERDICT_EQUAL, LS_VERDICT_DIFFERS, LS_VERDICT_FAILED } ls_verify_verdict;

typedef struct ls_verify_result {
    char layout[LS_VERIFY_LAYOUT_MAX];
    int workers;
    ls_verify_verdict verdict;
    ls_verify_totals totals;
} ls_verify_result;

typedef struct ls_verify_counts {
    int rows, before; /* compared now; found equal by an earlier run */
    int different, failed;
    double seconds;
} ls_verify_counts;

/* The model, what is done with it, and the row of one worker. */
void ls_verify_print_case(const ls_verify_case *one, const ls_verify_record *alone);
void ls_verify_print_row(const ls_verify_result *result);
void ls_verify_print_counts(const ls_verify_counts *counts);

/* New references; NULL: no memory. The row is also a line of the journal. */
json_t *ls_verify_case_json(const ls_verify_case *one, const ls_verify_record *alone);
json_t *ls_verify_row_json(const ls_verify_case *one, const ls_verify_record *alone, const ls_verify_result *result);
ls_status ls_verify_print_json(json_t *cases, const ls_verify_counts *counts);

/* A line on a terminal that the next one replaces; `total` 0 takes it away. */
void ls_verify_progress(const char *model, int row, int total, const char *layout);

#endif
