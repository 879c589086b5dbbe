/* blocks.h: a model: its shape and its list of blocks with their parameters.
 *
 * It knows shapes, names and order, nothing of memory: the partition lays parameters out and sets their pointers
 * (parallel/partition/partition.h). The order of parameters is that of the blocks, and is part of the arithmetic:
 * initial values, hashes and the sum of squares go by it. model/ builds it. */
#ifndef LS_NN_BLOCKS_H
#define LS_NN_BLOCKS_H

#include "nn/block.h"

typedef struct ls_model {
    ls_shape shape;
    int S;
    int nblocks;
    ls_block *blocks;
    int nparams;
    ls_param **params; /* of all blocks, in order */
} ls_model;

/* Parameters 0 … count−1 in model order; NULL beyond. */
int ls_model_params(const ls_model *model);
ls_param *ls_model_param(const ls_model *model, int i);
ls_param *ls_model_find(const ls_model *model, const char *name);
/* The table that the first block looks tokens up in; NULL: a model of images. */
ls_param *ls_model_tokens(const ls_model *model);

/* This worker has slices first … first + count − 1 of every parameter that is cut; a new model has them all. */
void ls_model_take_slices(ls_model *model, int first, int count);

/* Elements of all parameters; a tied table counts once. Running statistics are among them. */
size_t ls_model_elems(const ls_model *model);
/* Those that are learned. */
size_t ls_model_learned_elems(const ls_model *model);
/* Work and bytes of block b. */
ls_block_cost ls_model_block_cost(const ls_model *model, const ls_policy *policy, int b, size_t B, size_t T);
/* Of one forward and backward pass over B sequences of T tokens: three times the forward matmuls, causal attention
 * counted once (keys that are not seen are not counted). */
double ls_model_step_flops(const ls_model *model, size_t B, size_t T);

#endif
