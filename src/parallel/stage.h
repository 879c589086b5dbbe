/* stage.h: the blocks of a model that this worker runs, with their memory: parameters, gradients, optimizer state,
 * activations. One worker alone has one stage with all blocks.
 *
 * Memory is one block, laid out by one function that runs twice (tensor/arena.h), so what ls_stage_measure() says is
 * what a run uses, to the byte:
 *
 *     parameters │ gradients, slot by slot │ moments │ residual stream and saved activations │ scratch, block by block
 *
 * A training step is
 *
 *     ls_stage_step_begin → ls_stage_micro_batch, ascending, until all sequences of the batch are in →
 * ls_stage_step_end
 *
 * after which slot 0 of every parameter holds its gradient, not yet scaled (rule 11). Steady state allocates nothing.
 */
#ifndef LS_PARALLEL_STAGE_H
#define LS_PARALLEL_STAGE_H

#include "nn/blocks.h"
#include "numerics/exact_sum.h"

typedef struct ls_stage_setup {
    bool train;   /* gradients and saved activations; otherwise forward alone */
    size_t B, T;  /* of a batch */
    size_t micro; /* sequences of a micro-batch; without training, rows are micro·T */
    int G;
    int moments; /* of the optimizer: 0, 1 or 2 for each parameter */
    double dropout;
    uint64_t seed;
} ls_stage_setup;

typedef struct ls_stage ls_stage;

/* Bytes by kind of such a stage, without making it. `arena` gets the numbers. */
ls_status ls_stage_measure(ls_model *model, const ls_stage_setup *setup, ls_arena *arena);
/* Borrows model and device; the pointers in the model's parameters become those of this stage. On failure nothing is
 * left to release. */
ls_status ls_stage_create(ls_model *model, ls_device *device, const ls_stage_setup *setup, ls_stage **out);
void ls_stage_destroy(ls_stage *stage);
const ls_arena *ls_stage_arena(const ls_stage *stage);

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Initial values: a function of seed, parameter and canonical element. */
ls_status ls_stage_init_weights(ls_stage *stage, uint64_t seed);
/* Which tensor of a parameter: the weight, or a moment. */
typedef enum ls_stage_tensor { LS_TENSOR_WEIGHT, LS_TENSOR_MOMENT0, LS_TENSOR_MOMENT1, LS_TENSOR_GRAD } ls_stage_tensor;
/* Elements first … first + count − 1 in canonical order, to and from the host. */
ls_status ls_stage_write(ls_stage *stage, const ls_param *param, ls_stage_tensor which, size_t first, size_t count,
                         const float *host);
ls_status ls_stage_read(ls_stage *stage, const ls_param *param, ls_stage_tensor which, size_t first, size_t count,
                        float *host);

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* `step` names the dropout masks; `start` is the power of two with which backward starts. */
ls_status ls_stage_step_begin(ls_stage *stage, uint64_t step, float start);
/* Sequences begin … end−1 of the batch; ids and targets are host memory, [end − begin][T]. Adds to the loss. */
ls_status ls_stage_micro_batch(ls_stage *stage, size_t begin, size_t end, const int32_t *ids, const int32_t *targets,
                               ls_loss_sum *loss);
/* Joins token slices and tied uses. */
ls_status ls_stage_step_end(ls_stage *stage);
/* Adds the squares of all gradients. */
ls_status ls_stage_square_norm(ls_stage *stage, ls_exact_sum *sum);

/* ---- evaluation and generation ----------------------------------------------------------------------------------- */

/* Loss of B ≤ micro sequences of T ≤ setup's T tokens. */
ls_status ls_stage_evaluate(ls_stage *stage, size_t B, size_t T, const int32_t *ids, const int32_t *targets,
                            ls_loss_sum *loss);
/* Positions first … first + rows − 1 of one sequence, whose earlier positions have gone through before; the logits of
 * the last position to the host, V of them. first + rows ≤ setup's T. */
ls_status ls_stage_extend(ls_stage *stage, size_t first, size_t rows, const int32_t *ids, float *logits);

/* XXH3-128 of the weights: the hash of the hashes of blocks of 1024 elements, slice by slice, in model order (rule 8).
 */
ls_status ls_stage_hash(ls_stage *stage, char text[33]);

ls_model *ls_stage_model(const ls_stage *stage);
ls_device *ls_stage_device(const ls_stage *stage);

#endif
