/* transformer.h: the two halves of a transformer block, and their way to and from the residual stream.
 *
 *     x ─ norm ─ in ─ body ─ out ─ + x          attention.c and mlp.c have the bodies, residual.c what is around them
 */
#ifndef LS_NN_BLOCKS_TRANSFORMER_H
#define LS_NN_BLOCKS_TRANSFORMER_H

#include "nn/block.h"

/* ---- state of a transformer block ---------------------------------------------------------------------------------

 * `rows` are all rows, `stream` those of the residual stream; widths are this worker's. */

typedef struct ls_transformer_saved {
    float *norm[2]; /* statistics of the two norms, [2][stream] each */
    void *qkv;      /* [rows][qkv width], after rotation */
    void *heads;    /* [rows][query width] what attention gives */
    float *m, *l;   /* [B][H][T] */
    float *middle;  /* [stream][C] the residual stream between attention and MLP; in fp32 */
    void *branch;   /* [stream][C] with 16-bit types: what attention adds to it, from which it is made again */
    void *wide;     /* [rows][width of the MLP] before the activation */
    void *inner;    /* [rows][hidden] behind the activation; NULL: it is made again */
} ls_transformer_saved;

/* Between the two phases of backward, of a half: gradients of … */
typedef struct ls_kept_half {
    void *branch; /* [stream][C] what it adds to the stream, … */
    void *dwide;  /* [rows][qkv width, or width of the MLP] … what its first projection gives, … */
    void *dnorm;  /* [stream][C] … and what its norm gives */
} ls_kept_half;

typedef struct ls_transformer_kept {
    ls_kept_half half[2]; /* attention, MLP */
} ls_transformer_kept;

/* Pieces of different phases share their place. */
typedef struct ls_transformer_scratch {
    void *norm;    /* [stream][C] what a norm gives */
    void *dnorm;   /* [stream][C] its gradient */
    void *branch;  /* [stream][C] what goes to the residual stream, and its gradient */
    float *middle; /* [stream][C] with 16-bit types: the residual stream between attention and MLP */
    void *wide;    /* [rows][hidden] output of the activation */
    void *dact;    /* [rows][hidden] its gradient, where dwide cannot hold it */
    void *dwide;   /* [rows][width of the MLP] */
    void *dheads;  /* [rows][query width] */
    void *dqkv;    /* [rows][qkv width] */
    float *dots;   /* [B][H][T] */
} ls_transformer_scratch;

/* ---- halves ------------------------------------------------------------------------------------------------------ */

typedef struct ls_half ls_half;

/* A half for nn's rows: its parameters, where its tensors are, and its body. Biases are NULL where the block has none.
 */
struct ls_half {
    ls_param *norm_w, *norm_b;
    ls_param *in_w, *in_b;
    ls_param *out_w, *out_b;
    uint32_t place;  /* names its dropout in the model: halves are counted from 1, over all blocks */
    float *stats;    /* saved of the norm, [2][stream] */
    size_t in_width; /* columns of what the first projection gives */
    void *inner;     /* [rows][inner_width] what the second projection reads */
    size_t inner_width;
    void *branch; /* [stream][C] what it gives, to be added to the stream */
    /* Backward: what it reads is this and, on top of it, what the half before it gave, to be added up on the way; NULL:
     * that has been done. */
    const float *start;
    void *dwide; /* gradient of what the first projection gives */
    const ls_kept_half *kept;
    const ls_transformer_scratch *scratch;
    bool is_rounded; /* backward: the gradient of the branch lies rounded where it belongs … */
    bool has_bias;   /* … and that of out_b is made from it */

    /* inner from `norm`, what the norm gives for all rows. */
    ls_status (*forward)(ls_block *block, ls_nn *nn, const ls_half *half, const void *norm);
    /* In the phases that make weight gradients, before those of the projections: `inner` once more, unless it is saved
     * or backward has just made it; and gradients of parameters that the body has for itself, from dwide. NULL: neither
     * is needed. */
    ls_status (*weights)(ls_block *block, ls_nn *nn, const ls_half *half, const void *dwide, ls_block_pass phase);
    /* dwide from the gradient of the branch for all rows; and inner once more, unless it is saved or NULL here. */
    ls_status (*backward)(ls_block *block, ls_nn *nn, const ls_half *half, const void *rows, void *dwide, void *inner);
};

ls_half ls_attention_half(ls_block *block, const ls_nn *nn);
ls_half ls_mlp_half(ls_block *block, const ls_nn *nn);
/* What both have: the parameters, dropout, statistics and kept gradients of half 0 (attention) or 1 (the MLP). */
ls_half ls_half_open(ls_block *block, int which);

/* norm(x) for all rows, in scratch. */
ls_status ls_half_norm(const ls_nn *nn, const ls_half *half, const float *x, const void **norm);
/* sum = x + what `before` gave, the half in front of this one; and norm(sum), for own rows. */
ls_status ls_half_sum(const ls_nn *nn, const ls_half *half, const ls_half *before, const float *x, float *sum);
/* The same, for all rows. */
ls_status ls_half_sum_norm(const ls_nn *nn, const ls_half *half, const ls_half *before, const float *x, float *sum,
                           const void **norm);
/* half(norm), what is to be added to the stream: in half->branch. */
ls_status ls_half_branch(ls_block *block, ls_nn *nn, const ls_half *half, const void *norm);
/* d, the gradient of x + half(norm(x)), becomes that of x; and, rounded, that of what `before` gave, where that is all
 * that backward of `before` would begin with. */
ls_status ls_half_backward(ls_block *block, ls_nn *nn, const ls_half *half, ls_half *before, const float *x, float *d,
                           ls_block_pass phase);

/* Dropout of what a half adds to the stream, and of its gradient. */
ls_drop ls_nn_drop_of(const ls_nn *nn, uint32_t place);
/* y = x + branch, with dropout on the branch; x NULL: y = branch, which is y already. `place` names it in the model. */
ls_status ls_nn_residual(const ls_nn *nn, float *y, const float *x, const void *branch, ls_dtype dtype, uint32_t place);
/* The gradient of the branch, of this type: *out is `keep` where that is not NULL, else d itself, or `space` where
 * something was dropped or rounded; with is_rounded it is there already. */
ls_status ls_nn_residual_backward(const ls_nn *nn, const float *d, ls_dtype dtype, uint32_t place, bool is_rounded,
                                  void *keep, void *space, const void **out);

#endif
