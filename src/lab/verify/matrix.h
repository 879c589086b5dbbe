/* matrix.h: which layouts `lockstep verify` compares: rows of choices, and the layout of each row.
 *
 *     dp, tp, pp, schedule, sequence parallel, shares      if the layout is legal for the task and the limits
 *     zero, micro-batch, recomputation, by_count, threads, instruction sets      any value
 *
 * QUICK    dp of 1, 2, 3, 4, 5, 8 and pp of 1 … 4; every pair of choices
 * USUAL    every dp × tp × pp; every pair of choices
 * ALL      every dp × tp × pp × schedule × zero; every triple of choices
 *
 * tp is a power of two; dp, at most the gradient groups, and pp, at most the blocks, are any numbers that the limits
 * allow. A "choice" is one value of one of these. The rows follow from task, tier, limits and seed: the same on every
 * machine. */
#ifndef LS_LAB_VERIFY_MATRIX_H
#define LS_LAB_VERIFY_MATRIX_H

#include "lab/trial.h"

typedef enum ls_verify_tier { LS_VERIFY_QUICK, LS_VERIFY_USUAL, LS_VERIFY_ALL } ls_verify_tier;

typedef struct ls_verify_row {
    ls_knobs knobs; /* virtual stages follow from the rest */
    bool unequal;   /* replicas have different shares of the batch */
    bool by_count;  /* stages get equal numbers of blocks, not equal costs, and, if interleaved, most chunks, not 2 */
    int threads;    /* of each worker; 0: the cores are divided among the workers */
    ls_trial_isa isa;
} ls_verify_row;

typedef struct ls_verify_limits {
    int workers_min, workers_max; /* of a row */
    int threads;                  /* of each worker; 0: 1 and 2 are tried */
    uint64_t seed;
} ls_verify_limits;

/* Makes the rows to compare, which the caller frees. *count is 0, and *rows NULL, if no layout is legal within
 * the limits. */
ls_status ls_verify_matrix_make(const ls_layout_task *task, ls_verify_tier tier, const ls_verify_limits *limits,
                                ls_verify_row **rows, int *count);
/* Makes the layout of a row; with batch norm, the micro-batch and ZeRO stage may differ from the row's. LS_ERR_INPUT if
 * it is not legal for the task. */
ls_status ls_verify_row_layout(const ls_verify_row *row, const ls_layout_task *task, ls_layout *out);

#endif
