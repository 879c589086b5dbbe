/* verify.h: trains a few steps under many layouts and compares every bit with one worker.
 *
 * Each row runs in workers of its own. Under mpirun or srun the rows are those with as many workers as there are, and
 * all processes make the call together; the first one compares, tells the caller, and tells the others. */
#ifndef LS_LAB_VERIFY_VERIFY_H
#define LS_LAB_VERIFY_VERIFY_H

#include <jansson.h>

#include "lab/verify/matrix.h"
#include "lab/verify/steps.h"

enum { LS_VERIFY_LAYOUT_MAX = 256 };

typedef enum ls_verify_verdict { LS_VERDICT_EQUAL, LS_VERDICT_DIFFERS, LS_VERDICT_FAILED } ls_verify_verdict;

typedef struct ls_verify_result {
    char layout[LS_VERIFY_LAYOUT_MAX];
    int workers;
    ls_verify_verdict verdict;
    ls_verify_totals totals;
} ls_verify_result;

typedef struct ls_verify_request {
    const ls_options *options;
    const ls_lab_model *one; /* what is trained; NULL: what the options say */
    const ls_layout *layout; /* of `one`: what is compared */
    bool matrix;             /* many layouts; otherwise the one that the options ask for */
    ls_verify_tier tier;
    int part, parts;              /* of the rows of the matrix; 1 of 1: all of them */
    const ls_verify_fault *fault; /* planted in every row; NULL: none */
    const char *journal;          /* folder for the results, or NULL */
    /* Called in the first process only: before a run, `row` 0 of 1 for that of one worker; after that of one worker;
     * and after each row, with the line of the journal. The first two may be NULL. */
    void (*on_start)(void *ctx, const char *model, int row, int rows, const char *layout);
    ls_status (*on_case)(void *ctx, const ls_lab_model *one, const ls_verify_record *alone);
    ls_status (*on_row)(void *ctx, const ls_verify_result *result, json_t *row);
    void *ctx;
} ls_verify_request;

typedef struct ls_verify_outcome {
    int rows, before; /* compared now; found equal by an earlier run */
    int different, failed;
    double seconds;
    ls_status status; /* of the first row that differs (LS_ERR_FAILED) or could not be run; LS_OK: none */
    char message[LS_MESSAGE_MAX];
} ls_verify_outcome;

/* LS_OK where all rows ran or failed by themselves: the outcome tells. Starts workers: no thread may have been
 * started. */
ls_status ls_verify_run(const ls_verify_request *request, ls_verify_outcome *out);

#endif
