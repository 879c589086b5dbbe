/* blocks.h: a model: its shape and its list of blocks with their parameters.
 *
 * A model has shapes, names and an order, but no memory: the partition lays parameters out and sets their pointers
 * (parallel/partition/partition.h; a partition is all that one worker stores). The order of parameters is that of the
 * blocks, and decides bits: initial values, hashes and the sum of squares go by it. ls_model_create() (model/) builds a
 * model. */
#ifndef LS_NN_BLOCKS_H
#define LS_NN_BLOCKS_H

#include "nn/block.h"

typedef struct ls_model {
    ls_shape shape;
    int S; /* slices into which layers are cut (nn/param.h) */
    int nblocks;
    ls_block *blocks;
    int nparams;
    ls_param **params; /* of all blocks, in order */
} ls_model;

/* Returns the number of parameters. */
int ls_model_params(const ls_model *model);
/* Returns parameter i in model order, or NULL if there is none. */
ls_param *ls_model_param(const ls_model *model, int i);
/* Returns the parameter with this full name, such as "blocks.3.attn.qkv.weight", or NULL. Searches all parameters. */
ls_param *ls_model_find(const ls_model *model, const char *name);
/* Returns the table that the first block looks tokens up in; NULL for an image model. */
ls_param *ls_model_tokens(const ls_model *model);

/* Makes first … first + count − 1 of the S slices this worker's part of every parameter that slices cut. A new model
 * has all of them. */
void ls_model_take_slices(ls_model *model, int first, int count);

/* Returns the elements of all parameters, including running statistics. A tied table counts once. */
size_t ls_model_elems(const ls_model *model);
/* Returns the elements that the optimizer learns: all but running statistics. */
size_t ls_model_learned_elems(const ls_model *model);
/* Returns the work and the bytes of block b, all slices together, in a forward pass over B sequences of T tokens. For
 * the planner and for FLOP/s. */
ls_block_cost ls_model_block_cost(const ls_model *model, const ls_policy *policy, int b, size_t B, size_t T);
/* Returns the model FLOPs of one forward and backward pass over B sequences of T tokens: three times the forward
 * pass, of which causal attention counts only the keys that a query sees. Recomputation does not count. MFU is
 * measured by them. */
double ls_model_step_flops(const ls_model *model, size_t B, size_t T);

#endif
