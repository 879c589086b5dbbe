/* results.h: what a worker makes of a group on the way to its gradients, as sums of hashes.
 *
 * An error of one worker spreads: over the tp row with the next sum, over the stages with the stream, so gradients say
 * which row erred, not who of it. The results on the way say it: products before they are joined over the tp row, and
 * what blocks give to the stream. Two rows that computed the same group compare theirs; who differs first, in the order
 * of computation, erred.
 *
 * A site is one such result: of block b on the way forward number k at 16·b + k, on the way back at 16·(2n − 1 − b) +
 * k. Its number is a sum over sequences, which does not depend on how they were divided into micro-batches, nor on the
 * schedule. */
#ifndef LS_PARALLEL_PARTITION_RESULTS_H
#define LS_PARALLEL_PARTITION_RESULTS_H

#include "base/hash.h"
#include "parallel/partition/partition.h"

/* Results of a block on one way at most; any further ones are added to the last. */
enum { LS_RESULTS_MAX = 16 };

static inline size_t ls_result_sites(const ls_model *model) { return 2 * (size_t)model->nblocks * LS_RESULTS_MAX; }

typedef struct ls_result_sums {
    int count;
    const int *group;  /* numbers of the groups; −1: none */
    ls_hash128 *sites; /* [count][sites of a model]; zeros at first */
} ls_result_sums;

/* From now on, until it is NULL. Borrowed. */
void ls_partition_sum_results(ls_partition *partition, const ls_result_sums *results);

/* The first site where two lists differ; their number where none does. */
size_t ls_result_first(const ls_hash128 *a, const ls_hash128 *b, size_t sites);

#endif
