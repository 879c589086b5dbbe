/* calls.h: what the operations of a device (ops.h) are called with: shapes, types, pointers and strides.
 *
 * Pointers to numbers are memory of the device, unless a comment says host. Argument structs, lists of pointers and
 * bounds are memory of the host, read before the call returns. Strides count elements from one row to the next and may
 * be larger than the row. The formulas are in docs/reference/arithmetic.md, under the names of the sections.
 *
 * 16-bit tensors. Members of type void * hold elements of the type that the call names (`act`, or a dtype of their
 * own): LS_F32, LS_BF16 or LS_F16. The value 0 of a dtype is LS_F32. */
#ifndef LS_DEVICE_CALLS_H
#define LS_DEVICE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/rng.h"
#include "base/status.h"
#include "config/choices.h"
#include "device/unit.h"
#include "numerics/exact_sum.h"

/* How gradients of parameters are summed over the tokens of a call (docs/reference/arithmetic.md, "Sums over tokens").
 * The rows of the call are bounds[groups] sequences of T tokens; group g is sequences bounds[g] … bounds[g+1]−1, and
 * the sum is the tree over the groups. A gradient of a norm or a bias is [slices][C], one row for each token slice of
 * the sequences; the slices are joined once a step, by tree_rows.
 *
 * `accumulate`: the sum goes on from what is in the gradient, as if its sequences had been in front of those of this
 * call: so a group may come in any number of calls. It needs groups == 1. LS_ERR_INPUT for anything that does not fit.
 *
 * `block`: a chain over the tokens of a slice is the sum of chains over so many of them, ascending: the unit hgmma. */
typedef struct ls_token_groups {
    size_t T;
    int slices;
    int groups;           /* 1 … LS_GROUPS_MAX */
    const size_t *bounds; /* host: groups + 1 sequence numbers, ascending, the first 0 */
    const size_t *tokens; /* host: slices + 1 numbers, where the slices of a sequence end; NULL: ⌊iT/slices⌋ */
    size_t block;         /* 0: one chain */
    bool accumulate;
} ls_token_groups;

/* LS_ERR_INPUT, for any device: `what` of a type that is neither LS_F32 nor 16 bits, or not 16 bits; a tree of
 * fewer than one or more than LS_GROUPS_MAX; groups that do not fit together, or not with so many rows. */
ls_status ls_check_float(const char *what, ls_dtype dtype);
ls_status ls_check_half(const char *what, ls_dtype dtype);
ls_status ls_check_leaves(int leaves);
ls_status ls_token_groups_check(const ls_token_groups *groups);
ls_status ls_token_groups_check_rows(const ls_token_groups *groups, size_t rows);

/* ---- matmul ------------------------------------------------------------------------------------------------------ */

typedef enum ls_gemm_form { LS_GEMM_NN, LS_GEMM_NT, LS_GEMM_TN } ls_gemm_form;

enum { LS_GEMM_SLICES_MAX = 64, LS_GEMM_LEVELS_MAX = 6, LS_GEMM_SIBLINGS_MAX = 12 };

/* A matrix of patches that is nowhere stored: a row for each position (image, y, x), a column for each (tap y, tap x,
 * channel), over images [height][width][channels] one behind the other. Position p and tap t read the pixel first +
 * p·step + t·tap of each direction; pixels outside the image are +0. */
typedef struct ls_gemm_patches {
    size_t height, width, channels;
    size_t rows_y, rows_x; /* positions of an image */
    size_t taps_y, taps_x;
    ptrdiff_t first_y, first_x, step_y, step_x, tap_y, tap_x;
} ls_gemm_patches;

/* Rows that do not lie at equal distances: row (i·n1 + j)·n2 + l is i·step0 + j·step1 + l·step2 elements behind the
 * first. */
typedef struct ls_gemm_grid {
    size_t n1, n2;
    size_t step0, step1, step2;
} ls_gemm_grid;

/* What follows element by element from C as it is rounded, where ops->gemm_ends() says that a device does so. The
 * numbers are those of the activations by themselves. y[m][n] is NULL where it is not wanted. */
typedef enum ls_gemm_end {
    LS_GEMM_END_NONE,
    LS_GEMM_GELU,      /* y = gelu(C), too */
    LS_GEMM_GELU_GRAD, /* C becomes its product with the slope of GELU at pre, which lies as C does; y = gelu(pre) */
    /* In place of C its products with the slopes of silu(gate)·up, which is y; gate and up are in pre, their slopes' in
     * c, both with rows of ldc: `gate` columns of gates, then as many of up, and so on. */
    LS_GEMM_GATED_GRAD,
    LS_GEMM_GATED /* y[m][n / 2] = silu(gate)·up, too: `gate` columns of gates of C, then as many of up, and so on */
} ls_gemm_end;

typedef struct ls_gemm {
    ls_gemm_form form;
    ls_dtype dtype; /* of A and B: LS_F32, LS_BF16 or LS_F16 */
    ls_unit unit;   /* with LS_BF16: who adds; anything but LS_UNIT_CHAIN adds granules of k */
    size_t period;  /* with a unit: k is sequences of so many, and a granule ends with each; slices begin and end with
                       sequences then; 0: k is one sequence */
    size_t m, n, k;
    const void *a, *b;
    size_t lda, ldb; /* elements from one row to the next, as stored */
    void *c;
    ls_dtype c_dtype; /* LS_F32, or a 16-bit type: rounded once, last of all; not with accumulate or siblings */
    size_t ldc;       /* behind a row that ends inside 16 bytes, a GPU may write zeros to their end, if ldc has them */

    int slices;           /* 0 or 1: one chain; else up to LS_GEMM_SLICES_MAX */
    const size_t *bounds; /* slices + 1 ascending positions from 0 to k; NULL with one slice */
    bool accumulate;      /* with one slice: the chain continues from C */
    /* Each is added from the left to the finished sum, one after another; any may be C, or NULL with siblings 0. */
    int siblings;
    const float *sibling[LS_GEMM_SIBLINGS_MAX];
    size_t ldsibling;
    const float *bias; /* [n], added last, or NULL */
    ls_gemm_end end;
    void *y;
    const void *pre;
    size_t gate;

    /* For convolutions: fp32 with chains alone. NULL: as stored. */
    const ls_gemm_patches *patches; /* host: A is a matrix of patches, in form TN B is; a or b is the first image */
    const ls_gemm_grid *b_rows;     /* host, form NN: where the rows of B lie */
    const ls_gemm_grid *c_rows;     /* host: where the rows of C lie; not with accumulate or siblings */
} ls_gemm;

/* LS_ERR_INPUT where types, unit and options of a matmul do not go together, or the unit is not here. */
ls_status ls_gemm_check(const ls_gemm *g);

/* ---- images ------------------------------------------------------------------------------------------------------ */

/* Pixels of a side, and channels, at most. */
enum { LS_SIDE_MAX = 1 << 20 };

/* Windows over an image: of convolutions and of pooling. `pad` pixels are put on each side. */
typedef struct ls_window {
    size_t kernel_y, kernel_x;
    size_t stride_y, stride_x;
    size_t pad_y, pad_x;
} ls_window;

/* Windows along a side of `size` pixels; 0 where not even one fits. */
static inline size_t ls_window_count(size_t size, size_t kernel, size_t stride, size_t pad) {
    return size + 2 * pad < kernel ? 0 : (size + 2 * pad - kernel) / stride + 1;
}
static inline size_t ls_window_rows(const ls_window *w, size_t height) {
    return ls_window_count(height, w->kernel_y, w->stride_y, w->pad_y);
}
static inline size_t ls_window_columns(const ls_window *w, size_t width) {
    return ls_window_count(width, w->kernel_x, w->stride_x, w->pad_x);
}
/* LS_ERR_INPUT with a message where no window fits, or a number is 0 or larger than any image. */
ls_status ls_window_check(const ls_window *w, size_t height, size_t width);

/* Convolution, channels last:
 *
 *     x   [image][y][x][c_in]                 images one behind the other, without gaps
 *     w   [c_out][kernel_y][kernel_x][c_in]   an output is one chain along a row of it
 *     y   [image][out y][out x][c_out]
 *
 * A flattened image is the same memory: its numbers are in the order (y, x, channel).
 *
 * Forward reads x, w and bias, writes y; input_grad reads dy and w, writes dx; weight_grad reads dy and x, writes dw.
 * The gradient of a bias is that of a linear layer, over rows of c_out (bias_grad).
 *
 * A weight gradient is summed over positions (image, out y, out x) by groups, as a matmul is over k: `slices`, bounds,
 * accumulate and siblings are those of ls_gemm; dw is its C, and siblings lie like dw. */
typedef struct ls_conv_call {
    size_t images, height, width, c_in, c_out;
    ls_window window;
    const float *x, *w;
    const float *bias; /* [c_out], or NULL */
    float *y;
    const float *dy;
    float *dx, *dw;
    int slices;
    const size_t *bounds; /* host: slices + 1 numbers of positions; NULL with one slice */
    bool accumulate;
    int siblings;
    const float *sibling[LS_GEMM_SIBLINGS_MAX];
} ls_conv_call;

/* Pooling. x and dx are [image][y][x][channel], y, taps and dy are [image][out y][out x][channel]. Global pooling is a
 * window of the size of the image. A window that lies over the edge has the pixels that are there, at least one: pad <
 * kernel. Outputs overlap no input. */
typedef struct ls_pooling_call {
    size_t images, height, width, channels;
    ls_window window;
    bool count_pad; /* mean: pixels outside the image count in the divisor */
    const float *x;
    float *y;
    uint32_t *taps; /* maximum: which tap of its window it was, ky·kernel_x + kx; backward reads it */
    const float *dy;
    float *dx;
} ls_pooling_call;

/* LS_ERR_INPUT where a window has no pixel, or numbers are too large. */
ls_status ls_pooling_check(const ls_pooling_call *call);

/* Batch norm over ghost groups of images, channels last. A tensor is [image][pixel][channel]; `ghost` consecutive
 * images are a ghost group. Statistics are [group][channel], or one row for all groups where they are `shared` (running
 * statistics; those of workers that join theirs):
 *
 *     one worker    forward                                                   grad_sums → input_grad
 *     workers       sums → join → mean → squares → join → rstd → apply        grad_sums → join → input_grad
 *
 * Gradients of weight and bias are the sums of `dot` and `sum` over ghost groups, in their order, by gradient groups:
 * bias_grad with a ghost group as a sequence of one token. */
typedef struct ls_batch_norm_call {
    size_t images, pixels, channels;
    size_t ghost; /* images of a group; divides images */
    bool shared;  /* mean, rstd, and in input_grad sum and dot, are one row */
    double count; /* numbers of a channel behind these: pixels · ghost, or of all workers; 0: pixels · ghost */
    const float *x;
    const float *w, *b;    /* [channels] */
    const float *residual; /* added before ReLU, or NULL */
    bool relu;
    float *y; /* may be x or residual; backward reads it where relu is set */
    float *mean, *rstd;
    float eps;
    float *var; /* forward writes it where it is not NULL, for running statistics */
    const float *dy;
    float *dx;        /* may be dy */
    float *dresidual; /* dy behind ReLU, or NULL; may be dy unless dx is */
    float *sum, *dot; /* [group][channel]: sums of dy behind ReLU, and of its products with the normalised x */
    float *sums;      /* [group][channel], or joined: sums and squares write it, mean and rstd read it */
} ls_batch_norm_call;

/* LS_ERR_INPUT where images, pixels, channels and ghost batches make no sense. */
ls_status ls_batch_norm_check(const ls_batch_norm_call *call);

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

/* Which elements of the rows of a call are dropped: a function of (seed, purpose, step, global index) alone. So
 * backward makes the same choice again instead of storing it, and any worker may hold any rows.
 *
 * Element (row, column) of the batch has the global index row·columns + column, which is below LS_RNG_INDEX_LIMIT. A
 * call has `together` rows of each sequence of the batch; `gap` rows of the batch are between them and those of the
 * next, or 0: all rows of the call are neighbours. */
typedef struct ls_drop {
    ls_rng_key key;
    uint32_t threshold; /* elements whose number is below are dropped */
    float scale;        /* of those that are kept; 0: nothing is dropped */
    uint64_t first;     /* the first row of the call, in the batch */
    size_t together, gap;
} ls_drop;

/* Of the probability 0 ≤ p < 1 to be dropped. */
static inline uint32_t ls_dropout_threshold(double p) { return (uint32_t)(p * 0x1p32); }
static inline float ls_dropout_scale(double p) { return (float)(1.0 / (1.0 - p)); }

static inline void ls_drop_set_rate(ls_drop *drop, double p) {
    drop->threshold = ls_dropout_threshold(p);
    drop->scale = ls_dropout_scale(p);
}
/* Row r of the call, in the batch. */
static inline uint64_t ls_drop_row(const ls_drop *drop, size_t r) {
    return drop->first + r + (drop->gap ? r / drop->together * drop->gap : 0);
}

/* Dropout and the residual behind it. Strides count elements. y may be exactly x or residual. */
typedef struct ls_dropout_call {
    size_t rows, columns;
    ls_drop drop;
    const void *x;
    ls_dtype x_dtype; /* the kernel takes LS_F32 alone, and no gaps; the operation of a device any */
    size_t x_stride;
    const float *residual; /* NULL: none */
    size_t residual_stride;
    void *y;
    ls_dtype y_dtype;
    size_t y_stride;
} ls_dropout_call;

/* ---- norms and activations --------------------------------------------------------------------------------------- */

/* Rows of C elements. Forward reads x, w, b and eps, writes y, mean and rstd; backward reads dy, x, w, mean and rstd
 * (with `remake` also b and eps), writes dx; params reads dy, x, mean and rstd, writes dw and db. Backward does more
 * where it is told to, with the bits of one operation after another. */
typedef struct ls_norm_call {
    size_t rows, C;
    bool rms;     /* RMS norm: without b, db and mean; else layer norm */
    ls_dtype act; /* of y and dy */
    float eps;
    const float *x;
    size_t x_stride;
    const void *branch; /* [rows][C] of type act, as x: sum = x + branch is normalised; NULL: x is; not in params */
    float *sum;         /* [rows][C], with a branch; of backward: room for it, whatever is left there */
    ls_drop drop;       /* of branch, and of what dx_copy gets */
    const float *w, *b;
    void *y;
    size_t y_stride;
    float *mean, *rstd; /* one number for a row */
    const void *dy;
    size_t dy_stride;
    float *dx;
    size_t dx_stride;
    void *dx_copy;  /* backward: [rows][C] of a 16-bit act, as dx: gets dx, rounded; NULL: none */
    bool add;       /* backward: dx = dx + the gradient, with one addition */
    bool remake;    /* backward: y once more too */
    bool params;    /* backward: what params makes, too */
    float *dx_sums; /* with params and dx_copy: [slices][C] the gradient of a bias whose dy is dx_copy; NULL: none */
    float *dw, *db; /* [slices][C] */
    const ls_token_groups *groups;
} ls_norm_call;

/* Backward of ReLU and the sigmoid reads the result of forward, that of the others what forward read. */
typedef enum ls_act_fn { LS_ACT_GELU, LS_ACT_SILU, LS_ACT_RELU, LS_ACT_SIGMOID, LS_ACT_FNS } ls_act_fn;

/* y = fn(x); backward y is the gradient of x, from dy and x. */
typedef struct ls_act_call {
    ls_act_fn fn;
    void *y;
    const void *dy, *x;
    ls_dtype act;
    size_t n;
} ls_act_call;

/* y = silu(gate)·up. Backward reads dy, gate and up, writes dgate and dup. */
typedef struct ls_gated_call {
    size_t rows, columns;
    ls_dtype act; /* of all */
    const void *gate, *up;
    size_t in_stride;
    void *y;
    size_t y_stride;
    const void *dy;
    size_t dy_stride;
    void *dgate, *dup;
    size_t din_stride;
} ls_gated_call;

/* pre = c + bias, y = gelu(pre) */
typedef struct ls_bias_gelu_call {
    size_t rows, columns;
    const float *c;
    size_t c_stride;
    const float *bias;
    float *pre;
    size_t pre_stride;
    float *y;
    size_t y_stride;
} ls_bias_gelu_call;

/* y[r] = c[r] + bias, for rows of `columns` elements; without bias (NULL) a conversion. In fp32 y may be c. */
typedef struct ls_bias_add_call {
    void *y;
    ls_dtype act;
    size_t y_stride;
    const float *c;
    size_t c_stride;
    const float *bias;
    size_t rows, columns;
} ls_bias_add_call;

typedef struct ls_bias_grad_call {
    float *db; /* [slices][columns] */
    const void *dy;
    ls_dtype act;
    size_t dy_stride, columns;
    const ls_token_groups *groups;
} ls_bias_grad_call;

/* ---- embedding --------------------------------------------------------------------------------------------------- */

/* A table of token rows may be a part of the vocabulary: it holds the rows of ids id_begin … id_end−1, and tokens
 * outside of it are passed over: their output is left alone and their gradient goes nowhere. Tables have C elements a
 * row; dy and y have strides. Nothing overlaps. */
typedef struct ls_embed_tokens {
    const int32_t *ids; /* one for each row */
    int32_t id_begin, id_end;
    size_t rows, C;
} ls_embed_tokens;

/* Row r has the position (position0 + r) mod period. `position` NULL: a copy of the token row. */
typedef struct ls_embed_call {
    float *y;
    size_t y_stride;
    const void *token;
    ls_dtype token_dtype;
    const float *position;
    size_t position0, period;
    const ls_embed_tokens *tokens; /* their ids are memory of the device */
} ls_embed_call;

/* Of each id that is looked up: dtoken[id] = sum + dtoken[id], where dtoken holds −0 or the gradient of another use of
 * the table; with accumulate the sum goes on from dtoken[id]. Slices do not matter. */
typedef struct ls_token_grad_call {
    float *dtoken;
    const float *dy;
    size_t dy_stride;
    const ls_embed_tokens *tokens;
    const ls_token_groups *groups;
} ls_token_grad_call;

/* dposition[t], t < T, is the sum over the sequences. Slices do not matter. */
typedef struct ls_position_grad_call {
    float *dposition;
    const float *dy;
    size_t dy_stride, C;
    const ls_token_groups *groups;
} ls_position_grad_call;

/* Rotary embedding. Row r of a call has the position (position0 + r) mod period. So rows of several sequences of
 * `period` rows go in one call, and one row during generation passes its position with the period of the table.
 *
 * Row r and head h of x start at x + r·x_row_stride + h·x_head_stride; the same for y, which may be exactly x. */
typedef struct ls_rope_call {
    ls_dtype act; /* of x and y: the kernel takes LS_F32 alone; the operation of a device any */
    void *y;
    size_t y_row_stride, y_head_stride;
    const void *x;
    size_t x_row_stride, x_head_stride;
    size_t rows, heads, d;  /* d is even */
    const float *cos, *sin; /* tables [period][d/2] */
    size_t position0, period;
} ls_rope_call;

/* ---- loss -------------------------------------------------------------------------------------------------------- */

/* Softmax cross-entropy of rows of logits, of which this worker holds some or all columns. Slice i is columns
 * bounds[i] … bounds[i+1]−1 of z, and column 0 is that of id id_begin.
 *
 * Who holds whole rows calls loss_rows. Workers that share rows:
 *
 *     loss_max → gather m and z_target, max → loss_sums → gather sums, tree_sum → l → loss_values, loss_grad
 *
 * 16-bit logits are those of the unit hgmma, whose sums have an order of their own; dz is of their type then, and there
 * are at most LS_GEMM_SLICES_MAX slices. */
typedef struct ls_loss_call {
    size_t rows;
    const void *z;
    ls_dtype z_dtype;
    size_t z_stride;
    const size_t *bounds; /* host, slices + 1 of them */
    size_t slices;
    const int32_t *targets; /* one id for a row */
    int32_t id_begin;
    float *m, *l, *loss; /* one number for a row */
    float *z_target;     /* one number for a row: the logit of the target, −inf where another worker has it */
    float *sums;         /* [slices][rows] */
    void *dz;            /* may be z: then its rows begin where those of z do, whatever its type */
    ls_dtype dz_dtype;
    size_t dz_stride;
    float g; /* the power of two with which backward starts */
} ls_loss_call;

/* LS_ERR_INPUT where the types of z and dz do not go together. */
ls_status ls_check_loss(const ls_loss_call *call);

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Causal attention. Query head h reads key/value head h / (heads / kv_heads). A query at position t sees the keys
 * 0 … t. Memory stays linear in T: forward keeps m (the maximum) and l (the sum) of each query and head, backward makes
 * the weights anew.
 *
 * Tensors are strided, so that q, k and v may lie in one fused buffer; a cache of keys and values for generation is
 * read fastest where the rows of a head are neighbours. Outputs are overwritten, not added to, and do not overlap any
 * input. No alignment beyond the element's is needed. */

/* Element i of a head's row is at[row·row_stride + head·head_stride + i]. */
typedef struct ls_attention_in {
    const void *at;
    size_t row_stride, head_stride;
} ls_attention_in;

typedef struct ls_attention_out {
    void *at;
    size_t row_stride, head_stride;
} ls_attention_out;

/* Dropout of the weights. Whether that of a pair of query and key is kept is a function of the key and the pair's index
 * ((head0 + head)·T + query)·T + key alone, which is below LS_RNG_INDEX_LIMIT. Backward makes the same choice again. */
typedef struct ls_attention_drop {
    ls_rng_key key;
    uint32_t threshold; /* weights whose number is below are dropped: ls_drop */
    float scale;        /* of those that are kept; 0: there is no dropout */
    uint64_t head0;     /* the number of head 0, counted over all sequences and heads of the batch */
    uint64_t heads;     /* of a sequence, those of other parts and workers too */
} ls_attention_drop;

/* The tensors of one sequence. Rows of k, v, dk and dv are positions 0 … T−1; rows of the others are positions
 * first_query … T−1. Generation with a cache of keys has first_query > 0; backward needs first_query = 0. */
typedef struct ls_attention {
    size_t T, heads, kv_heads, head_size; /* kv_heads divides heads; head_size ≥ 1 */
    size_t first_query;
    ls_dtype act; /* of q, k, v, o and their gradients; weights and dS are rounded to it where matmuls read them */
    ls_unit unit; /* with LS_BF16: who multiplies */
    float scale;  /* > 0, finite */
    ls_attention_drop drop;
    ls_attention_in q, k, v;
    ls_attention_out o;
    float *m, *l, *dots; /* one number for a query and head: [head·stat_stride + row]; dots is D of the contract */
    size_t stat_stride;
    ls_attention_in dout; /* the gradient of o; this and the rest is for backward alone */
    ls_attention_out dq, dk, dv;
} ls_attention;

/* B sequences of one length. A row of a fused projection may be cut into slices, each with some of the heads: a part is
 * one of them, with its own numbers of heads, pointers and strides; T, head_size and first_query are the same in all.
 * From one sequence to the next it is, in every part, query_rows rows in q, o, dout and dq, key_rows rows in k, v, dk
 * and dv, and stat_elems numbers in m, l and dots. */
typedef struct ls_attention_call {
    const ls_attention *parts; /* host, nparts ≥ 1 of them: the tensors of sequence 0 */
    int nparts;
    size_t B;
    size_t query_rows, key_rows, stat_elems;
} ls_attention_call;

/* ---- optimizers -------------------------------------------------------------------------------------------------- */

enum { LS_SQUARE_BLOCK = 1024, LS_MOMENTS_MAX = 2 };

/* An update rule and its scalars, of which each rule reads its own (docs/reference/arithmetic.md, "Step"). Formed in
 * double by the caller and rounded once. */
typedef struct ls_update_step {
    ls_optimizer_kind rule;
    float factor;            /* f */
    float rate;              /* AdamW: a; SGD: lr */
    float beta1, beta1_rest; /* AdamW: β1, 1 − β1 */
    float beta2, beta2_rest;
    float root; /* r */
    float epsilon;
    float decay;                  /* 1 − lr·wd */
    float momentum, weight_decay; /* SGD */
    bool nesterov;
} ls_update_step;

/* State sums (numerics/state_sum.h) of weights and moments: of w and of each moment one, in this order. */
enum { LS_STATE_TENSORS = 1 + LS_MOMENTS_MAX };

typedef struct ls_state_piece {
    ls_hash128 *out; /* grows */
    const float *x;
    uint64_t tensor, first; /* number of the tensor; x[0] is its element `first` */
    size_t n;
} ls_state_piece;

typedef struct ls_state_sums_call {
    const ls_state_piece *pieces; /* host */
    int count;
} ls_state_sums_call;

/* The sums of what an update writes, made while it is at hand. */
typedef struct ls_update_sums {
    ls_hash128 *once, *rest; /* LS_STATE_TENSORS each, which grow; NULL: not asked for */
    size_t begin, end;       /* elements of the piece that go to `once`; the others go to `rest` */
    uint64_t tensor, first;  /* number of w, those of the moments follow; place of the piece in the tensor */
    ls_hash128 *copy;        /* of `copy`, by twos, as tensor copy_tensor, while it is written; NULL: not asked for */
    uint64_t copy_tensor;
} ls_update_sums;

/* Sums of blocks of LS_CHECK_BLOCK elements, made of a block as it is written. An update compares them before it
 * overwrites the block: one that differs stays as it is, and is noted. */
enum { LS_CHECK_BLOCK = 2048 };
typedef struct ls_update_check {
    uint64_t *sums;   /* of the whole tensor: LS_STATE_TENSORS for each block; NULL: none are kept */
    uint64_t *damage; /* becomes the largest ls_damage_word() of blocks that differ; NULL: nothing is compared */
} ls_update_check;

/* Sums of a tensor's blocks. A device may keep two sums of a block where elements of it go to two sums of state. */
static inline size_t ls_check_sums(size_t elems) {
    return elems > 0 ? (elems / LS_CHECK_BLOCK + 3) * (size_t)LS_STATE_TENSORS : 0;
}

typedef struct ls_damage {
    uint32_t name; /* of the tensor */
    int state;     /* 0: w, 1 and 2: moments */
    uint64_t block;
} ls_damage;

enum { LS_DAMAGE_BLOCK_BITS = 32, LS_DAMAGE_STATE_BITS = 2 };
/* Never 0, and larger for what comes earlier in the order of names, states and blocks. */
static inline uint64_t ls_damage_word(ls_damage d) {
    return ~((((uint64_t)d.name << LS_DAMAGE_STATE_BITS) | (uint64_t)d.state) << LS_DAMAGE_BLOCK_BITS | d.block);
}
static inline ls_damage ls_damage_read(uint64_t word) {
    uint64_t d = ~word;
    return (ls_damage){.name = (uint32_t)(d >> (LS_DAMAGE_BLOCK_BITS + LS_DAMAGE_STATE_BITS)),
                       .state = (int)(d >> LS_DAMAGE_BLOCK_BITS & ((1u << LS_DAMAGE_STATE_BITS) - 1)),
                       .block = d & UINT32_MAX};
}

typedef enum ls_update_mode {
    LS_UPDATE_STEP,   /* compares block sums, applies the rule, and makes all sums of what it writes */
    LS_UPDATE_CHECK,  /* compares block sums */
    LS_UPDATE_RECORD, /* makes all sums of what is there */
} ls_update_mode;

/* A tensor and its moments, of which the rule says how many there are: AdamW has m and v, SGD its momentum or none.
 * `copy` gets the new w, rounded to a 16-bit type; NULL: none. */
typedef struct ls_update_piece {
    float *w;
    float *moment[LS_MOMENTS_MAX]; /* NULL behind the last */
    void *copy;
    ls_dtype copy_dtype;
    const float *g;
    const ls_update_step *step; /* host */
    size_t n;
    ls_update_sums sums;     /* zeroed: none */
    ls_update_mode mode;     /* but for LS_UPDATE_STEP, `g` and `copy` are not used */
    ls_update_check check;   /* zeroed: none; with sums.tensor and sums.first, and pieces of whole blocks */
    _Atomic uint64_t *cells; /* of a CPU: how far the update of the whole tensor has come (cpu/journal.h); NULL: none */
    uint64_t name;           /* of the tensor there, */
    size_t first;            /* and its element with which the piece begins; multiple of LS_CHECK_BLOCK with `check` */
} ls_update_piece;

/* One pass over each piece. A model has hundreds of them, most of them small: one call for all is one launch. */
typedef struct ls_update_call {
    const ls_update_piece *pieces; /* host */
    int count;
} ls_update_call;
/* LS_ERR_INPUT for a copy that does not have 16 bits. */
ls_status ls_check_update(const ls_update_call *call);

/* The sums of elements begin … end − 1 of a piece as pieces of their own; their number. */
enum { LS_UPDATE_STATE_MAX = 3 * LS_STATE_TENSORS };
int ls_update_state_pieces(const ls_update_piece *piece, size_t begin, size_t end,
                           ls_state_piece out[LS_UPDATE_STATE_MAX]);

/* ---- flat arrays ------------------------------------------------------------------------------------------------- */

/* y = x·factor; y may be x. */
typedef struct ls_scale_call {
    float *y;
    const float *x;
    float factor;
    size_t n;
} ls_scale_call;

/* Every element becomes `value`: −0 for a buffer of sums, which no byte can fill in. */
typedef struct ls_set_call {
    float *y;
    float value;
    size_t n;
} ls_set_call;

/* Between LS_F32 and LS_BF16 or LS_F16; LS_ERR_INPUT for any other pair. */
typedef struct ls_convert_call {
    void *out;
    ls_dtype to;
    const void *in;
    ls_dtype from;
    size_t n;
} ls_convert_call;

/* y = x rounded to a 16-bit type, as fp32; y may be x. */
typedef struct ls_round_call {
    float *y;
    const float *x;
    ls_dtype to;
    size_t n;
} ls_round_call;

/* y = a + b */
typedef struct ls_add_call {
    float *y;
    const float *a;
    const void *b;
    ls_dtype b_dtype;
    size_t n;
} ls_add_call;

/* Rows of `bytes` bytes, to_stride and from_stride bytes from one to the next. They do not overlap. */
typedef struct ls_copy_rows_call {
    void *to;
    size_t to_stride;
    const void *from;
    size_t from_stride;
    size_t rows, bytes;
} ls_copy_rows_call;

/* The tree over contributions of `elems` elements each: LS_F32, or LS_BF16 or LS_F16, which are widened. 1 ≤ leaves ≤
 * LS_GROUPS_MAX, else LS_ERR_INPUT. `out` may be one of the fp32 contributions. */
typedef struct ls_tree_sum_call {
    float *out;
    const void *const *contributions;
    ls_dtype dtype;
    int leaves;
    size_t elems;
} ls_tree_sum_call;

/* Of each piece, rows[leaves][n]: its first row becomes the tree over its rows. 1 ≤ leaves ≤ LS_GROUPS_MAX, else
 * LS_ERR_INPUT. A model has hundreds of vectors whose token slices are joined once a step: one call is for many. */
typedef struct ls_tree_rows_piece {
    float *rows;
    size_t n;
} ls_tree_rows_piece;

typedef struct ls_tree_rows_call {
    const ls_tree_rows_piece *pieces;
    int count, leaves;
} ls_tree_rows_call;

/* out[i] = the maximum of inputs[0][i] … inputs[count−1][i]. 1 ≤ count ≤ LS_WORKERS_MAX, else LS_ERR_INPUT. `out` may
 * be one of the inputs. */
typedef struct ls_max_call {
    float *out;
    const float *const *inputs;
    int count;
    size_t elems;
} ls_max_call;

/* ---- sums, counts and checks ---------------------------------------------------------------------------------------
 *
 * Their results are few numbers of memory of the device, where they wait until the host reads many of them at once. */

typedef struct ls_square_piece {
    const float *x;
    size_t n;
} ls_square_piece;

/* Adds Σ x² of each block of LS_SQUARE_BLOCK elements of each piece, in double, to the exact sum whose LS_EXACT_WORDS
 * words are at `words` (numerics/exact_sum.h). Carries are not passed on: at most 2^29 blocks until somebody settles
 * the sum. A model has hundreds of pieces, most of them small: one call for all is one launch. */
typedef struct ls_square_sums_call {
    int64_t *words;
    const ls_square_piece *pieces;
    int count;
} ls_square_sums_call;

/* Adds the losses of sequences of T tokens, without the first `context` of each. */
typedef struct ls_add_losses_call {
    ls_loss_sum *sum;
    const float *loss;
    size_t sequences, T, context;
} ls_add_losses_call;

/* *right grows by the rows of logits whose largest, the first of equal ones, is that of the target. A NaN is larger
 * than nothing, and nothing than a NaN in column 0. */
typedef struct ls_count_right_call {
    int64_t *right;
    const float *z;
    size_t z_stride, rows, columns;
    const int32_t *targets; /* one column for a row */
} ls_count_right_call;

/* What is counted of fp32 numbers x, with the fp32 product p = x·scale and a type that they may be rounded to. */
typedef enum ls_count {
    LS_COUNT_FLUSHED, /* x ≠ 0, but p rounds to ±0 */
    LS_COUNT_HIGH,    /* |p| ≥ 2^−4 · the largest finite number; infinity too */
    LS_COUNT_NONZERO, /* x ≠ 0; NaN too */
    LS_COUNT_BAD,     /* x is not finite */
    LS_COUNTS
} ls_count;

/* Adds to out[LS_COUNTS]. */
typedef struct ls_count_call {
    int64_t *out;
    const float *x;
    float scale;
    ls_dtype type;
    size_t n;
} ls_count_call;

/* before = after − before, of weights before and after an update. *lost grows by the elements that an update left as
 * they were though it was not 0: by[i] ≠ 0 says so. */
typedef struct ls_difference_call {
    float *before;
    const float *after, *by;
    int64_t *lost;
    size_t n;
} ls_difference_call;

/* The hash of `bytes` bytes: that of the hashes of its pieces. */
typedef struct ls_hash_call {
    ls_hash128 *out;
    const void *x;
    size_t bytes;
} ls_hash_call;

/* out[i] = the hash, as ls_hash_f32() has it, of block i of LS_SQUARE_BLOCK elements, the last of what is left. */
typedef struct ls_hash_blocks_call {
    ls_hash128 *out;
    const void *x;
    ls_dtype dtype; /* of x, whose numbers are hashed as fp32 */
    size_t n;
} ls_hash_blocks_call;

/* *index becomes that of the first element that is not finite, LS_ALL_FINITE where there is none. */
#define LS_ALL_FINITE UINT64_MAX
typedef struct ls_find_bad_call {
    const void *x;
    ls_dtype dtype;
    size_t n;
    uint64_t *index;
} ls_find_bad_call;

#endif
