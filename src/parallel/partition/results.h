/* results.h: what a worker computes of a group (a fixed part of the batch) on the way to its gradients, as sums of
 * hashes. The audit of a run uses them to find the worker that computes wrong numbers.
 *
 * An error of one worker spreads: over the TP group with the next sum, over the stages with the stream. So gradients
 * tell which replica erred, but not which of its workers. Intermediate results do: matmuls before they are joined over
 * the TP group, and what blocks add to the stream. Two replicas that computed the same group compare their sums; the
 * worker whose results differ first, in the order of computation, erred.
 *
 * A site is one such result: number k of block b has site 16·b + k in forward and 16·(2n − 1 − b) + k in backward. Its
 * value is a sum over sequences, which depends neither on their division into micro-batches nor on the schedule. Each
 * worker sums its own results; no call is collective, and the caller exchanges the sums. */
#ifndef LS_PARALLEL_PARTITION_RESULTS_H
#define LS_PARALLEL_PARTITION_RESULTS_H

#include "base/hash.h"
#include "parallel/partition/partition.h"

/* The most results of a block in one direction: number 15 is the stream, 0 … 14 are matmuls, and further matmuls are
 * added to number 14. */
enum { LS_RESULTS_MAX = 16 };

/* Returns the number of sites of a model: LS_RESULTS_MAX for each block and direction. */
static inline size_t ls_result_sites(const ls_model *model) { return 2 * (size_t)model->nblocks * LS_RESULTS_MAX; }

typedef struct ls_result_sums {
    int count;         /* number of groups */
    const int *group;  /* numbers of the groups; −1: none */
    ls_hash128 *sites; /* [count][sites of a model]; the caller sets them to 0 */
} ls_result_sums;

/* Adds the results of all later passes to `results`, which is borrowed, until a call with NULL. */
void ls_partition_sum_results(ls_partition *partition, const ls_result_sums *results);

/* Returns the first site where two lists differ, or `sites` if they are equal. */
size_t ls_result_first(const ls_hash128 *a, const ls_hash128 *b, size_t sites);

#endif
