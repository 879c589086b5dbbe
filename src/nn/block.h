/* block.h: the pieces a model is a list of: an embedding, transformer blocks, a head.
 *
 * The executor (parallel/) gives a block its input and output in the residual stream, rows of C elements, and calls
 *
 *     embed ─ x0 ─ transformer ─ x1 ─ … ─ xL ─ head ─ loss            forward
 *           ─ d ──────────────── d ──── … ─ d ─                       backward: d is changed in place
 *
 * A block keeps what its backward needs in `saved`; a stage that only evaluates lets all blocks share one `saved`. The
 * head makes the gradient of its input already in forward, when targets and steps are there, so that logits live no
 * longer than the head runs. */
#ifndef LS_NN_BLOCK_H
#define LS_NN_BLOCK_H

#include "nn/nn.h"

enum { LS_BLOCK_PARAMS_MAX = 12 };

typedef struct ls_saved {
    float *norm1, *norm2; /* statistics, [2][rows] */
    float *qkv;           /* [rows][qkv width], after rotation */
    float *heads;         /* [rows][query width] what attention gives */
    float *m, *l;         /* [B][H][T] */
    float *middle;        /* [rows][C] the residual stream between attention and MLP */
    float *wide;          /* [rows][width of the MLP] before the activation */
} ls_saved;

typedef struct ls_block ls_block;

/* Of one forward pass over B sequences of T tokens. */
typedef struct ls_block_cost {
    double product_flops;   /* of products with weights */
    double attention_flops; /* causal: only keys that are seen count */
    double weight_bytes;    /* of all parameters; a table that the head shares with the embedding counts in both */
    double saved_bytes;     /* that backward needs, the block's input in the residual stream among them */
} ls_block_cost;

typedef struct ls_block_kind {
    const char *name;
    /* Fills in the parameters. */
    void (*declare)(ls_block *block, const ls_shape *shape);
    /* What backward needs, for nn's rows. */
    void (*carve_saved)(ls_saved *saved, const ls_nn *nn, ls_arena *arena);
    /* What runs need, in `scratch`; for_backward: also what the backward pass needs. */
    void (*carve_scratch)(ls_scratch *scratch, const ls_nn *nn, bool for_backward, ls_arena *arena);
    /* x: [rows][C] (NULL for the embedding); y: [rows][C]. The head writes its loss to scratch->loss and, with steps,
     * the gradient of x to y; without targets it leaves logits in scratch->logits. */
    ls_status (*forward)(ls_block *block, ls_nn *nn, const float *x, float *y);
    ls_status (*backward)(ls_block *block, ls_nn *nn, const float *x, float *d);
    ls_block_cost (*cost)(const ls_block *block, const ls_shape *shape, size_t B, size_t T);
} ls_block_kind;

struct ls_block {
    const ls_block_kind *kind;
    int layer; /* number among the transformer blocks */
    int nparams;
    ls_param param[LS_BLOCK_PARAMS_MAX];
    ls_param *table; /* of the head: the weight it uses, its own or that of the embedding */
    ls_saved saved;
};

extern const ls_block_kind ls_block_embed, ls_block_transformer, ls_block_head;

/* Adds a parameter; the name gets the block's own in front: "blocks.3.attn.qkv.weight". */
ls_param *ls_block_add(ls_block *block, ls_param param);

#endif
