/* steps.h: the steps of a trial with a record of every bit they made; and comparing two records.
 *
 * The record has the loss of each step, a hash of every gradient of each step, a hash of every weight after the last
 * one, and the validation loss there. It lies in shared memory (lab/trial.h). */
#ifndef LS_LAB_VERIFY_STEPS_H
#define LS_LAB_VERIFY_STEPS_H

#include "lab/trial.h"

typedef struct ls_verify_hash {
    char text[LS_HASH_TEXT_BYTES];
} ls_verify_hash;

typedef struct ls_verify_totals {
    ls_verify_hash weights; /* of all of them together */
    double validation;      /* loss; NaN where there is no data for it */
    double seconds;         /* of the steps, without hashing */
    uint64_t traffic_bytes; /* of all workers in these steps: what others needed of their data */
} ls_verify_totals;

typedef struct ls_verify_record {
    int64_t steps;
    int params;
    ls_verify_totals *totals;
    double *loss;           /* [steps] */
    ls_verify_hash *grad;   /* [steps][params] */
    ls_verify_hash *weight; /* [params] */
} ls_verify_record;

ls_status ls_verify_record_open(int64_t steps, int params, ls_verify_record *out);
void ls_verify_record_close(ls_verify_record *record); /* zeros do nothing */

/* What is looked for again, element by element. */
typedef struct ls_verify_tensor {
    int param;
    ls_partition_tensor which; /* gradient or weight */
    float *values;             /* canonical order; shared memory, written by worker 0 */
} ls_verify_tensor;

/* A bit that is flipped on purpose, to see it found: the lowest one of the first element of a gradient that the worker
 * reports (none: nothing happens). */
typedef struct ls_verify_fault {
    int rank;
    int64_t step; /* from 1 on */
    const char *tensor;
} ls_verify_fault;

/* "RANK:STEP:TENSOR"; the text is borrowed. */
ls_status ls_verify_fault_parse(const char *text, ls_verify_fault *out);

typedef struct ls_verify_job {
    int64_t steps;                 /* at most the record's */
    ls_verify_record *record;      /* NULL: none is kept */
    const ls_verify_tensor *fetch; /* after the last step: the weight, or the gradient of that step; NULL: none */
    const ls_verify_fault *fault;  /* NULL: none */
} ls_verify_job;

/* The steps of a trial: ctx is the job. Worker 0 writes the record. */
ls_status ls_verify_steps(ls_trainer *trainer, void *ctx);

/* What they are made of. */
/* Flips the bit, if this is the worker and the next step is the one. */
ls_status ls_verify_plant(const ls_verify_fault *fault, ls_trainer *trainer);
/* All workers call it together; worker 0 writes the values. */
ls_status ls_verify_fetch(ls_trainer *trainer, const ls_verify_tensor *fetch);

/* ---- comparing --------------------------------------------------------------------------------------------------- */

typedef enum ls_verify_kind {
    LS_VERIFY_EQUAL,
    LS_VERIFY_GRADIENT, /* of `param` in `step` */
    LS_VERIFY_LOSS,     /* of `step`, with equal gradients */
    LS_VERIFY_WEIGHT,   /* of `param` after the last step */
    LS_VERIFY_VALIDATION
} ls_verify_kind;

typedef struct ls_verify_difference {
    ls_verify_kind kind;
    int64_t step; /* from 1 on */
    int param;    /* the first in model order */
    int params;   /* how many differ there */
} ls_verify_difference;

/* The first difference; records of the same size. */
ls_verify_difference ls_verify_compare(const ls_verify_record *a, const ls_verify_record *b);
/* The first element in which two tensors differ; `elems` where none does. As in hashes, one NaN is as good as another
 * and zeros have signs. */
size_t ls_verify_first_element(const float *a, const float *b, size_t elems);

#endif
