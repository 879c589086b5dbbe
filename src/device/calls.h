/* calls.h: the arguments of the operations of a device (ops.h): shapes, types, pointers and strides. Blocks of a model
 * (nn/), the optimizer and the guards fill these structs and pass them to device->ops.
 *
 * Each list LS_ARGS_type declares the struct `type`; args.h explains the kinds of arguments. A struct serves forward
 * and backward: ops.h says what each operation reads and writes of it, and the other members are ignored.
 *
 * Three words recur. A group is a fixed part of the global batch; gradients of groups are added by one fixed balanced
 * tree (numerics/tree.h), so that sums have the same bits on any number of workers. A slice is a fixed part of a matrix
 * or of a sequence, whose sums are joined by the same tree. A chain is a sum of products in ascending order, one fused
 * multiply-add after another. The contract is docs/reference/arithmetic.md, which fixes the order of every operation.
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
#include "device/args.h"
#include "device/mask.h"
#include "device/unit.h"
#include "numerics/exact_sum.h"

/* How gradients of parameters are summed over the tokens of a call (docs/reference/arithmetic.md, "Sums over tokens").
 * The rows of the call are bounds[groups] sequences of T tokens; group g is sequences bounds[g] … bounds[g+1]−1, and
 * the sum is the tree over the groups. A gradient of a norm or a bias is [slices][C], one row for each token slice of
 * the sequences; the slices are joined once a step, by tree_rows.
 *
 * `accumulate`: the sum continues from what the gradient holds, as if the sequences of earlier calls stood in front of
 * those of this one. So a group may come in any number of calls. It needs groups == 1, else LS_ERR_INPUT.
 *
 * `block`: tokens of a chain. The tokens of a slice are cut into blocks of so many, each block is a chain, and the
 * chains are added in order. 0: the slice is one chain. With tensor cores the layers ask for blocks of 64. */
#define LS_ARGS_ls_token_groups(X)                                                                                     \
    X(SIZE, T)                                                                                                         \
    X(VALUE, int, slices)                                                                                              \
    X(VALUE, int, groups)                          /* 1 … LS_GROUPS_MAX */                                           \
    X(LIST, size_t, bounds, (size_t)c->groups + 1) /* sequence numbers, ascending, the first 0 */                      \
    X(LIST, size_t, tokens, (size_t)c->slices + 1) /* where the slices of a sequence end; NULL: ⌊iT/slices⌋ */     \
    X(SIZE, block)                                 /* 0: one chain */                                                  \
    X(VALUE, bool, accumulate)
LS_DECLARE_ARGS(ls_token_groups);

/* The checks of this file hold for every device: they return LS_OK, or LS_ERR_INPUT with a message. `what` is the
 * subject of the message. */

/* Checks that a type is LS_F32, LS_BF16 or LS_F16. */
ls_status ls_check_float(const char *what, ls_dtype dtype);
/* Checks that a type is LS_BF16 or LS_F16. */
ls_status ls_check_half(const char *what, ls_dtype dtype);
/* Checks that the number of contributions to a tree sum is 1 … LS_GROUPS_MAX. */
ls_status ls_check_leaves(int leaves);
/* Checks that the numbers of groups, slices and tokens are valid, that the bounds of groups and slices begin at 0 and
 * never fall, and that a call that accumulates has one group. */
ls_status ls_token_groups_check(const ls_token_groups *groups);
/* Checks groups as ls_token_groups_check() does, and that their sequences have exactly `rows` rows. */
ls_status ls_token_groups_check_rows(const ls_token_groups *groups, size_t rows);

/* ---- matmul ------------------------------------------------------------------------------------------------------ */

/* Whether A and B are stored as they are (N) or transposed (T): NN is C = A·B, NT is C = A·Bᵀ, TN is C = Aᵀ·B. */
typedef enum ls_gemm_form { LS_GEMM_NN, LS_GEMM_NT, LS_GEMM_TN, LS_GEMM_FORMS } ls_gemm_form;
extern const char *const ls_gemm_form_names[LS_GEMM_FORMS];

/* Slices of k at most, levels of the tree over them (2^6 = 64), and siblings of one call. */
enum { LS_GEMM_SLICES_MAX = 64, LS_GEMM_LEVELS_MAX = 6, LS_GEMM_SIBLINGS_MAX = 12 };

/* A matrix of patches (im2col) that is not stored: a row for each position (image, y, x), a column for each (tap y, tap
 * x, channel), over images [height][width][channels] one behind the other. Position p and tap t read the pixel first +
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

/* The epilogue of a matmul: an activation of each element of C as it is rounded, allowed only if ops->gemm_ends()
 * returns true. The bits are those of the activation as a separate operation. A NULL y[m][n] is not written. */
typedef enum ls_gemm_end {
    LS_GEMM_END_NONE,
    LS_GEMM_GELU,      /* writes C, and y = gelu(C) */
    LS_GEMM_GELU_GRAD, /* C is multiplied by the slope of GELU at pre[m][n], whose rows are ldc apart; y = gelu(pre) */
    /* The matmul computes the gradient of silu(gate)·up. c receives the gradients of gate and up, whose values are read
     * from pre. Rows of c and pre are ldc apart: `gate` columns of gate, then as many of up, and so on. */
    LS_GEMM_GATED_GRAD,
    LS_GEMM_GATED /* writes C (`gate` columns of gate, as many of up, and so on), and y[m][n / 2] = silu(gate)·up */
} ls_gemm_end;

/* C[m][n] = A·B, where k is cut into `slices` whose sums are joined by the tree; then the siblings, the bias and the
 * epilogue, in this order. Weight gradients pass groups as slices of k, and as siblings the subtrees of earlier groups.
 */
#define LS_ARGS_ls_gemm(X)                                                                                             \
    X(VALUE, ls_gemm_form, form)                                                                                       \
    X(VALUE, ls_dtype, dtype) /* of A and B: LS_F32, LS_BF16 or LS_F16 */                                              \
    X(VALUE, ls_unit, unit)   /* the matrix unit, for 16-bit operands (ls_unit_takes()); it adds granules of k */      \
    /* With a unit: k consists of sequences of `period` values; a granule ends with each, and slices begin and end     \
     * with sequences. 0: k is one sequence */                                                                         \
    X(SIZE, period)                                                                                                    \
    X(SIZE, m)                                                                                                         \
    X(SIZE, n)                                                                                                         \
    X(SIZE, k)                                                                                                         \
    X(IN_AS, c->dtype, a, LS_WHOLE)                                                                                    \
    X(IN_AS, c->dtype, b, LS_WHOLE)                                                                                    \
    /* Leading dimensions: elements from one row to the next, as stored */                                             \
    X(STRIDE, lda)                                                                                                     \
    X(STRIDE, ldb)                                                                                                     \
    X(OUT_AS, c->c_dtype, c, LS_WHOLE)                                                                                 \
    /* LS_F32, or a 16-bit type: rounded once, last of all; not with accumulate or siblings */                         \
    X(VALUE, ls_dtype, c_dtype)                                                                                        \
    X(STRIDE, ldc)        /* a GPU may write zeros behind a row, up to a multiple of 16 bytes, if ldc leaves room */   \
    X(VALUE, int, slices) /* 0 or 1: one chain; else up to LS_GEMM_SLICES_MAX */                                       \
    /* Ascending positions from 0 to k; NULL with one slice */                                                         \
    X(LIST, size_t, bounds, c->slices > 1 ? (size_t)c->slices + 1 : 0)                                                 \
    X(VALUE, bool, accumulate) /* with one slice: the chain continues from C */                                        \
    X(VALUE, int, siblings)    /* each is added from the left to the finished sum, one after another; any may be C */  \
    X(INS, float, sibling, LS_GEMM_SIBLINGS_MAX, c->siblings)                                                          \
    X(STRIDE, ldsibling)                                                                                               \
    X(IN, float, bias, LS_WHOLE) /* [n], added last, or NULL */                                                        \
    X(VALUE, ls_gemm_end, end)                                                                                         \
    X(OUT_AS, c->c_dtype, y, LS_WHOLE)                                                                                 \
    X(IN_AS, c->c_dtype, pre, LS_WHOLE)                                                                                \
    X(SIZE, gate)                                                                                                      \
    /* For convolutions: fp32 with chains alone. NULL: as stored. */                                                   \
    X(LIST, ls_gemm_patches, patches, 1) /* A is a matrix of patches, in form TN B is; a or b is the first image */    \
    X(LIST, ls_gemm_grid, b_rows, 1)     /* form NN: where the rows of B lie */                                        \
    X(LIST, ls_gemm_grid, c_rows, 1)     /* where the rows of C lie; not with accumulate or siblings */
LS_DECLARE_ARGS(ls_gemm);

/* Checks that types, unit, epilogue and options of a matmul go together, and that this CPU has the matrix unit (tensor
 * cores, which a CPU emulates, always). LS_ERR_INPUT if not. Does not check sizes, pointers, or whether the device has
 * this epilogue. */
ls_status ls_gemm_check(const ls_gemm *g);

/* ---- images ------------------------------------------------------------------------------------------------------ */

/* Pixels of a side, and channels, at most. */
enum { LS_SIDE_MAX = 1 << 20 };

/* Windows over an image: the receptive fields of convolutions and of pooling, in pixels. `pad` pixels are added on each
 * side. */
typedef struct ls_window {
    size_t kernel_y, kernel_x;
    size_t stride_y, stride_x;
    size_t pad_y, pad_x;
} ls_window;

/* Returns how many windows lie along a side of `size` pixels; 0 if none fits. */
static inline size_t ls_window_count(size_t size, size_t kernel, size_t stride, size_t pad) {
    return size + 2 * pad < kernel ? 0 : (size + 2 * pad - kernel) / stride + 1;
}
/* Returns the height of the output: the number of windows from top to bottom. */
static inline size_t ls_window_rows(const ls_window *w, size_t height) {
    return ls_window_count(height, w->kernel_y, w->stride_y, w->pad_y);
}
/* Returns the width of the output. */
static inline size_t ls_window_columns(const ls_window *w, size_t width) {
    return ls_window_count(width, w->kernel_x, w->stride_x, w->pad_x);
}
/* Checks that at least one window fits, that sizes and strides are 1 … LS_SIDE_MAX, and the padding at most that. */
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
#define LS_ARGS_ls_conv_call(X)                                                                                        \
    X(SIZE, images)                                                                                                    \
    X(SIZE, height)                                                                                                    \
    X(SIZE, width)                                                                                                     \
    X(SIZE, c_in)                                                                                                      \
    X(SIZE, c_out)                                                                                                     \
    X(VALUE, ls_window, window)                                                                                        \
    X(IN, float, x, LS_WHOLE)                                                                                          \
    X(IN, float, w, LS_WHOLE)                                                                                          \
    X(IN, float, bias, LS_WHOLE) /* [c_out], or NULL */                                                                \
    X(OUT, float, y, LS_WHOLE)                                                                                         \
    X(IN, float, dy, LS_WHOLE)                                                                                         \
    X(OUT, float, dx, LS_WHOLE)                                                                                        \
    X(OUT, float, dw, LS_WHOLE)                                                                                        \
    X(VALUE, int, slices)                                                                                              \
    /* Numbers of positions; NULL with one slice */                                                                    \
    X(LIST, size_t, bounds, c->slices > 1 ? (size_t)c->slices + 1 : 0)                                                 \
    X(VALUE, bool, accumulate)                                                                                         \
    X(VALUE, int, siblings)                                                                                            \
    X(INS, float, sibling, LS_GEMM_SIBLINGS_MAX, c->siblings)
LS_DECLARE_ARGS(ls_conv_call);

/* Pooling. x and dx are [image][y][x][channel], y, taps and dy are [image][out y][out x][channel]. Global pooling is a
 * window of the size of the image. A window that lies over the edge has the pixels that are there, at least one: pad <
 * kernel. Outputs overlap no input. */
#define LS_ARGS_ls_pooling_call(X)                                                                                     \
    X(SIZE, images)                                                                                                    \
    X(SIZE, height)                                                                                                    \
    X(SIZE, width)                                                                                                     \
    X(SIZE, channels)                                                                                                  \
    X(VALUE, ls_window, window)                                                                                        \
    X(VALUE, bool, count_pad) /* mean: pixels outside the image count in the divisor */                                \
    X(IN, float, x, LS_WHOLE)                                                                                          \
    X(OUT, float, y, LS_WHOLE)                                                                                         \
    /* maximum: which tap of its window it was, ky·kernel_x + kx; backward reads it */                                \
    X(OUT, uint32_t, taps, LS_WHOLE)                                                                                   \
    X(IN, float, dy, LS_WHOLE)                                                                                         \
    X(OUT, float, dx, LS_WHOLE)
LS_DECLARE_ARGS(ls_pooling_call);

/* Checks the windows and channels, as ls_window_check() does; the padding must be less than the kernel, so that every
 * window covers a pixel. */
ls_status ls_pooling_check(const ls_pooling_call *call);

/* Batch norm over ghost groups of images (ghost batch norm: each group of images has statistics of its own), channels
 * last. A tensor is [image][pixel][channel]; `ghost` consecutive
 * images are a ghost group. Statistics are [group][channel], or one row for all groups where they are `shared` (running
 * statistics; those of workers that join theirs):
 *
 *     one worker    forward                                                   grad_sums → input_grad
 *     workers       sums → join → mean → squares → join → rstd → apply        grad_sums → join → input_grad
 *
 * Gradients of weight and bias are the sums of `dot` and `sum` over ghost groups, in their order, by gradient groups:
 * bias_grad with a ghost group as a sequence of one token. */
#define LS_ARGS_ls_batch_norm_call(X)                                                                                  \
    X(SIZE, images)                                                                                                    \
    X(SIZE, pixels)                                                                                                    \
    X(SIZE, channels)                                                                                                  \
    X(SIZE, ghost)         /* images of a group; divides images */                                                     \
    X(VALUE, bool, shared) /* mean, rstd, and in input_grad sum and dot, are one row */                                \
    /* Numbers of a channel behind these: pixels · ghost, or of all workers; 0: pixels · ghost */                    \
    X(VALUE, double, count)                                                                                            \
    X(IN, float, x, c->pixels * c->channels) /* a row of the call is an image */                                       \
    /* [channels] */                                                                                                   \
    X(IN, float, w, LS_WHOLE)                                                                                          \
    X(IN, float, b, LS_WHOLE)                                                                                          \
    X(IN, float, residual, c->pixels * c->channels) /* added before ReLU, or NULL */                                   \
    X(VALUE, bool, relu)                                                                                               \
    X(OUT, float, y, c->pixels * c->channels) /* may be x or residual; backward reads it where relu is set */          \
    X(OUT, float, mean, LS_WHOLE)                                                                                      \
    X(OUT, float, rstd, LS_WHOLE)                                                                                      \
    X(VALUE, float, eps)                                                                                               \
    X(OUT, float, var, LS_WHOLE) /* forward writes it where it is not NULL, for running statistics */                  \
    X(IN, float, dy, c->pixels * c->channels)                                                                          \
    X(OUT, float, dx, c->pixels * c->channels)        /* may be dy */                                                  \
    X(OUT, float, dresidual, c->pixels * c->channels) /* dy behind ReLU, or NULL; may be dy unless dx is */            \
    /* [group][channel]: sums of dy behind ReLU, and of its products with the normalised x */                          \
    X(OUT, float, sum, LS_WHOLE)                                                                                       \
    X(OUT, float, dot, LS_WHOLE)                                                                                       \
    /* [group][channel], or joined: sums and squares write it, mean and rstd read it */                                \
    X(OUT, float, sums, LS_WHOLE)
LS_DECLARE_ARGS(ls_batch_norm_call);

/* Checks that the sizes are at least 1 (there may be no images), that the images are whole ghost groups, and that
 * `count` is 0 … 1e15. */
ls_status ls_batch_norm_check(const ls_batch_norm_call *call);

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

/* Which elements of the rows of a call are dropped: a function of (seed, purpose, step, global index) alone. So
 * backward makes the same choice again instead of storing it, and any worker may hold any rows.
 *
 * Element (row, column) of the batch has the global index row·columns + column, which is below LS_RNG_INDEX_LIMIT. A
 * worker may hold only a part of each sequence (sequence parallel): a call has `together` consecutive rows of each
 * sequence, and skips `gap` rows of the batch before the next ones. `gap` 0: all rows of the call are consecutive. */
typedef struct ls_drop {
    ls_rng_key key;
    uint32_t threshold; /* an element is dropped if its 32-bit random number is below this */
    float scale;        /* factor of the elements that are kept, 1 / (1 − p); 0: there is no dropout */
    uint64_t first;     /* number, in the batch, of the first row of the call */
    size_t together, gap;
} ls_drop;

/* Returns ls_drop.threshold (p·2^32) for the probability 0 ≤ p < 1 that an element is dropped. */
static inline uint32_t ls_dropout_threshold(double p) { return (uint32_t)(p * 0x1p32); }
/* Returns ls_drop.scale, 1 / (1 − p) rounded to fp32. */
static inline float ls_dropout_scale(double p) { return (float)(1.0 / (1.0 - p)); }

/* Sets the threshold and the scale of *drop for this probability to be dropped. */
static inline void ls_drop_set_rate(ls_drop *drop, double p) {
    drop->threshold = ls_dropout_threshold(p);
    drop->scale = ls_dropout_scale(p);
}
/* Returns the number in the batch of row r of the call. */
static inline uint64_t ls_drop_row(const ls_drop *drop, size_t r) {
    return drop->first + r + (drop->gap ? r / drop->together * drop->gap : 0);
}

/* Dropout and the residual behind it. Strides count elements. y may be exactly x or residual. */
#define LS_ARGS_ls_dropout_call(X)                                                                                     \
    X(SIZE, rows)                                                                                                      \
    X(SIZE, columns)                                                                                                   \
    X(DROP, drop)                                                                                                      \
    X(IN_AS, c->x_dtype, x, c->x_stride)                                                                               \
    X(VALUE, ls_dtype, x_dtype) /* the kernel takes LS_F32 alone, and no gaps; the operation of a device any */        \
    X(STRIDE, x_stride)                                                                                                \
    X(IN, float, residual, c->residual_stride) /* NULL: none */                                                        \
    X(STRIDE, residual_stride)                                                                                         \
    X(OUT_AS, c->y_dtype, y, c->y_stride)                                                                              \
    X(VALUE, ls_dtype, y_dtype)                                                                                        \
    X(STRIDE, y_stride)
LS_DECLARE_ARGS(ls_dropout_call);

/* ---- norms and activations --------------------------------------------------------------------------------------- */

/* Rows of C elements. Forward reads x, w, b and eps, writes y, mean and rstd; backward reads dy, x, w, mean and rstd
 * (with `remake` also b and eps), writes dx; params reads dy, x, mean and rstd, writes dw and db. Backward also does
 * what `branch`, `remake`, `params` and the copies ask for, with the bits of separate operations. */
#define LS_ARGS_ls_norm_call(X)                                                                                        \
    X(SIZE, rows)                                                                                                      \
    X(SIZE, C)                                                                                                         \
    X(VALUE, bool, rms)     /* RMS norm: without b, db and mean; else layer norm */                                    \
    X(VALUE, ls_dtype, act) /* of y and dy */                                                                          \
    X(VALUE, float, eps)                                                                                               \
    X(IN, float, x, c->x_stride)                                                                                       \
    X(STRIDE, x_stride)                                                                                                \
    X(IN_AS, c->act, branch, c->C) /* [rows][C], as x: sum = x + branch is normalised; NULL: x is; not in params */    \
    X(OUT, float, sum, c->C) /* [rows][C], with a branch; backward uses it as scratch, and leaves it undefined */      \
    X(DROP, drop)            /* of branch, and of what dx_copy gets */                                                 \
    X(IN, float, w, LS_WHOLE)                                                                                          \
    X(IN, float, b, LS_WHOLE)                                                                                          \
    X(OUT_AS, c->act, y, c->y_stride)                                                                                  \
    X(STRIDE, y_stride)                                                                                                \
    /* One number for a row */                                                                                         \
    X(OUT, float, mean, 1)                                                                                             \
    X(OUT, float, rstd, 1)                                                                                             \
    X(IN_AS, c->act, dy, c->dy_stride)                                                                                 \
    X(STRIDE, dy_stride)                                                                                               \
    X(OUT, float, dx, c->dx_stride)                                                                                    \
    X(STRIDE, dx_stride)                                                                                               \
    X(OUT_AS, c->act, dx_copy, c->C) /* backward: [rows][C] of a 16-bit act, as dx: gets dx, rounded; NULL: none */    \
    X(VALUE, bool, add)              /* backward: dx = dx + the gradient, with one addition */                         \
    X(VALUE, bool, remake)           /* backward: also writes y again */                                               \
    X(VALUE, bool, params)           /* backward: also computes dw and db, as params does */                           \
    /* With params and dx_copy: [slices][C] the gradient of a bias whose dy is dx_copy; NULL: none. */                 \
    X(OUT, float, dx_sums, LS_WHOLE)                                                                                   \
    /* [slices][C] */                                                                                                  \
    X(OUT, float, dw, LS_WHOLE)                                                                                        \
    X(OUT, float, db, LS_WHOLE)                                                                                        \
    X(PIECES, ls_token_groups, groups, 1)
LS_DECLARE_ARGS(ls_norm_call);

/* Activations. Backward of ReLU and the sigmoid reads the output of forward; backward of the others reads its input. */
typedef enum ls_act_fn { LS_ACT_GELU, LS_ACT_SILU, LS_ACT_RELU, LS_ACT_SIGMOID, LS_ACT_FNS } ls_act_fn;
extern const char *const ls_act_fn_names[LS_ACT_FNS];

/* Forward: y = fn(x). Backward: y receives the gradient of x, from dy and x, which for ReLU and the sigmoid is the
 * output of forward. */
#define LS_ARGS_ls_act_call(X)                                                                                         \
    X(VALUE, ls_act_fn, fn)                                                                                            \
    X(OUT_AS, c->act, y, LS_WHOLE)                                                                                     \
    X(IN_AS, c->act, dy, LS_WHOLE)                                                                                     \
    X(IN_AS, c->act, x, LS_WHOLE)                                                                                      \
    X(VALUE, ls_dtype, act)                                                                                            \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_act_call);

/* The activation of a gate: SiLU, or GELU in its tanh form. */
typedef enum ls_gate_fn { LS_GATE_SILU, LS_GATE_GELU, LS_GATE_FNS } ls_gate_fn;

/* y = fn(gate)·up. Backward reads dy, gate and up, writes dgate and dup. */
#define LS_ARGS_ls_gated_call(X)                                                                                       \
    X(SIZE, rows)                                                                                                      \
    X(SIZE, columns)                                                                                                   \
    X(VALUE, ls_gate_fn, fn)                                                                                           \
    X(VALUE, ls_dtype, act) /* of all */                                                                               \
    X(IN_AS, c->act, gate, c->in_stride)                                                                               \
    X(IN_AS, c->act, up, c->in_stride)                                                                                 \
    X(STRIDE, in_stride)                                                                                               \
    X(OUT_AS, c->act, y, c->y_stride)                                                                                  \
    X(STRIDE, y_stride)                                                                                                \
    X(IN_AS, c->act, dy, c->dy_stride)                                                                                 \
    X(STRIDE, dy_stride)                                                                                               \
    X(OUT_AS, c->act, dgate, c->din_stride)                                                                            \
    X(OUT_AS, c->act, dup, c->din_stride)                                                                              \
    X(STRIDE, din_stride)
LS_DECLARE_ARGS(ls_gated_call);

/* pre = c + bias, y = gelu(pre) */
#define LS_ARGS_ls_bias_gelu_call(X)                                                                                   \
    X(SIZE, rows)                                                                                                      \
    X(SIZE, columns)                                                                                                   \
    X(IN, float, c, c->c_stride)                                                                                       \
    X(STRIDE, c_stride)                                                                                                \
    X(IN, float, bias, LS_WHOLE)                                                                                       \
    X(OUT, float, pre, c->pre_stride)                                                                                  \
    X(STRIDE, pre_stride)                                                                                              \
    X(OUT, float, y, c->y_stride)                                                                                      \
    X(STRIDE, y_stride)
LS_DECLARE_ARGS(ls_bias_gelu_call);

/* y[r] = c[r] + bias, for rows of `columns` elements; without bias (NULL) a conversion. In fp32 y may be c. */
#define LS_ARGS_ls_bias_add_call(X)                                                                                    \
    X(OUT_AS, c->act, y, c->y_stride)                                                                                  \
    X(VALUE, ls_dtype, act)                                                                                            \
    X(STRIDE, y_stride)                                                                                                \
    X(IN, float, c, c->c_stride)                                                                                       \
    X(STRIDE, c_stride)                                                                                                \
    X(IN, float, bias, LS_WHOLE)                                                                                       \
    X(SIZE, rows)                                                                                                      \
    X(SIZE, columns)
LS_DECLARE_ARGS(ls_bias_add_call);

/* db = the sums of dy over the tokens of each slice, by groups (ls_token_groups). */
#define LS_ARGS_ls_bias_grad_call(X)                                                                                   \
    X(OUT, float, db, LS_WHOLE) /* [slices][columns] */                                                                \
    X(IN_AS, c->act, dy, c->dy_stride)                                                                                 \
    X(VALUE, ls_dtype, act)                                                                                            \
    X(STRIDE, dy_stride)                                                                                               \
    X(SIZE, columns)                                                                                                   \
    X(PIECES, ls_token_groups, groups, 1)
LS_DECLARE_ARGS(ls_bias_grad_call);

/* ---- embedding --------------------------------------------------------------------------------------------------- */

/* A table of token rows may be a part of the vocabulary (with tensor parallelism): it holds the rows of ids id_begin …
 * id_end−1. Tokens outside are skipped: their output is not written, and their gradient is not added. Tables have C
 * elements a row; dy and y have strides. Nothing overlaps. */
#define LS_ARGS_ls_embed_tokens(X)                                                                                     \
    X(IN, int32_t, ids, 1) /* one for each row */                                                                      \
    X(VALUE, int32_t, id_begin)                                                                                        \
    X(VALUE, int32_t, id_end)                                                                                          \
    X(SIZE, rows)                                                                                                      \
    X(SIZE, C)
LS_DECLARE_ARGS(ls_embed_tokens);

/* y[r] = row ids[r] of the token table + row (position0 + r) mod period of the position table; `position` NULL: a copy
 * of the token row. */
#define LS_ARGS_ls_embed_call(X)                                                                                       \
    X(OUT, float, y, c->y_stride)                                                                                      \
    X(STRIDE, y_stride)                                                                                                \
    X(IN_AS, c->token_dtype, token, LS_WHOLE)                                                                          \
    X(VALUE, ls_dtype, token_dtype)                                                                                    \
    X(IN, float, position, LS_WHOLE)                                                                                   \
    X(SIZE, position0)                                                                                                 \
    X(SIZE, period)                                                                                                    \
    X(PIECES, ls_embed_tokens, tokens, 1)
LS_DECLARE_ARGS(ls_embed_call);

/* For each id that occurs: dtoken[id] = the sum of its rows of dy + dtoken[id]. dtoken holds −0, or the gradient of
 * another use of the table (tied weights); with accumulate the sum continues from dtoken[id]. Rows of ids that do not
 * occur are left as they are. The slices of `groups` are ignored. */
#define LS_ARGS_ls_token_grad_call(X)                                                                                  \
    X(OUT, float, dtoken, LS_WHOLE)                                                                                    \
    X(IN, float, dy, c->dy_stride)                                                                                     \
    X(STRIDE, dy_stride)                                                                                               \
    X(PIECES, ls_embed_tokens, tokens, 1)                                                                              \
    X(PIECES, ls_token_groups, groups, 1)
LS_DECLARE_ARGS(ls_token_grad_call);

/* dposition[t], t < T, = the sum of dy at token t over the sequences, by groups. The slices of `groups` are ignored. */
#define LS_ARGS_ls_position_grad_call(X)                                                                               \
    X(OUT, float, dposition, LS_WHOLE)                                                                                 \
    X(IN, float, dy, c->dy_stride)                                                                                     \
    X(STRIDE, dy_stride)                                                                                               \
    X(SIZE, C)                                                                                                         \
    X(PIECES, ls_token_groups, groups, 1)
LS_DECLARE_ARGS(ls_position_grad_call);

/* Rotary embedding. Row r of a call has the position (position0 + r) mod period. So rows of several sequences of
 * `period` rows go in one call, and one row during generation passes its position with the period of the table.
 *
 * Row r and head h of x start at x + r·x_row_stride + h·x_head_stride; the same for y, which may be exactly x. */
#define LS_ARGS_ls_rope_call(X)                                                                                        \
    X(VALUE, ls_dtype, act) /* of x and y: the kernel takes LS_F32 alone; the operation of a device any */             \
    X(OUT_AS, c->act, y, c->y_row_stride)                                                                              \
    X(STRIDE, y_row_stride)                                                                                            \
    X(STRIDE, y_head_stride)                                                                                           \
    X(IN_AS, c->act, x, c->x_row_stride)                                                                               \
    X(STRIDE, x_row_stride)                                                                                            \
    X(STRIDE, x_head_stride)                                                                                           \
    /* D is even */                                                                                                    \
    X(SIZE, rows)                                                                                                      \
    X(SIZE, heads)                                                                                                     \
    X(SIZE, d)                                                                                                         \
    /* Tables [period][d/2] */                                                                                         \
    X(IN, float, cos, LS_WHOLE)                                                                                        \
    X(IN, float, sin, LS_WHOLE)                                                                                        \
    X(SIZE, position0)                                                                                                 \
    X(SIZE, period)
LS_DECLARE_ARGS(ls_rope_call);

/* ---- loss -------------------------------------------------------------------------------------------------------- */

/* Softmax cross-entropy of rows of logits z, of which this worker holds some or all columns (a part of the vocabulary).
 * Slice i is columns bounds[i] … bounds[i+1]−1 of z, and column 0 is that of id id_begin. For each row, m is the
 * maximum of z, l the sum of exp(z − m), added by slices as the tree, and loss = log(l) − (z_target − m).
 *
 * A worker that holds whole rows calls loss_rows. Workers that share rows:
 *
 *     loss_max → gather m and z_target, max → loss_sums → gather sums, tree_sum → l → loss_values, loss_grad
 *
 * 16-bit logits are those of models trained with tensor cores, whose sums have an order of their own; dz is of their
 * type then, and there are at most LS_GEMM_SLICES_MAX slices. */
#define LS_ARGS_ls_loss_call(X)                                                                                        \
    X(SIZE, rows)                                                                                                      \
    X(IN_AS, c->z_dtype, z, c->z_stride)                                                                               \
    X(VALUE, ls_dtype, z_dtype)                                                                                        \
    X(STRIDE, z_stride)                                                                                                \
    X(LIST, size_t, bounds, c->slices + 1)                                                                             \
    X(SIZE, slices)                                                                                                    \
    X(IN, int32_t, targets, 1) /* one id for a row */                                                                  \
    X(VALUE, int32_t, id_begin)                                                                                        \
    /* One number for a row */                                                                                         \
    X(OUT, float, m, 1)                                                                                                \
    X(OUT, float, l, 1)                                                                                                \
    X(OUT, float, loss, 1)                                                                                             \
    X(OUT, float, z_target, 1) /* one number for a row: the logit of the target, −inf where another worker has it */ \
    X(OUT, float, sums, LS_WHOLE) /* [slices][rows] */                                                                 \
    /* May be z: then its rows begin where those of z do, whatever its type */                                         \
    X(OUT_AS, c->dz_dtype, dz, c->dz_stride)                                                                           \
    X(VALUE, ls_dtype, dz_dtype)                                                                                       \
    X(STRIDE, dz_stride)                                                                                               \
    X(VALUE, float, g) /* the power of two with which backward starts */
LS_DECLARE_ARGS(ls_loss_call);

/* Checks that z and dz are fp32, bf16 or fp16, and that 16-bit logits have a dz of their own type. A NULL dz is not
 * checked. */
ls_status ls_check_loss(const ls_loss_call *call);

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Attention. Query head h reads key/value head h / (heads / kv_heads). A query at position t sees the keys that the
 * mask gives it, up to t itself; a device may have causal attention alone (LS_ERR_INPUT). Memory stays linear in T:
 * forward keeps m (the maximum) and l (the sum) of each query and head, backward recomputes the weights.
 *
 * Tensors are strided, so that q, k and v may lie in one fused buffer; a cache of keys and values for generation is
 * read fastest where the rows of a head are neighbours. Outputs are overwritten, not added to, and do not overlap any
 * input. No alignment beyond the element's is needed. */

/* Element i of a head's row is at[row·row_stride + head·head_stride + i]. */
#define LS_ARGS_ls_attention_in(X)                                                                                     \
    X(IN, void, at, LS_WHOLE)                                                                                          \
    X(STRIDE, row_stride)                                                                                              \
    X(STRIDE, head_stride)
LS_DECLARE_ARGS(ls_attention_in);

#define LS_ARGS_ls_attention_out(X)                                                                                    \
    X(OUT, void, at, LS_WHOLE)                                                                                         \
    X(STRIDE, row_stride)                                                                                              \
    X(STRIDE, head_stride)
LS_DECLARE_ARGS(ls_attention_out);

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
#define LS_ARGS_ls_attention(X)                                                                                        \
    /* kv_heads divides heads; head_size ≥ 1 */                                                                      \
    X(SIZE, T)                                                                                                         \
    X(SIZE, heads)                                                                                                     \
    X(SIZE, kv_heads)                                                                                                  \
    X(SIZE, head_size)                                                                                                 \
    X(SIZE, first_query)                                                                                               \
    X(VALUE, ls_mask, mask)                                                                                            \
    /* Of q, k, v, o and their gradients; weights and dS are rounded to it where matmuls read them */                  \
    X(VALUE, ls_dtype, act)                                                                                            \
    X(VALUE, ls_unit, unit) /* the matrix unit, for 16-bit tensors */                                                  \
    X(VALUE, float, scale)  /* > 0, finite */                                                                          \
    X(VALUE, ls_attention_drop, drop)                                                                                  \
    X(STRUCT, ls_attention_in, q)                                                                                      \
    X(STRUCT, ls_attention_in, k)                                                                                      \
    X(STRUCT, ls_attention_in, v)                                                                                      \
    X(STRUCT, ls_attention_out, o)                                                                                     \
    /* One number for a query and head: [head·stat_stride + row]. m: the maximum of the scaled scores or, with tensor \
     * cores, of the scores before the scale; dots: D of the contract */                                               \
    X(OUT, float, m, LS_WHOLE)                                                                                         \
    X(OUT, float, l, LS_WHOLE)                                                                                         \
    X(OUT, float, dots, LS_WHOLE)                                                                                      \
    X(STRIDE, stat_stride)                                                                                             \
    X(STRUCT, ls_attention_in, dout) /* the gradient of o; this and the rest is for backward alone */                  \
    X(STRUCT, ls_attention_out, dq)                                                                                    \
    X(STRUCT, ls_attention_out, dk)                                                                                    \
    X(STRUCT, ls_attention_out, dv)
LS_DECLARE_ARGS(ls_attention);

/* B sequences of one length. A row of a fused projection may be cut into slices, each with some of the heads: a part is
 * one of them, with its own numbers of heads, pointers and strides; T, head_size and first_query are the same in all.
 * From one sequence to the next it is, in every part, query_rows rows in q, o, dout and dq, key_rows rows in k, v, dk
 * and dv, and stat_elems numbers in m, l and dots. */
#define LS_ARGS_ls_attention_call(X)                                                                                   \
    X(PIECES, ls_attention, parts, (size_t)c->nparts) /* the tensors of sequence 0 */                                  \
    X(VALUE, int, nparts)                             /* at least 1 */                                                 \
    X(SIZE, B)                                                                                                         \
    X(SIZE, query_rows)                                                                                                \
    X(SIZE, key_rows)                                                                                                  \
    X(SIZE, stat_elems)
LS_DECLARE_ARGS(ls_attention_call);

/* ---- optimizers -------------------------------------------------------------------------------------------------- */

/* Elements of a block of a squared norm; moments of an optimizer at most. */
enum { LS_SQUARE_BLOCK = 1024, LS_MOMENTS_MAX = 2 };

/* An update rule and its scalars, of which each rule reads its own (docs/reference/arithmetic.md, "Step"). The
 * optimizer (optim/optimizer.h) computes them in double and rounds them once. */
typedef struct ls_update_step {
    ls_optimizer_kind rule;
    float factor;                 /* f, by which the gradient is multiplied first (optim/clip.h) */
    float rate;                   /* AdamW: lr / (1 − β1^t); SGD: lr */
    float beta1, beta1_rest;      /* AdamW: β1, 1 − β1 */
    float beta2, beta2_rest;      /* AdamW: β2, 1 − β2 */
    float root;                   /* AdamW: 1 / √(1 − β2^t) */
    float epsilon;                /* AdamW */
    float decay;                  /* AdamW: 1 − lr·wd */
    float momentum, weight_decay; /* SGD */
    bool nesterov;
} ls_update_step;

/* State sums (checksums that add up over workers, numerics/state_sum.h) of weights and optimizer state: one of w and
 * one of each moment, in this order. */
enum { LS_STATE_TENSORS = 1 + LS_MOMENTS_MAX };

/* *out += the state sum of x[0 … n−1], elements first … first + n − 1 of tensor number `tensor`. */
#define LS_ARGS_ls_state_piece(X)                                                                                      \
    X(OUT, ls_hash128, out, LS_WHOLE) /* += */                                                                         \
    X(IN, float, x, LS_WHOLE)                                                                                          \
    /* Number of the tensor; x[0] is its element `first` */                                                            \
    X(VALUE, uint64_t, tensor)                                                                                         \
    X(VALUE, uint64_t, first)                                                                                          \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_state_piece);

#define LS_ARGS_ls_state_sums_call(X)                                                                                  \
    X(PIECES, ls_state_piece, pieces, (size_t)c->count)                                                                \
    X(VALUE, int, count)
LS_DECLARE_ARGS(ls_state_sums_call);

/* State sums of what an update writes, computed while it is in the cache. They go to two places: elements that this
 * worker reports to `once`, and those that another worker reports as well to `rest`. */
#define LS_ARGS_ls_update_sums(X)                                                                                      \
    /* LS_STATE_TENSORS each, added to; NULL: not computed. */                                                         \
    X(OUT, ls_hash128, once, LS_WHOLE)                                                                                 \
    X(OUT, ls_hash128, rest, LS_WHOLE)                                                                                 \
    /* Elements of the piece that go to `once`; the others go to `rest` */                                             \
    X(SIZE, begin)                                                                                                     \
    X(SIZE, end)                                                                                                       \
    /* Number of w, those of the moments follow; place of the piece in the tensor. */                                  \
    X(VALUE, uint64_t, tensor)                                                                                         \
    X(VALUE, uint64_t, first)                                                                                          \
    /* The sum of the piece's `copy`, two 16-bit numbers as one element, as tensor copy_tensor; NULL: none. A CPU      \
     * makes it only along with state sums or block sums. */                                                           \
    X(OUT, ls_hash128, copy, LS_WHOLE)                                                                                 \
    X(VALUE, uint64_t, copy_tensor)
LS_DECLARE_ARGS(ls_update_sums);

/* The state check detects memory that changed between two updates: an update computes a checksum of each block of
 * LS_CHECK_BLOCK elements as it writes it, and the next update compares it before it overwrites the block. A block that
 * differs is not updated, and is reported in `damage`. */
enum { LS_CHECK_BLOCK = 2048 };
#define LS_ARGS_ls_update_check(X)                                                                                     \
    X(OUT, uint64_t, sums, LS_WHOLE) /* of the whole tensor: LS_STATE_TENSORS for each block; NULL: none are kept */   \
    /* Becomes the largest ls_damage_word() of blocks that differ; NULL: nothing is compared */                        \
    X(OUT, uint64_t, damage, LS_WHOLE)
LS_DECLARE_ARGS(ls_update_check);

/* Returns how many numbers ls_update_check.sums has for a tensor of `elems` elements: those of at least two blocks more
 * than the tensor has, because a device may keep two sums of a block whose elements go to two state sums. 0 for an
 * empty tensor. */
static inline size_t ls_check_sums(size_t elems) {
    return elems > 0 ? (elems / LS_CHECK_BLOCK + 3) * (size_t)LS_STATE_TENSORS : 0;
}

/* A block of LS_CHECK_BLOCK elements whose checksum differs. */
typedef struct ls_damage {
    uint32_t name;  /* number of the tensor, ls_update_piece.name; below 2^30 */
    int state;      /* 0: w, 1 and 2: moments */
    uint64_t block; /* its number in the tensor */
} ls_damage;

enum { LS_DAMAGE_BLOCK_BITS = 32, LS_DAMAGE_STATE_BITS = 2 };
/* Packs a damage into a word that is never 0, and larger the earlier the damage is in the order of names, states and
 * blocks. So the maximum of many words is the first damage, and 0 means none. */
static inline uint64_t ls_damage_word(ls_damage d) {
    return ~((((uint64_t)d.name << LS_DAMAGE_STATE_BITS) | (uint64_t)d.state) << LS_DAMAGE_BLOCK_BITS | d.block);
}
/* Unpacks a word of ls_damage_word(). For 0, which means no damage, the result is meaningless. */
static inline ls_damage ls_damage_read(uint64_t word) {
    uint64_t d = ~word;
    return (ls_damage){.name = (uint32_t)(d >> (LS_DAMAGE_BLOCK_BITS + LS_DAMAGE_STATE_BITS)),
                       .state = (int)(d >> LS_DAMAGE_BLOCK_BITS & ((1u << LS_DAMAGE_STATE_BITS) - 1)),
                       .block = d & UINT32_MAX};
}

typedef enum ls_update_mode {
    LS_UPDATE_STEP,   /* compares block sums, applies the rule, and computes all sums of what it writes */
    LS_UPDATE_CHECK,  /* only compares block sums, and reports damage */
    LS_UPDATE_RECORD, /* only computes all sums, of the present values */
} ls_update_mode;

/* A weight tensor, or a part of it, with its gradient g and its moments, of which the rule says how many there are:
 * AdamW has m and v, SGD its momentum or none. `copy` receives the new w, rounded to a 16-bit type; NULL: none. */
#define LS_ARGS_ls_update_piece(X)                                                                                     \
    X(OUT, float, w, LS_WHOLE)                                                                                         \
    X(OUTS, float, moment, LS_MOMENTS_MAX, LS_MOMENTS_MAX) /* NULL behind the last */                                  \
    X(OUT_AS, c->copy_dtype, copy, LS_WHOLE)                                                                           \
    X(VALUE, ls_dtype, copy_dtype)                                                                                     \
    X(IN, float, g, LS_WHOLE)                                                                                          \
    X(LIST, ls_update_step, step, 1)                                                                                   \
    X(SIZE, n)                                                                                                         \
    X(STRUCT, ls_update_sums, sums) /* zeroed: none */                                                                 \
    X(VALUE, ls_update_mode, mode)  /* but for LS_UPDATE_STEP, `g` and `copy` are not used */                          \
    /* zeroed: none; with sums.tensor and sums.first, and pieces of whole blocks */                                    \
    X(STRUCT, ls_update_check, check)                                                                                  \
    /* Host memory of a CPU: how far the update of the whole tensor has come (cpu/journal.h); NULL: none. */           \
    X(VALUE, _Atomic uint64_t *, cells)                                                                                \
    X(VALUE, uint64_t, name) /* of the tensor there, */                                                                \
    X(SIZE, first)           /* and its element with which the piece begins; multiple of LS_CHECK_BLOCK with `check` */
LS_DECLARE_ARGS(ls_update_piece);

/* Updates all pieces. A model has hundreds of them, most of them small: one call for all is one launch on a GPU. */
#define LS_ARGS_ls_update_call(X)                                                                                      \
    X(PIECES, ls_update_piece, pieces, (size_t)c->count)                                                               \
    X(VALUE, int, count)
LS_DECLARE_ARGS(ls_update_call);
/* Checks that every `copy` has a 16-bit type. */
ls_status ls_check_update(const ls_update_call *call);

enum { LS_UPDATE_STATE_MAX = 3 * LS_STATE_TENSORS };
/* Lists the state sums that elements begin … end − 1 of a piece need, as arguments of ops->state_sums: at most three
 * for w and for each moment, because the range may begin in `rest`, cross `once`, and end in `rest`. Returns how many
 * it wrote to `out`. Sums that are NULL and moments that are absent give none; the sum of `copy` is not included. */
int ls_update_state_pieces(const ls_update_piece *piece, size_t begin, size_t end,
                           ls_state_piece out[LS_UPDATE_STATE_MAX]);

/* ---- flat arrays ------------------------------------------------------------------------------------------------- */

/* y = x·factor; y may be x. */
#define LS_ARGS_ls_scale_call(X)                                                                                       \
    X(OUT, float, y, LS_WHOLE)                                                                                         \
    X(IN, float, x, LS_WHOLE)                                                                                          \
    X(VALUE, float, factor)                                                                                            \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_scale_call);

/* Sets every element to `value`. Buffers of sums start from −0, the identity of addition, which ls_device_fill() cannot
 * write because its bytes differ. */
#define LS_ARGS_ls_set_call(X)                                                                                         \
    X(OUT, float, y, LS_WHOLE)                                                                                         \
    X(VALUE, float, value)                                                                                             \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_set_call);

/* Between LS_F32 and LS_BF16 or LS_F16; LS_ERR_INPUT for any other pair. */
#define LS_ARGS_ls_convert_call(X)                                                                                     \
    X(OUT_AS, c->to, out, LS_WHOLE)                                                                                    \
    X(VALUE, ls_dtype, to)                                                                                             \
    X(IN_AS, c->from, in, LS_WHOLE)                                                                                    \
    X(VALUE, ls_dtype, from)                                                                                           \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_convert_call);

/* y = x rounded to a 16-bit type, as fp32; y may be x. */
#define LS_ARGS_ls_round_call(X)                                                                                       \
    X(OUT, float, y, LS_WHOLE)                                                                                         \
    X(IN, float, x, LS_WHOLE)                                                                                          \
    X(VALUE, ls_dtype, to)                                                                                             \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_round_call);

/* y = a + b */
#define LS_ARGS_ls_add_call(X)                                                                                         \
    X(OUT, float, y, LS_WHOLE)                                                                                         \
    X(IN, float, a, LS_WHOLE)                                                                                          \
    X(IN_AS, c->b_dtype, b, LS_WHOLE)                                                                                  \
    X(VALUE, ls_dtype, b_dtype)                                                                                        \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_add_call);

/* Rows of `bytes` bytes, to_stride and from_stride bytes from one to the next. They do not overlap. */
#define LS_ARGS_ls_copy_rows_call(X)                                                                                   \
    X(OUT, void, to, LS_WHOLE)                                                                                         \
    X(STRIDE, to_stride)                                                                                               \
    X(IN, void, from, LS_WHOLE)                                                                                        \
    X(STRIDE, from_stride)                                                                                             \
    X(SIZE, rows)                                                                                                      \
    X(SIZE, bytes)
LS_DECLARE_ARGS(ls_copy_rows_call);

/* out = the sum of `leaves` contributions of `elems` elements each, added in the order of the tree (numerics/tree.h).
 * They are LS_F32, or LS_BF16 or LS_F16, which are widened. 1 ≤ leaves ≤ LS_GROUPS_MAX, else LS_ERR_INPUT. `out` may be
 * one of the fp32 contributions. */
#define LS_ARGS_ls_tree_sum_call(X)                                                                                    \
    X(OUT, float, out, LS_WHOLE)                                                                                       \
    X(TENSORS, void, contributions, (size_t)c->leaves)                                                                 \
    X(VALUE, ls_dtype, dtype)                                                                                          \
    X(VALUE, int, leaves)                                                                                              \
    X(SIZE, elems)
LS_DECLARE_ARGS(ls_tree_sum_call);

/* Replaces the first row of each piece rows[leaves][n] by the sum of its rows in the order of the tree. 1 ≤ leaves ≤
 * LS_GROUPS_MAX, else LS_ERR_INPUT. A model has hundreds of vectors whose token slices are joined once a step, so one
 * call takes many. */
#define LS_ARGS_ls_tree_rows_piece(X)                                                                                  \
    X(OUT, float, rows, LS_WHOLE)                                                                                      \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_tree_rows_piece);

#define LS_ARGS_ls_tree_rows_call(X)                                                                                   \
    X(PIECES, ls_tree_rows_piece, pieces, (size_t)c->count)                                                            \
    X(VALUE, int, count)                                                                                               \
    X(VALUE, int, leaves)
LS_DECLARE_ARGS(ls_tree_rows_call);

/* out[i] = the maximum of inputs[0][i] … inputs[count−1][i]. 1 ≤ count ≤ LS_WORKERS_MAX, else LS_ERR_INPUT. `out` may
 * be one of the inputs. */
#define LS_ARGS_ls_max_call(X)                                                                                         \
    X(OUT, float, out, LS_WHOLE)                                                                                       \
    X(TENSORS, float, inputs, (size_t)c->count)                                                                        \
    X(VALUE, int, count)                                                                                               \
    X(SIZE, elems)
LS_DECLARE_ARGS(ls_max_call);

/* ---- sums, counts and checks ---------------------------------------------------------------------------------------
 *
 * Their results are few numbers of memory of the device, where they wait until the host reads many of them at once. */

/* An array of n elements whose squares are added. */
#define LS_ARGS_ls_square_piece(X)                                                                                     \
    X(IN, float, x, LS_WHOLE)                                                                                          \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_square_piece);

/* Adds Σ x² of each block of LS_SQUARE_BLOCK elements of each piece, in double, to the exact sum whose LS_EXACT_WORDS
 * words are at `words` (numerics/exact_sum.h). Carries are not passed on: at most 2^29 blocks until the sum
 * is settled. A model has hundreds of pieces, most of them small: one call for all is one launch. */
#define LS_ARGS_ls_square_sums_call(X)                                                                                 \
    X(OUT, int64_t, words, LS_WHOLE)                                                                                   \
    X(PIECES, ls_square_piece, pieces, (size_t)c->count)                                                               \
    X(VALUE, int, count)
LS_DECLARE_ARGS(ls_square_sums_call);

/* *sum += the losses of all tokens of sequences of T tokens, but for the first `context` tokens of each, which serve as
 * context only (evaluation with overlapping windows). Non-finite losses are counted in sum->bad. */
#define LS_ARGS_ls_add_losses_call(X)                                                                                  \
    X(OUT, ls_loss_sum, sum, LS_WHOLE)                                                                                 \
    X(IN, float, loss, LS_WHOLE)                                                                                       \
    X(SIZE, sequences)                                                                                                 \
    X(SIZE, T)                                                                                                         \
    X(SIZE, context)
LS_DECLARE_ARGS(ls_add_losses_call);

/* *right += the number of rows of logits whose largest element, the first of equal ones, is in the target's column. A
 * comparison with NaN is false: a NaN is never chosen, except in column 0, where it always is. */
#define LS_ARGS_ls_count_right_call(X)                                                                                 \
    X(OUT, int64_t, right, LS_WHOLE)                                                                                   \
    X(IN, float, z, c->z_stride)                                                                                       \
    X(STRIDE, z_stride)                                                                                                \
    X(SIZE, rows)                                                                                                      \
    X(SIZE, columns)                                                                                                   \
    X(IN, int32_t, targets, 1) /* one column for a row */
LS_DECLARE_ARGS(ls_count_right_call);

/* What ops->count counts of fp32 numbers x, to see whether they would fit a 16-bit type if multiplied by `scale` and
 * rounded to it: p = x·scale in fp32. */
typedef enum ls_count {
    LS_COUNT_FLUSHED, /* x ≠ 0, but p rounds to ±0 */
    LS_COUNT_HIGH,    /* |p| ≥ 2^−4 · the largest finite number of the type; infinity too */
    LS_COUNT_NONZERO, /* x ≠ 0; NaN too */
    LS_COUNT_BAD,     /* x is not finite */
    LS_COUNTS
} ls_count;

/* Adds the number of elements of each kind (ls_count) to out[LS_COUNTS]. */
#define LS_ARGS_ls_count_call(X)                                                                                       \
    X(OUT, int64_t, out, LS_WHOLE)                                                                                     \
    X(IN, float, x, LS_WHOLE)                                                                                          \
    X(VALUE, float, scale)                                                                                             \
    X(VALUE, ls_dtype, type)                                                                                           \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_count_call);

/* before[i] = after[i] − before[i], the change of weights by an update. *lost += the number of updates that were lost
 * to rounding: elements that did not change although by[i], the gradient or moment that drives the update, is not 0. */
#define LS_ARGS_ls_difference_call(X)                                                                                  \
    X(OUT, float, before, LS_WHOLE)                                                                                    \
    X(IN, float, after, LS_WHOLE)                                                                                      \
    X(IN, float, by, LS_WHOLE)                                                                                         \
    X(OUT, int64_t, lost, LS_WHOLE)                                                                                    \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_difference_call);

/* *out = the hash of `bytes` bytes: the bytes are cut into fixed pieces, which are hashed in parallel, and the hashes
 * of the pieces are hashed. It differs from ls_hash_bytes(). */
#define LS_ARGS_ls_hash_call(X)                                                                                        \
    X(OUT, ls_hash128, out, LS_WHOLE)                                                                                  \
    X(IN, void, x, LS_WHOLE)                                                                                           \
    X(SIZE, bytes)
LS_DECLARE_ARGS(ls_hash_call);

/* out[i] = ls_hash_f32() of block i of LS_SQUARE_BLOCK elements; the last block may be shorter. */
#define LS_ARGS_ls_hash_blocks_call(X)                                                                                 \
    X(OUT, ls_hash128, out, LS_WHOLE)                                                                                  \
    X(IN_AS, c->dtype, x, LS_WHOLE)                                                                                    \
    X(VALUE, ls_dtype, dtype) /* of x, whose numbers are hashed as fp32 */                                             \
    X(SIZE, n)
LS_DECLARE_ARGS(ls_hash_blocks_call);

/* *index = the number of the first element that is infinite or NaN; LS_ALL_FINITE if there is none. */
#define LS_ALL_FINITE UINT64_MAX
#define LS_ARGS_ls_find_bad_call(X)                                                                                    \
    X(IN_AS, c->dtype, x, LS_WHOLE)                                                                                    \
    X(VALUE, ls_dtype, dtype)                                                                                          \
    X(SIZE, n)                                                                                                         \
    X(OUT, uint64_t, index, LS_WHOLE)
LS_DECLARE_ARGS(ls_find_bad_call);

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Every struct with a list of arguments. */
#define LS_CALLS(X)                                                                                                    \
    X(ls_token_groups)                                                                                                 \
    X(ls_gemm)                                                                                                         \
    X(ls_conv_call)                                                                                                    \
    X(ls_pooling_call)                                                                                                 \
    X(ls_batch_norm_call)                                                                                              \
    X(ls_dropout_call)                                                                                                 \
    X(ls_norm_call)                                                                                                    \
    X(ls_act_call)                                                                                                     \
    X(ls_gated_call)                                                                                                   \
    X(ls_bias_gelu_call)                                                                                               \
    X(ls_bias_add_call)                                                                                                \
    X(ls_bias_grad_call)                                                                                               \
    X(ls_embed_tokens)                                                                                                 \
    X(ls_embed_call)                                                                                                   \
    X(ls_token_grad_call)                                                                                              \
    X(ls_position_grad_call)                                                                                           \
    X(ls_rope_call)                                                                                                    \
    X(ls_loss_call)                                                                                                    \
    X(ls_attention_in)                                                                                                 \
    X(ls_attention_out)                                                                                                \
    X(ls_attention)                                                                                                    \
    X(ls_attention_call)                                                                                               \
    X(ls_state_piece)                                                                                                  \
    X(ls_state_sums_call)                                                                                              \
    X(ls_update_sums)                                                                                                  \
    X(ls_update_check)                                                                                                 \
    X(ls_update_piece)                                                                                                 \
    X(ls_update_call)                                                                                                  \
    X(ls_scale_call)                                                                                                   \
    X(ls_set_call)                                                                                                     \
    X(ls_convert_call)                                                                                                 \
    X(ls_round_call)                                                                                                   \
    X(ls_add_call)                                                                                                     \
    X(ls_copy_rows_call)                                                                                               \
    X(ls_tree_sum_call)                                                                                                \
    X(ls_tree_rows_piece)                                                                                              \
    X(ls_tree_rows_call)                                                                                               \
    X(ls_max_call)                                                                                                     \
    X(ls_square_piece)                                                                                                 \
    X(ls_square_sums_call)                                                                                             \
    X(ls_add_losses_call)                                                                                              \
    X(ls_count_right_call)                                                                                             \
    X(ls_count_call)                                                                                                   \
    X(ls_difference_call)                                                                                              \
    X(ls_hash_call)                                                                                                    \
    X(ls_hash_blocks_call)                                                                                             \
    X(ls_find_bad_call)

/* ls_norm_call_skip_rows() and so on move a call forward by `rows` rows: every tensor of rows that is not NULL begins
 * so many rows later. The caller adjusts how many rows are left and what depends on the first row's number (a position,
 * dropout). */
#define LS_ROW_CALLS(X)                                                                                                \
    X(ls_batch_norm_call)                                                                                              \
    X(ls_dropout_call)                                                                                                 \
    X(ls_norm_call)                                                                                                    \
    X(ls_gated_call)                                                                                                   \
    X(ls_bias_gelu_call)                                                                                               \
    X(ls_embed_call)                                                                                                   \
    X(ls_rope_call)
#define LS_DECLARE_SKIP_ROWS(type) void type##_skip_rows(type *call, size_t rows);
LS_ROW_CALLS(LS_DECLARE_SKIP_ROWS)
#undef LS_DECLARE_SKIP_ROWS

#endif
