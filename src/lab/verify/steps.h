/* steps.h: trains the steps of a trial, records hashes of every gradient and weight, and compares two records.
 *
 * The record has the loss of each step, a hash of every gradient of each step, a hash of every weight after the last
 * step, and the validation loss at that step. It is in shared memory (lab/trial.h): the caller opens it before the
 * trial starts workers, worker 0 fills it, and the caller reads and closes it.
 *
 *     ls_verify_record_open → trial: ls_verify_steps in every worker → ls_verify_compare → ls_verify_record_close */
#ifndef LS_LAB_VERIFY_STEPS_H
#define LS_LAB_VERIFY_STEPS_H

#include "lab/trial.h"

typedef struct ls_verify_hash {
    char text[LS_HASH_TEXT_BYTES];
} ls_verify_hash;

typedef struct ls_verify_totals {
    ls_verify_hash weights; /* one hash of all weights */
    double validation;      /* validation loss; NaN without validation data */
    double seconds;         /* time of the steps on worker 0, without hashing */
    uint64_t traffic_bytes; /* sent in these steps, summed over all workers */
} ls_verify_totals;

typedef struct ls_verify_record {
    int64_t steps;
    int params; /* parameters of the model */
    ls_verify_totals *totals;
    double *loss;           /* [steps] */
    ls_verify_hash *grad;   /* [steps][params] */
    ls_verify_hash *weight; /* [params] */
} ls_verify_record;

/* Allocates a record in shared memory. Call it before workers are forked; the caller closes it. */
ls_status ls_verify_record_open(int64_t steps, int params, ls_verify_record *out);
/* Unmaps the record; does nothing for {0}. */
void ls_verify_record_close(ls_verify_record *record);

/* A tensor whose values are copied out. When two hashes differ, the trials run again to find the first element that
 * differs. */
typedef struct ls_verify_tensor {
    int param;                 /* number of the parameter in the model */
    ls_partition_tensor which; /* gradient or weight */
    float *values;             /* canonical order; shared memory, written by worker 0 */
} ls_verify_tensor;

/* A planted fault, to test that the comparison finds it: worker `rank` flips the lowest bit of the first element of a
 * gradient that it owns, before the update of `step`. Nothing happens if the worker owns no element of the tensor. */
typedef struct ls_verify_fault {
    int rank;
    int64_t step;       /* from 1 on */
    const char *tensor; /* name of the parameter */
} ls_verify_fault;

/* Parses "RANK:STEP:TENSOR"; LS_ERR_INPUT for another form. out->tensor points into `text`, and is not looked up. */
ls_status ls_verify_fault_parse(const char *text, ls_verify_fault *out);

typedef struct ls_verify_job {
    int64_t steps;                 /* at most the record's */
    ls_verify_record *record;      /* NULL: no record */
    const ls_verify_tensor *fetch; /* copied out at the last step: a gradient before the update, a weight after; NULL */
    const ls_verify_fault *fault;  /* NULL: none */
} ls_verify_job;

/* Trains the steps of a job, the function of a trial (lab/trial.h); ctx is the ls_verify_job. All workers run it, and
 * worker 0 writes the record. */
ls_status ls_verify_steps(ls_trainer *trainer, void *ctx);

/* ---- parts of ls_verify_steps(), for steps that are run in another way (sum_order.h) ----------------------------- */

/* Flips the bit if this worker and the step in progress are those of the fault. Call it between gradients and update.
 * LS_ERR_INPUT if the model has no such tensor. */
ls_status ls_verify_plant(const ls_verify_fault *fault, ls_trainer *trainer);
/* Copies a whole tensor to fetch->values, in canonical order (as files have it). Collective: all workers call it, and
 * worker 0 writes. */
ls_status ls_verify_fetch(ls_trainer *trainer, const ls_verify_tensor *fetch);

/* ---- comparing --------------------------------------------------------------------------------------------------- */

typedef enum ls_verify_kind {
    LS_VERIFY_EQUAL,
    LS_VERIFY_GRADIENT, /* of `param` in `step` */
    LS_VERIFY_LOSS,     /* of `step`, although its gradients are equal */
    LS_VERIFY_WEIGHT,   /* of `param` after the last step */
    LS_VERIFY_VALIDATION
} ls_verify_kind;

typedef struct ls_verify_difference {
    ls_verify_kind kind;
    int64_t step; /* from 1 on */
    int param;    /* the first that differs, in model order */
    int params;   /* how many differ in that step */
} ls_verify_difference;

/* Returns the first difference of two records with the same steps and parameters, in the order of training: gradients
 * and loss of each step, then weights, then validation. */
ls_verify_difference ls_verify_compare(const ls_verify_record *a, const ls_verify_record *b);
/* Returns the first element in which two tensors differ; `elems` if they are equal. As in hashes, all NaNs are equal,
 * and +0 differs from −0. */
size_t ls_verify_first_element(const float *a, const float *b, size_t elems);

#endif
