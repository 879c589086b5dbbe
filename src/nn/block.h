/* block.h: the pieces a model is a list of: an embedding, transformer blocks, a head, or the blocks of an image
 * model. Each kind of block is a table of functions (ls_block_kind). The executor (parallel/) gives a block its input
 * and output in the residual stream, rows of C elements, and calls
 *
 *     embed ─ x0 ─ transformer ─ x1 ─ … ─ xL ─ head ─ loss            forward
 *           ─ d ──────────────── d ──── … ─ d ─                       backward: d is changed in place
 *
 * A block saves what its backward needs, in classes (LS_SAVE_*). Classes that are not kept for each micro-batch are
 * in memory that blocks share, and `recompute` (activation checkpointing) fills them in again before backward. The
 * head has no backward: in training its forward, run with targets and with steps of gradients, makes the gradient of
 * its input at once, so that logits live no longer than the head runs.
 *
 * Backward may be run in two phases (for zero-bubble schedules): first the gradient of the input, later those of the
 * weights, from what the first left in `kept`. */
#ifndef LS_NN_BLOCK_H
#define LS_NN_BLOCK_H

#include "nn/nn.h"

enum { LS_BLOCK_PARAMS_MAX = 16, LS_BLOCK_LABEL_MAX = 20 };

/* Classes of what a block saves for backward; recomputation and generation keep or drop each class as a whole. */
enum {
    LS_SAVE_KEYS = 1,      /* q, k and v */
    LS_SAVE_ATTENTION = 2, /* everything else except the wide tensors */
    LS_SAVE_WIDE = 4,      /* the hidden layer of an MLP; all that a block of an image model saves */
    LS_SAVE_ALL = 7
};

/* Most conv_bns (a convolution with batch norm) of one block. */
enum { LS_CONV_BN_MAX = 3 };

typedef struct ls_block ls_block;

/* What a worker does with a block in one action of its schedule; backward is one pass or two. */
typedef enum ls_block_pass { LS_FORWARD, LS_BACKWARD_BOTH, LS_BACKWARD_INPUT, LS_BACKWARD_WEIGHTS } ls_block_pass;

/* Counts the collectives of a block in one pass over a micro-batch, to predict traffic and to check it. */
typedef struct ls_block_traffic {
    int joins, gathers;   /* in the TP group: reductions of sums; gathers of all rows, with sequence parallelism */
    bool carries_stream;  /* they move the residual stream itself, which is fp32 under every policy */
    bool has_loss;        /* the TP group shares a softmax over the slices of the vocabulary */
    int stat_gathers;     /* in the DP group, where batch norm is that of the whole batch, … */
    size_t stat_channels; /* … and the numbers of a gradient group in all of them together */
} ls_block_traffic;

/* The work and the bytes of a block in one forward pass over B sequences of T tokens. */
typedef struct ls_block_cost {
    double product_flops;   /* of matmuls with weights */
    double attention_flops; /* causal: only keys that are seen count */
    double weight_bytes;    /* of all parameters in fp32; a table that head and embedding share counts in both */
    double saved_bytes;     /* of what backward needs: saved tensors, and the block's input but for the first block */
} ls_block_cost;

/* Height, width and channels of an image or feature map. */
typedef struct ls_extent {
    size_t height, width, channels;
} ls_extent;

/* Returns height × width × channels. */
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

/* A convolution without bias, and batch norm behind it: five parameters of the block. relu: the activation follows. */
typedef struct ls_conv_bn {
    ls_extent in, out;
    ls_window window;
    bool relu;
} ls_conv_bn;

/* A kind of block: one file that fills in this table, and declares in it the structs of its state. A function is NULL
 * if the kind has nothing to do. State is memory of the device; the structs that point to it are of the kind's own
 * type, which the executor allocates as so many bytes and never reads. */
typedef struct ls_block_kind {
    const char *name;
    size_t saved_bytes, kept_bytes, scratch_bytes; /* sizes of the structs that the carve functions fill in */
    bool has_wide_activation;                      /* --keep-activations can save the output of its MLP's activation */

    /* Adds the block's parameters (ls_block_add()), with names and sizes for the shape. */
    void (*declare)(ls_block *block, const ls_shape *shape);
    /* Fills in what depends on the run as well as on the shape, once, before the first pass. */
    void (*settle)(ls_block *block, const ls_nn *nn);

    /* Each of these is called once to measure an arena and once to carve it, and must take the same both times. */
    /* Takes what backward needs, for nn's rows: the classes `parts` of it (LS_SAVE_*). Other members stay as they are.
     */
    void (*carve_saved)(const ls_block *block, void *saved, const ls_nn *nn, unsigned parts, ls_arena *arena);
    /* Takes what the first phase of backward leaves for the second. */
    void (*carve_kept)(const ls_block *block, void *kept, const ls_nn *nn, ls_arena *arena);
    /* Takes what one run of the block needs; with for_backward, what its backward needs as well. `shared` has the
     * members that nn's own functions use. */
    void (*carve_scratch)(const ls_block *block, void *scratch, ls_scratch *shared, const ls_nn *nn, bool for_backward,
                          ls_arena *arena);

    /* Computes y [stream][C] from x [stream][C] (NULL for the embedding). The head writes its loss to nn's scratch.loss
     * and, with steps, the gradient of x to y; without targets it leaves logits in scratch.logits. */
    ls_status (*forward)(ls_block *block, ls_nn *nn, const float *x, float *y);
    /* Recomputes these classes of saved tensors from x. */
    ls_status (*recompute)(ls_block *block, ls_nn *nn, const float *x, unsigned parts);
    /* Turns d, the gradient of the output, into that of the input, and computes the gradients of the weights; or one of
     * the two. LS_BACKWARD_WEIGHTS does not read d. */
    ls_status (*backward)(ls_block *block, ls_nn *nn, const float *x, float *d, ls_block_pass phase);

    /* Returns whether the end of this block and the start of `next`, which runs right after it in this pass, are one
     * operation: `next` then finds its start done (ls_fusion). Both have their scratch. The bits are the same either
     * way. NULL: never. */
    bool (*fuses)(const ls_block *block, const ls_block *next, const ls_nn *nn, ls_block_pass pass);

    /* Returns the collectives of a pass that recomputes the classes `again` first. */
    ls_block_traffic (*traffic)(const ls_block *block, ls_block_pass pass, unsigned again);
    /* Adds to *cost the work beside the matmuls with weights of a forward pass over B sequences of T tokens. */
    void (*add_cost)(const ls_block *block, const ls_shape *shape, size_t B, size_t T, ls_block_cost *cost);
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
    /* State of the run at hand, in structs of the kind's own. */
    void *saved, *kept, *scratch;
};

extern const ls_block_kind ls_block_embed, ls_block_transformer, ls_block_head;
/* Of image models. The first block reads nn's images and has no gradient of its input. */
extern const ls_block_kind ls_block_conv, ls_block_dense, ls_block_stem, ls_block_residual, ls_block_classifier;

/* Adds a parameter to the block and returns the stored copy, which the caller may change until the model is complete.
 * Its name gets the block's label as prefix: "blocks.3.attn.qkv.weight". Role and unit must be new in the block. */
ls_param *ls_block_add(ls_block *block, ls_role role, ls_param param);
/* Returns the block's own parameter with this role, or NULL. A table borrowed from another block does not count. */
ls_param *ls_block_param(ls_block *block, ls_role role);
/* Returns the parameter with this role of conv_bn `unit` of the block, or NULL. */
ls_param *ls_block_unit_param(ls_block *block, ls_role role, int unit);
/* Returns the table of the vocabulary that the block reads, its own or another block's; NULL if it reads none. */
ls_param *ls_block_table(ls_block *block);
/* Returns whether that table is a parameter of another block. */
bool ls_block_borrows_table(ls_block *block);

#endif
