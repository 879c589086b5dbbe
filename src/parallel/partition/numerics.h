/* numerics.h: numbers about numbers, block by block, of one step.
 *
 *     ls_partition_count_acts(partition, blocks) → ls_partition_step → ls_partition_count_acts(partition, NULL)
 *     → ls_partition_update_counted in the place of ls_optimizer_step → ls_partition_sum_numerics: those of all workers
 */
#ifndef LS_PARALLEL_PARTITION_NUMERICS_H
#define LS_PARALLEL_PARTITION_NUMERICS_H

#include "optim/optimizer.h"
#include "parallel/partition/partition.h"

/* Elements that are looked at together, a multiple of the blocks of sums of squares: of a CPU as many as its first
 * cache has, of other devices enough to keep them busy. */
enum { LS_NUMERICS_PIECE = 16 * 1024, LS_NUMERICS_PIECE_APART = 1 << 20 };

/* Of one block of the model. All zero to begin with. */
typedef struct ls_block_numerics {
    int64_t grads[LS_COUNTS]; /* gradients of parameters as backward left them, in the type of the policy */
    int64_t acts[LS_COUNTS];  /* gradients of activations that its matmuls read, in 16-bit types */
    int64_t acts_elems;       /* how many of the latter */
    int64_t elems;            /* parameters */
    int64_t lost;             /* of them, left as they were by an update that was not 0 */
    ls_exact_sum grad_squares, weight_squares, update_squares;
} ls_block_numerics;

/* From now on backward counts, for blocks[], one for each block of the model; NULL: no more. What is counted stays on
 * the device until ls_partition_sum_numerics(). */
ls_status ls_partition_count_acts(ls_partition *partition, ls_block_numerics *blocks);
/* The update of all own elements. The setup has `numerics`. */
ls_status ls_partition_update_counted(ls_partition *partition, const ls_optimizer_update *update,
                                      ls_block_numerics *blocks);
ls_status ls_partition_sum_numerics(ls_partition *partition, ls_block_numerics *blocks);

#endif
