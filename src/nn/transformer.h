/* transformer.h: the two halves of a transformer block, each with its norm and its way back to the residual stream. */
#ifndef LS_NN_TRANSFORMER_H
#define LS_NN_TRANSFORMER_H

#include "nn/block.h"

/* The parameters of a half; biases are NULL where the shape has none. */
typedef struct ls_half {
    ls_param *norm_w, *norm_b;
    ls_param *in_w, *in_b;
    ls_param *out_w, *out_b;
} ls_half;

/* Gradients inside a half, from which those of its weights are made. */
typedef struct ls_half_grads {
    const void *branch; /* [stream][C] of what goes to the residual stream */
    void *wide;         /* [rows] of what the first projection gives */
    void *dnorm;        /* [stream][C] of what the norm gives */
} ls_half_grads;

ls_half ls_attention_params(ls_block *block, const ls_shape *shape);
ls_half ls_mlp_params(ls_block *block, const ls_shape *shape);

/* y = x + half(norm(x)); backward turns d, the gradient of y, into that of x. */
ls_status ls_attention_half_forward(ls_block *block, ls_nn *nn, const float *x, float *y);
/* y made again from what attention added to x, with 16-bit types. */
ls_status ls_attention_half_middle(const ls_block *block, const ls_nn *nn, const float *x, float *y);
ls_status ls_attention_half_backward(ls_block *block, ls_nn *nn, const float *x, float *d, ls_backward_phase phase);
ls_status ls_mlp_half_forward(ls_block *block, ls_nn *nn, const float *x, float *y);
/* saved.wide alone. */
ls_status ls_mlp_half_recompute(ls_block *block, ls_nn *nn, const float *x);
ls_status ls_mlp_half_backward(ls_block *block, ls_nn *nn, const float *x, float *d, ls_backward_phase phase);

/* y = x + branch, with dropout on the branch; x NULL: y = branch, which is y already. `place` names it in the model. */
ls_status ls_nn_residual(const ls_nn *nn, float *y, const float *x, const void *branch, ls_dtype dtype, uint32_t place);
/* The gradient of the branch, of this type: *out is `keep` where that is not NULL, else d itself, or scratch where
 * something was dropped or rounded. */
ls_status ls_nn_residual_backward(const ls_nn *nn, const float *d, ls_dtype dtype, uint32_t place, void *keep,
                                  const void **out);

#endif
