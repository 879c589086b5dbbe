/* transformer.h: the two halves of a transformer block, attention and MLP, and their way to and from the residual
 * stream. Private to this folder: embed.c uses the dropout at its end. A half has a norm, a first projection (in), a
 * body of its own and a second projection (out):
 *
 *     x ─ norm ─ in ─ body ─ out ─ + x          bodies: attention.c (with qk_norm.c), mlp.c; the rest: residual.c
 *
 * What a half adds to the stream is its branch. */
#ifndef LS_NN_BLOCKS_TRANSFORMER_H
#define LS_NN_BLOCKS_TRANSFORMER_H

#include "nn/block.h"

/* ---- state of a transformer block ---------------------------------------------------------------------------------

 * `rows` are all rows, `stream` those of the residual stream; widths are this worker's. */

/* What backward needs of a forward pass, for one micro-batch. */
typedef struct ls_transformer_saved {
    float *norm[2]; /* statistics of the two norms, [2][stream] each */
    void *qkv;      /* [rows][qkv width], after norm and rotation */
    void *heads;    /* [rows][query width] what attention gives */
    float *m, *l;   /* [B][H][T] of each row of attention: maximum of the scores, sum of exponentials */
    float *middle;  /* [stream][C] the residual stream between attention and MLP; in fp32 */
    void *branch;   /* [stream][C] with 16-bit types: the output of attention, to recompute `middle` */
    void *wide;     /* [rows][width of the MLP] before the activation */
    void *inner;    /* [rows][hidden] output of the activation; NULL: backward recomputes it */
    /* With QK-norm: q and k heads before the norm, in blocks (qk_norm.c), and a number for each. */
    void *raw_heads;  /* [rows][query + key width] */
    float *head_rstd; /* [rows][heads + kv heads] */
} ls_transformer_saved;

/* Gradients of a half that stay between the two phases of backward: of … */
typedef struct ls_kept_half {
    void *branch; /* [stream][C] … what it adds to the stream, */
    void *dwide;  /* [rows][qkv width, or width of the MLP] the output of its first projection, */
    void *dnorm;  /* [stream][C] the output of its norm */
} ls_kept_half;

typedef struct ls_transformer_kept {
    ls_kept_half half[2]; /* attention, MLP */
    void *dnormed;        /* [rows][query + key width] with QK-norm: the gradient of its output, in blocks */
} ls_transformer_kept;

/* The two halves do not run at the same time, so their pieces overlap. */
typedef struct ls_transformer_scratch {
    void *norm;    /* [stream][C] output of a norm */
    void *dnorm;   /* [stream][C] its gradient */
    void *branch;  /* [stream][C] what a half adds to the residual stream, or its gradient */
    float *middle; /* [stream][C] with 16-bit types: the residual stream between attention and MLP */
    void *wide;    /* [rows][hidden] output of the activation */
    void *dact;    /* [rows][hidden] its gradient, where dwide cannot hold it */
    void *dwide;   /* [rows][width of the MLP] */
    void *dheads;  /* [rows][query width] */
    void *dqkv;    /* [rows][qkv width] */
    float *dots;   /* [B][H][T] for backward of the softmax: sum over a row of output times its gradient */
    /* With QK-norm: */
    void *dnormed;     /* [rows][query + key width] the gradient of its output, in blocks */
    void *normed;      /* [rows][query width] one block: output of the norm; or, in fp32, the gradient of its input */
    float *wide_heads; /* [rows][query width] with 16-bit types: one block before the norm */
} ls_transformer_scratch;

/* ---- halves ------------------------------------------------------------------------------------------------------ */

typedef struct ls_half ls_half;

/* A half for nn's rows: its parameters, the addresses of its tensors, and its body. A bias is NULL if the block has
 * none.
 */
struct ls_half {
    ls_param *norm_w, *norm_b;
    ls_param *in_w, *in_b;
    ls_param *out_w, *out_b;
    uint32_t place;  /* names its dropout in the model: halves are counted from 1, over all blocks */
    float *stats;    /* saved of the norm, [2][stream] */
    size_t in_width; /* columns of the output of the first projection */
    void *inner;     /* [rows][inner_width] input of the second projection */
    size_t inner_width;
    void *branch; /* [stream][C] its output, to be added to the stream */
    /* The input of backward is `start` plus the branch of the half before; NULL: they are summed already. */
    const float *start;
    void *dwide; /* gradient of the output of the first projection */
    const ls_kept_half *kept;
    const ls_transformer_scratch *scratch;
    bool is_rounded; /* backward: the gradient of the branch is in place, rounded, … */
    bool has_bias;   /* … and that of out_b has been computed from it */

    /* Computes `inner` from `norm`, the output of the norm for all rows. */
    ls_status (*forward)(ls_block *block, ls_nn *nn, const ls_half *half, const void *norm);
    /* Runs before the weight gradients of the projections, in every phase that computes them: recomputes `inner` if it
     * is neither saved nor left by backward, and computes the gradients of parameters of the body's own, from dwide.
     * NULL: the body needs neither. */
    ls_status (*weights)(ls_block *block, ls_nn *nn, const ls_half *half, const void *dwide, ls_block_pass phase);
    /* Computes dwide from `rows`, the gradient of the branch for all rows; and recomputes `inner`, unless it is saved
     * or NULL here. */
    ls_status (*backward)(ls_block *block, ls_nn *nn, const ls_half *half, const void *rows, void *dwide, void *inner);
};

/* This worker's heads of one slice. Columns of qkv are q heads, k heads, v heads. */
typedef struct ls_head_slice {
    size_t heads, kv_heads; /* of q; of k and of v */
    size_t first_head;      /* q heads of this worker before it */
    size_t head_in_model;   /* the same, with the heads of earlier workers */
    size_t q, k, v;         /* columns of qkv */
} ls_head_slice;

/* Returns the heads of this worker's slice i, counted from its first. */
ls_head_slice ls_head_slice_of(const ls_nn *nn, int i);

/* Replaces q and k of nn's rows in qkv by their norms, and saves what backward needs. */
ls_status ls_qk_norm(ls_block *block, const ls_nn *nn, void *qkv);
/* Replaces the gradients of q and k in dqkv by those before the norm. Leaves what the gradients of the weights need in
 * `dnormed`. */
ls_status ls_qk_norm_backward(ls_block *block, const ls_nn *nn, void *dqkv, void *dnormed);
/* Computes the gradients of both weights from `dnormed`, in the steps of this micro-batch. */
ls_status ls_qk_norm_weights(ls_block *block, const ls_nn *nn, const void *dnormed);

/* Returns the attention half of a block for nn's rows: addresses of its tensors and its functions. The block's state
 * must be set. */
ls_half ls_attention_half(ls_block *block, const ls_nn *nn);
/* Returns the MLP half of a block for nn's rows: addresses of its tensors and its functions. The block's state must
 * be set. */
ls_half ls_mlp_half(ls_block *block, const ls_nn *nn);
/* Returns half 0 (attention) or 1 (MLP) with what both have filled in: parameters, dropout, statistics and kept
 * gradients. */
ls_half ls_half_open(ls_block *block, int which);

/* Computes norm(x) in scratch, and gathers all rows: *norm is that or, with sequence parallelism, the gathered rows. */
ls_status ls_half_norm(const ls_nn *nn, const ls_half *half, const float *x, const void **norm);
/* Computes sum = x + the branch of `before`, the half in front of this one, and norm(sum) in scratch: own rows alone.
 */
ls_status ls_half_sum(const ls_nn *nn, const ls_half *half, const ls_half *before, const float *x, float *sum);
/* Computes sum = x + the branch of `before`, the half in front of this one, and norm(sum), and gathers norm(sum) of
 * all rows in *norm. */
ls_status ls_half_sum_norm(const ls_nn *nn, const ls_half *half, const ls_half *before, const float *x, float *sum,
                           const void **norm);
/* Computes half->branch from norm: body and second projection. The caller adds it to the stream. */
ls_status ls_half_branch(ls_block *block, ls_nn *nn, const ls_half *half, const void *norm);
/* Turns d, the gradient of x + half(norm(x)), into that of x, and computes the weight gradients, or one of the two
 * (`phase`). In the same pass rounds the gradient of the branch of `before`, the half in front of this one (or NULL),
 * because backward of `before` would start with that; only with 16-bit types. Sets before->is_rounded and
 * before->has_bias to say what is done. */
ls_status ls_half_backward(ls_block *block, ls_nn *nn, const ls_half *half, ls_half *before, const float *x, float *d,
                           ls_block_pass phase);

/* Returns the dropout of what the half at `place` adds to the stream, and of its gradient. */
ls_drop ls_nn_drop_of(const ls_nn *nn, uint32_t place);
/* Computes y = x + branch, with dropout of the branch at `place`. x NULL: y, which is the branch, gets the dropout
 * alone. */
ls_status ls_nn_residual(const ls_nn *nn, float *y, const float *x, const void *branch, ls_dtype dtype, uint32_t place);
/* Sets *out to the gradient of the branch, made from d, in this type. It is in `keep` if that is not NULL; else d
 * itself, or in `space` if elements were dropped or rounded. With is_rounded the gradient is in its place already.
 * Counts rounded gradients if nn->act_counts is set. */
ls_status ls_nn_residual_backward(const ls_nn *nn, const float *d, ls_dtype dtype, uint32_t place, bool is_rounded,
                                  void *keep, void *space, const void **out);

#endif
