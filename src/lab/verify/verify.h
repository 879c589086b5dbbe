/* verify.h: trains a few steps under many layouts and compares every bit with one worker.
 *
 * A row is one layout, and each row runs in new workers. Under mpirun or srun only rows with as many workers as
 * processes are run. The call is then collective: process 0 compares, invokes the callbacks and broadcasts the
 * outcome. */
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
    const ls_lab_model *one; /* model and data; NULL: those of the options */
    const ls_layout *layout; /* with `one`: the layout to compare */
    bool matrix;             /* compare many layouts; otherwise the one of the options */
    ls_verify_tier tier;
    int part, parts;              /* which part of the matrix's rows to run, from 1 on; 1 of 1: all of them */
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
    int rows, before;      /* rows run now; rows skipped because an earlier run found them equal */
    int different, failed; /* of the rows run now */
    double seconds;
    ls_status status; /* of the first row that differs (LS_ERR_FAILED) or could not be run; LS_OK: none */
    char message[LS_MESSAGE_MAX];
} ls_verify_outcome;

/* Runs and compares all rows. Returns LS_OK also if rows differ or fail: check out->status. Under a launcher a row that
 * fails ends the call with its status, because its workers cannot continue. Forks workers, so the process must not have
 * started a thread. */
ls_status ls_verify_run(const ls_verify_request *request, ls_verify_outcome *out);

#endif
