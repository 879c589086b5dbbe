/* numerics.h: statistics of gradients, weights and updates of one step, by block of the model (--numerics).
 *
 *     ls_partition_count_acts(partition, blocks) → ls_partition_step → ls_partition_count_acts(partition, NULL)
 *     → ls_partition_update_counted, instead of ls_optimizer_step → ls_partition_sum_numerics
 *
 * The caller owns blocks[], one for each block of the model. The setup has `numerics`. */
#ifndef LS_PARALLEL_PARTITION_NUMERICS_H
#define LS_PARALLEL_PARTITION_NUMERICS_H

#include "optim/optimizer.h"
#include "parallel/partition/partition.h"

/* Elements of a piece, a multiple of the blocks of sums of squares: on a CPU they fit into the L1 cache, on other
 * devices they suffice to keep them busy. */
enum { LS_NUMERICS_PIECE = 16 * 1024, LS_NUMERICS_PIECE_APART = 1 << 20 };

/* Statistics of one block of the model; the caller zeroes them. */
typedef struct ls_block_numerics {
    int64_t grads[LS_COUNTS]; /* gradients of parameters as backward left them, in the type of the policy */
    int64_t acts[LS_COUNTS];  /* gradients of activations that its matmuls read, in 16-bit types */
    int64_t acts_elems;       /* how many of the latter */
    int64_t elems;            /* parameters, without running statistics */
    int64_t lost;             /* of them, unchanged by an update that was not 0 */
    ls_exact_sum grad_squares, weight_squares, update_squares;
} ls_block_numerics;

/* Sets all counts on the device to 0, and lets backward count gradients of activations from now on, in borrowed
 * `blocks`; NULL ends the counting and keeps the counts, on the device until ls_partition_sum_numerics(). */
ls_status ls_partition_count_acts(ls_partition *partition, ls_block_numerics *blocks);
/* Updates all own elements, as ls_optimizer_step() does, and counts on the device. Not collective. */
ls_status ls_partition_update_counted(ls_partition *partition, const ls_optimizer_update *update,
                                      ls_block_numerics *blocks);
/* Adds up what the workers counted, on the device and in blocks[], and fills blocks[] with it, the same on all of them.
 * Collective. */
ls_status ls_partition_sum_numerics(ls_partition *partition, ls_block_numerics *blocks);

#endif
