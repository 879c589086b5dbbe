/* block.h: the pieces a model is a list of: an embedding, transformer blocks, a head.
 *
 * The executor (parallel/) gives a block its input and output in the residual stream, rows of C elements, and calls
 *
 *     embed ─ x0 ─ transformer ─ x1 ─ … ─ xL ─ head ─ loss            forward
 *           ─ d ──────────────── d ──── … ─ d ─                       backward: d is changed in place
 *
 * A block keeps what its backward needs in `saved`. What is not kept for each micro-batch lies in a place that blocks
 * share, and `recompute` makes it again before backward. The head has no backward: in training its forward, run with
 * targets and steps, makes the gradient of its input at once, so that logits live no longer than the head runs.
 *
 * Backward may be run in two phases: first the gradient of the input, later those of the weights, from what the first
 * left in `kept`. */
#ifndef LS_NN_BLOCK_H
#define LS_NN_BLOCK_H

#include "nn/nn.h"

enum { LS_BLOCK_PARAMS_MAX = 16, LS_BLOCK_LABEL_MAX = 20 };

typedef struct ls_saved {
    float *norm[2]; /* statistics of the two norms, [2][stream] each */
    void *qkv;      /* [rows][qkv width], after rotation */
    void *heads;    /* [rows][query width] what attention gives */
    float *m, *l;   /* [B][H][T] */
    float *middle;  /* [stream][C] the residual stream between attention and MLP; in fp32 */
    void *branch;   /* [stream][C] with 16-bit types: what attention adds to it, from which it is made again */
    void *wide;     /* [rows][width of the MLP] before the activation */
    void *inner;    /* [rows][hidden] behind the activation; NULL: it is made again */
    float *act;     /* image models: [images][…] what the activation gives, before pooling */
    uint32_t *taps; /* where each window had its maximum */
    ls_conv_bn_saved conv_bn[LS_CONV_BN_MAX];
} ls_saved;

/* Parts of `saved` that are kept or shared together. */
enum {
    LS_SAVE_KEYS = 1,      /* qkv */
    LS_SAVE_ATTENTION = 2, /* all the others but wide */
    LS_SAVE_WIDE = 4,      /* and inner, where it is kept */
    LS_SAVE_ALL = 7
};

/* Between the two phases of backward: gradients of what a half of a block gives (of the embedding, fp32), … */
typedef struct ls_kept_half {
    void *branch; /* [stream][C] */
    void *dwide;  /* [rows][qkv width, or width of the MLP] … of what its first projection gives, … */
    void *dnorm;  /* [stream][C] … and of what its norm gives */
} ls_kept_half;

typedef struct ls_kept {
    ls_kept_half half[2]; /* attention, MLP */
    float *dpre;          /* image models: [images][…] gradient of what goes into the activation */
    ls_conv_bn_grads conv_bn[LS_CONV_BN_MAX];
} ls_kept;

typedef enum ls_backward_phase { LS_BACKWARD_BOTH, LS_BACKWARD_INPUT, LS_BACKWARD_WEIGHTS } ls_backward_phase;

typedef struct ls_block ls_block;

/* Of one forward pass over B sequences of T tokens. */
typedef struct ls_block_cost {
    double product_flops;   /* of matmuls with weights */
    double attention_flops; /* causal: only keys that are seen count */
    double weight_bytes;    /* of all parameters; a table that the head shares with the embedding counts in both */
    double saved_bytes;     /* that backward needs, the block's input in the residual stream among them */
} ls_block_cost;

/* Height, width and channels. */
typedef struct ls_extent {
    size_t height, width, channels;
} ls_extent;

static inline size_t ls_extent_elems(ls_extent e) { return e.height * e.width * e.channels; }

typedef enum ls_image_act { LS_IMAGE_NONE, LS_IMAGE_RELU, LS_IMAGE_SIGMOID } ls_image_act;
typedef enum ls_image_pool { LS_POOL_NONE, LS_POOL_MAX, LS_POOL_MEAN } ls_image_pool;

/* What a block of an image model does: a convolution or a linear layer, its activation, pooling. */
typedef struct ls_image_layer {
    ls_extent in, mid, out; /* before it, in front of the pooling, behind it */
    ls_window conv, window; /* of the convolution, of the pooling */
    ls_image_act act;
    ls_image_pool pool;
    uint32_t place; /* of a linear layer: names its dropout in the model */
} ls_image_layer;

/* A convolution without bias, and batch norm behind it: five parameters of the block. */
typedef struct ls_conv_bn {
    ls_extent in, out;
    ls_window window;
    bool relu;
} ls_conv_bn;

/* carve_saved, carve_kept, recompute and backward are NULL where there is nothing to do. */
typedef struct ls_block_kind {
    const char *name;
    /* Fills in the parameters. */
    void (*declare)(ls_block *block, const ls_shape *shape);
    /* The parts of what backward needs, LS_SAVE_*, for nn's rows; other members are left alone. */
    void (*carve_saved)(const ls_block *block, ls_saved *saved, const ls_nn *nn, unsigned parts, ls_arena *arena);
    void (*carve_kept)(const ls_block *block, ls_kept *kept, const ls_nn *nn, ls_arena *arena);
    /* What runs need, in `scratch`; for_backward: also what the backward pass needs. */
    void (*carve_scratch)(const ls_block *block, ls_scratch *scratch, const ls_nn *nn, bool for_backward,
                          ls_arena *arena);
    /* x: [stream][C] (NULL for the embedding); y: [stream][C]. The head writes its loss to scratch->loss and, with
     * steps, the gradient of x to y; without targets it leaves logits in scratch->logits. */
    ls_status (*forward)(ls_block *block, ls_nn *nn, const float *x, float *y);
    /* Makes these parts of saved again, from x. */
    ls_status (*recompute)(ls_block *block, ls_nn *nn, const float *x, unsigned parts);
    /* d is not read in the phase of the weights. */
    ls_status (*backward)(ls_block *block, ls_nn *nn, const float *x, float *d, ls_backward_phase phase);
} ls_block_kind;

struct ls_block {
    const ls_block_kind *kind;
    int layer;                      /* number among the transformer blocks */
    char label[LS_BLOCK_LABEL_MAX]; /* prefix of the names of its parameters: "blocks.3", "conv1"; "": none */
    /* Columns of a row of the stream before and after it. Of the first block both are those after it, and of the last
     * those before it: these are what their gradients have. */
    size_t in, out;
    ls_image_layer image; /* of an image model */
    int conv_bns;
    ls_conv_bn conv_bn[LS_CONV_BN_MAX];
    int nparams;
    ls_param param[LS_BLOCK_PARAMS_MAX];
    ls_param *table;   /* of the head: the weight it uses, its own, that of the embedding, or a copy of the latter; of
                          other blocks NULL */
    ls_param copy;     /* of the head: of the embedding's table, where that lies on another stage; in no list */
    bool shares_table; /* of the embedding: the head is on this worker too and uses its table */
    ls_saved saved;
    ls_kept kept;
};

extern const ls_block_kind ls_block_embed, ls_block_transformer, ls_block_head;
/* Of image models. The first block reads nn's images and has no gradient of its input. */
extern const ls_block_kind ls_block_conv, ls_block_dense, ls_block_stem, ls_block_residual, ls_block_classifier;

/* Adds a parameter; its name gets the block's label as prefix: "blocks.3.attn.qkv.weight". */
ls_param *ls_block_add(ls_block *block, ls_role role, ls_param param);
/* The parameter with this role; NULL: the block has none. */
ls_param *ls_block_param(ls_block *block, ls_role role);
/* The same of conv_bn `unit` of the block. */
ls_param *ls_block_unit_param(ls_block *block, ls_role role, int unit);
/* The table of the vocabulary that the block reads, its own or another block's; NULL: it reads none. */
ls_param *ls_block_table(ls_block *block);
/* Whether that table is a parameter of another block. */
bool ls_block_borrows_table(ls_block *block);

#endif
