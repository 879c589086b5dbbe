/* nn.h: the context of the layers, ls_nn: a device, a shape, this worker's slices of it, the rows of a micro-batch,
 * and the steps of its weight gradients; and the matmuls, norms and gradients that layers share. The executor
 * (parallel/partition) fills in the context; the kinds of blocks (blocks/, images/) call the functions. "Rule N" is
 * one of docs/reference/arithmetic.md, which fix every operation to the bit.
 *
 * Rows are tokens: B sequences of T rows each, sequence by sequence. While text is generated B is 1, and the rows are
 * positions `first` … first + T − 1 of it; the keys and values of earlier positions are still in their place. Values
 * are the same bits in both cases (rule 6).
 *
 * Tensor parallelism. The workers of a TP group share every layer: each worker has some of the slices, that is, some
 * heads, columns of the MLP and rows of the vocabulary. Their number S is fixed before the number of workers is; each
 * slice is summed by itself, and one tree adds the slices. Every worker has the whole residual stream and the norms
 * between the layers. With sequence parallelism it has only the tokens of its token slices, in every sequence:
 *
 *     stream rows ─ norm ─┤gather├─ all rows, own slices ─┤sum over the TP group, scatter├─ stream rows
 *
 * param_slices.c has the two crossings; alone, they cost nothing.
 *
 * Types. Tensors of type void * are of the policy's type for operands and results of matmuls, `act`: a matmul's
 * result is rounded once, after the sum over the TP group and the bias, and every worker reads the rounded value
 * (rule 10). Some rules differ with tensor cores, the matrix units of GPUs (ls_unit_is_tensor_core()).
 *
 * Everything that is written is memory of the device. Functions return what the device's operations return. */
#ifndef LS_NN_NN_H
#define LS_NN_NN_H

#include "comm/movers/tensors.h"
#include "device/ops.h"
#include "lockstep.h"
#include "nn/grad_plan.h"
#include "nn/param.h"
#include "nn/policy.h"
#include "nn/shape.h"
#include "device/arena.h"
#include "device/device.h"

enum { LS_SLICES_MAX = 64 };

/* Dropout with probability p; 0: none. Seed, step, place in the model, number of the sequence in the run's data, and
 * index decide whether an element is dropped, so the layout does not matter. */
typedef struct ls_dropout {
    double p;
    uint64_t seed, step;
    uint64_t first_sequence; /* of the micro-batch, counted in the batch */
} ls_dropout;

/* Scratch that nn's own functions and the executor work with; kinds of blocks have the rest in structs of their own.
 * `rows` are all rows, widths are this worker's. */
typedef struct ls_scratch {
    void *rows;    /* [rows][C], as large as fp32: gathered, or a matmul before it is joined; of workers that share */
    void *rows2;   /* [rows][C] gathered: the gradient of the branch; with sequence parallelism */
    void *cross;   /* [rows][C], as large as fp32: rows worker by worker, where sequences cross together */
    float *joined; /* [stream, or a share of the rows][C] with 16-bit types: the sum over the TP group, not rounded */
    void *logits;  /* of the last block: [rows of a chunk][V, or somewhat more], of ls_nn_logits_dtype() */
    float *loss;   /* of the last block: [rows] */
} ls_scratch;

/* This worker's part of the widths of a shape, by its slices. */
typedef struct ls_widths {
    size_t heads, kv_heads;
    size_t query, qkv;           /* columns of q, and of q, k and v together */
    size_t hidden, mlp;          /* columns of the MLP; mlp: twice as many in a gated one */
    size_t vocabulary, first_id; /* rows of the token table, and the first one */
    size_t logits;               /* from a row of logits to the next */
} ls_widths;

/* Returns how many heads of q and of k there are together. */
static inline size_t ls_widths_heads(const ls_widths *own) { return own->heads + own->kv_heads; }

/* Observer of the gradient of each group: called once for each parameter (each use of a tied table) and group, when its
 * `elems` elements are complete and rounded, before it joins the tree. It may change them. */
typedef struct ls_leaf_watch {
    ls_status (*leaf)(void *ctx, const ls_param *param, bool is_lookup, int group, float *leaf, size_t elems);
    void *ctx;
} ls_leaf_watch;

/* Observer of results on the way: called with the result of each matmul and convolution of forward and of the gradients
 * of activations (not of weights), and of an embedding that a TP group shares, before it is joined over the group. With
 * an observer no matmul is fused with its epilogue. The partition uses it for hashes of results (bisect) and to find
 * where a value first is not finite. */
typedef struct ls_made_part {
    size_t first, count; /* sequences of the micro-batch */
    int made;            /* results of these so far */
} ls_made_part;
typedef struct ls_made_watch {
    ls_status (*take)(void *ctx, ls_made_part *part, const void *y, ls_dtype dtype, size_t elems);
    void *ctx;
    ls_made_part *part; /* NULL: results are of the whole micro-batch */
} ls_made_watch;

/* Batch norm over the whole batch (conv_bn.h). */
typedef struct ls_norm_sync {
    int groups;        /* gradient groups of the step; 0: statistics are those of ghost groups */
    size_t batch;      /* images of the step */
    ls_comm *dp;       /* NULL: this worker has all groups, or nothing is moved because the work is only priced */
    const int *bounds; /* by DP rank: its first group; host */
} ls_norm_sync;

/* How batch norm takes its statistics. Set once, but `sync`, which follows the step. */
typedef struct ls_nn_batch_norm {
    size_t ghost; /* images whose statistics are taken together */
    bool infers;  /* running statistics are used instead */
    ls_norm_sync sync;
} ls_nn_batch_norm;

/* The TP group of this worker and how it divides the residual stream. Set once. */
typedef struct ls_nn_tp {
    ls_comm *comm; /* NULL: this worker alone, or nothing is moved because the work is only priced */
    int size, index;
    bool sequence_parallel;
    bool crosses_at_once; /* with it: rows of all sequences are moved by one collective, not one for each */
} ls_nn_tp;

/* Cosines and sines of RoPE, in the device's memory; the partition owns them. */
typedef struct ls_nn_rope {
    const float *cos, *sin; /* [ls_shape_rope_tables()][elems]: positions × half of ls_shape_rotated() */
    size_t elems;
} ls_nn_rope;

/* The rows of a micro-batch; ls_nn_set_rows() and generation set them. */
typedef struct ls_micro_rows {
    size_t B, T, first;      /* sequences, tokens of each, and the position of the first token: 0 but in generation */
    size_t token0, stream_T; /* of a sequence: tokens token0 … token0 + stream_T − 1 are in the stream here */
} ls_micro_rows;

/* What a micro-batch reads: memory of the device. */
typedef struct ls_nn_input {
    const int32_t *ids, *targets; /* one for each row; targets NULL: logits are wanted, not losses */
    const float *images;          /* of image models, in the place of ids: [B][height][width][channels] */
} ls_nn_input;

/* How backward sums the gradients of a micro-batch into groups. */
typedef struct ls_nn_grads {
    float loss_scale;          /* the power of two with which backward starts */
    const ls_grad_step *steps; /* of this micro-batch */
    int nsteps;
    bool leaves;        /* every step ends with its group at the latest, so each group has a leaf (grad_plan.h) */
    const bool *absent; /* host, by group: its gradients count as absent; NULL: none does */
    ls_leaf_watch watch;
} ls_nn_grads;

/* Counters of gradients of activations that are rounded to 16 bits. */
typedef struct ls_nn_rounded {
    int64_t *counts; /* device: [LS_COUNTS], by ls_count; NULL: nothing is counted */
    int64_t *elems;  /* host: how many were rounded */
} ls_nn_rounded;

/* The seam between two blocks that run one after the other: the first may do what the second begins with, in one pass
 * over memory with its own end (ls_block_kind.fuses). The executor says so for each run of a block. */
typedef struct ls_fusion {
    struct ls_block *next; /* this block does the start of that one; NULL: it does not */
    bool start_is_done;    /* the block before has done the start of this one */
} ls_fusion;

/* The context of the layers. The partition fills it in when it is made; `rows`, `input`, `grads`, `made`, `dropout` and
 * `fusion` change with the micro-batch. Layers only read it. */
typedef struct ls_nn {
    ls_policy policy;
    ls_device *device;
    const ls_ops *ops;
    const ls_shape *shape;
    int S;              /* slices of all workers */
    int slice0, slices; /* this worker's */
    ls_widths own;
    ls_nn_tp tp;
    bool keeps_act;    /* what the MLP's activation gives is saved, not made again in backward */
    size_t loss_chunk; /* sequences whose logits are in memory at once; 0: those of a micro-batch */
    ls_nn_rope rope;
    ls_nn_batch_norm batch_norm;
    ls_micro_rows rows;
    ls_nn_input input;
    ls_nn_grads grads;
    ls_made_watch made;
    ls_nn_rounded rounded;
    ls_dropout dropout;
    ls_scratch scratch;
    ls_fusion fusion;
} ls_nn;

/* Sets this worker's slices, first … first + count − 1 of S, and the widths and its place in the TP group that
 * follow. */
void ls_nn_take_slices(ls_nn *nn, int S, int first, int count);
/* Sets the rows: B sequences of T tokens, from position 0. With sequence parallelism also which tokens this worker
 * has in the stream. */
void ls_nn_set_rows(ls_nn *nn, size_t B, size_t T);

/* Returns the rows (tokens) of the micro-batch. */
static inline size_t ls_nn_rows(const ls_nn *nn) { return nn->rows.B * nn->rows.T; }
/* Returns the rows that this worker has in the residual stream: all of them, or with sequence parallelism those of
 * its tokens. */
static inline size_t ls_nn_stream_rows(const ls_nn *nn) { return nn->rows.B * nn->rows.stream_T; }

/* Takes memory for rows × columns elements of type act from the arena. */
void *ls_nn_take(const ls_nn *nn, ls_arena *arena, const char *kind, size_t rows, size_t columns);
/* Takes memory for rows × columns elements of fp32 from the arena. */
static inline float *ls_nn_take_f32(ls_arena *arena, const char *kind, size_t rows, size_t columns) {
    return ls_arena_take_array(arena, kind, rows, columns * sizeof(float));
}
/* Returns memory for scratch->cross from the arena; NULL if it is not needed. */
void *ls_nn_take_cross(const ls_nn *nn, ls_arena *arena);
/* Takes memory from the arena for those of scratch->rows, ->joined and ->cross that gathering and ls_nn_join() need:
 * none without a TP group, and none in fp32 without sequence parallelism. */
void ls_nn_take_joins(const ls_nn *nn, ls_arena *arena, ls_scratch *scratch);
/* Returns the writable address `elems` elements behind `act`, a tensor of the policy's type act. */
static inline void *ls_nn_at(const ls_nn *nn, void *act, size_t elems) {
    return (char *)act + elems * ls_dtype_bytes(nn->policy.act);
}
/* Returns the address of element `elems` of type act, to read. */
static inline const void *ls_nn_from(const ls_nn *nn, const void *act, size_t elems) {
    return (const char *)act + elems * ls_dtype_bytes(nn->policy.act);
}
/* Returns the weight as matmuls read it: the 16-bit copy, or fp32. */
static inline const void *ls_nn_weight(const ls_nn *nn, const ls_param *w) {
    return ls_policy_is_16(&nn->policy) ? (const void *)w->w16 : w->w;
}

/* ---- the TP group (param_slices.c) ------------------------------------------------------------------------------- */

/* Gathers all rows from the rows of the stream. *all is `space`, or `stream` itself without sequence parallelism,
 * because this worker then has all rows. If nothing is moved (no communicator), `space` is not written. */
ls_status ls_nn_gather(const ls_nn *nn, const void *stream, ls_dtype dtype, void *space, const void **all);
/* Returns where a layer writes its fp32 part of a sum over the TP group, for all rows: `stream`, the memory of the
 * result, or scratch if the result has another type or fewer rows. */
static inline float *ls_nn_partial(const ls_nn *nn, void *stream, ls_dtype dtype) {
    return nn->tp.sequence_parallel || dtype != LS_F32 ? nn->scratch.rows : stream;
}
/* Adds the parts of the TP group in the order of slices, then the bias (or NULL), and rounds the result: from
 * ls_nn_partial() to `stream`. Every worker gets all rows or, with sequence parallelism, its own rows of the stream. */
ls_status ls_nn_join(const ls_nn *nn, void *stream, ls_dtype dtype, const ls_param *bias);

/* Passes the result of a matmul, a convolution or an embedding that a TP group shares to the observer `made`; does
 * nothing without one. Layers call it for each such result but the gradients of weights, before ls_nn_join(). */
static inline ls_status ls_nn_made(const ls_nn *nn, const void *y, ls_dtype dtype, size_t elems) {
    return nn->made.take ? nn->made.take(nn->made.ctx, nn->made.part, y, dtype, elems) : LS_OK;
}

/* ---- matmuls ---------------------------------------------------------------------------------------------------- */

/* Computes y[rows][n] = x[rows][k]·W[n][k]ᵀ + bias, with this worker's rows of W. `bias` may be NULL. */
ls_status ls_nn_project(const ls_nn *nn, void *y, const void *x, const ls_param *w, const ls_param *bias);
/* Computes pre = x·Wᵀ + bias and y = gelu(pre), fused if the device can. `bias` may be NULL. */
ls_status ls_nn_project_gelu(const ls_nn *nn, void *pre, void *y, const void *x, const ls_param *w,
                             const ls_param *bias);
/* Computes pre = x·Wᵀ and y = silu(gate)·up in one operation. The columns of pre are `gate` columns of gate, as many of
 * up, and so on. *is_done is false, and nothing was computed, if the device has only the separate operations. */
ls_status ls_nn_project_gated(const ls_nn *nn, void *pre, void *y, size_t gate, const void *x, const ls_param *w,
                              bool *is_done);
/* Computes dpre = x·Wᵀ · gelu'(pre); and y = gelu(pre) again, unless y is NULL. */
ls_status ls_nn_project_gelu_grad(const ls_nn *nn, void *dpre, void *y, const void *pre, const void *x,
                                  const ls_param *w);
/* Computes dpre, the gradient of the gated activation's input, from x·Wᵀ, the gradient of its output, and pre, its
 * input; and y = silu(gate)·up again, unless y is NULL. Columns and *is_done are those of ls_nn_project_gated(). */
ls_status ls_nn_project_gated_grad(const ls_nn *nn, void *dpre, void *y, const void *pre, size_t gate, const void *x,
                                   const ls_param *w, bool *is_done);
/* Returns the type of logits: fp32 or, with tensor cores, the type of activations. */
static inline ls_dtype ls_nn_logits_dtype(const ls_nn *nn) {
    return ls_unit_is_tensor_core(nn->policy.unit) ? nn->policy.act : LS_F32;
}
/* Computes logits y = x·Wᵀ, without bias, of type ls_nn_logits_dtype(), for this worker's rows of the table; rows of y
 * are own.logits elements apart. */
ls_status ls_nn_logits(const ls_nn *nn, void *y, const void *x, const ls_param *table);
/* Computes y[stream][columns] = x[rows][k]·W[k][columns] + bias, summed over the TP group. Slices cut k at the ends of
 * units of W. */
ls_status ls_nn_project_sliced(const ls_nn *nn, void *y, const void *x, const ls_param *w, const ls_param *bias);
enum { LS_NN_VOCABULARY_PIECE = 512 }; /* rows that a piece of a slice of the vocabulary should have at most */
/* Computes ls_nn_project_sliced() for a table of the vocabulary. Its slices are cut further, in halves, while a piece
 * has more than LS_NN_VOCABULARY_PIECE rows and all slices together have at most LS_GEMM_SLICES_MAX pieces, because a
 * row has one large term, that of its target: in a long chain (a sum in ascending order) the many small terms after it
 * would lose their last bits. The pieces of a slice are a subtree. With tensor cores there are no pieces, because each
 * would cost a GPU another pass over its sums. */
ls_status ls_nn_project_vocabulary(const ls_nn *nn, void *y, const void *x, size_t x_stride, const ls_param *table);
/* Computes the gradient of W[m][n], aᵀ·b, from a[rows][m] and b[rows][n], in the steps of this micro-batch. */
ls_status ls_nn_grad_matrix(const ls_nn *nn, const ls_param *w, const void *a, size_t m, size_t a_stride, const void *b,
                            size_t n);

/* Computes dx[rows][columns] = dy[rows][k]·W[k][columns] in fp32, in one chain, for a weight that slices do not cut. */
ls_status ls_nn_project_back(const ls_nn *nn, float *dx, const float *dy, const ls_param *w);

/* Returns the rows of the parameter's gradient that this worker computes. */
static inline ls_grad_rows ls_nn_grad_rows(const ls_nn *nn, const ls_param *param) {
    return ls_param_grad_rows(param, nn->S, nn->slice0, nn->slices, nn->tp.sequence_parallel);
}

enum { LS_NN_TOKEN_BLOCK = 64 }; /* tokens of a block */
/* Returns the tokens of a step as kernels that sum over tokens take them; it points into the step. With tensor cores
 * the chains are cut into blocks of LS_NN_TOKEN_BLOCK, so that a GPU has enough chains to compute a norm's gradients in
 * one pass. */
ls_token_groups ls_nn_groups(const ls_nn *nn, const ls_grad_step *step);
/* Adds slot[at] to the `joins` entries below it; the sum is then in slot[at − joins]. */
ls_status ls_nn_grad_join(const ls_nn *nn, const ls_grad *grad, int at, int joins, size_t elems);
/* Ends a step whose sum is in its own slot: rounds the sum if the policy says so, sets it to −0 if its group counts
 * as absent, passes it to the observer `watch` if its group is complete, and joins it to the slots below. */
ls_status ls_nn_grad_end(const ls_nn *nn, const ls_param *param, const ls_grad *grad, const ls_grad_step *step,
                         size_t elems);

/* ---- gradients of vectors ---------------------------------------------------------------------------------------- */

/* Computes the gradient of a bias for this worker's columns from dy: sums over all rows, in the steps of this
 * micro-batch. */
ls_status ls_nn_grad_bias(const ls_nn *nn, ls_param *bias, const void *dy);
/* Computes the gradient of a bias that is added to the residual stream from dy: sums over this worker's rows of the
 * stream. */
ls_status ls_nn_grad_stream_bias(const ls_nn *nn, ls_param *bias, const void *dy);

/* ---- norms of the stream, of the kind of the shape; stats are [2][stream] ---------------------------------------- */

/* Computes y = norm(x) of the rows of the stream here, and its statistics in `stats` for backward. b is NULL for RMS
 * norms. */
ls_status ls_nn_norm(const ls_nn *nn, void *y, float *stats, const float *x, const ls_param *w, const ls_param *b);
/* Computes sum = x + branch, with dropout of branch, and y = norm(sum), in one pass over memory. */
ls_status ls_nn_sum_norm(const ls_nn *nn, void *y, float *stats, const float *x, const void *branch,
                         const ls_drop *drop, float *sum, const ls_param *w, const ls_param *b);
/* What ls_nn_norm_backward() computes beside dx, in the same pass if the device can. */
typedef struct ls_nn_norm_more {
    bool add;   /* adds to dx, in place of overwriting it */
    void *copy; /* dx, rounded to the policy's 16-bit type; NULL: none */
    void *y;    /* the output of the norm, recomputed; NULL: not needed */
    ls_param *b;
    bool params; /* the gradients of w and b */
    /* With params: the input of the norm was x + branch, which is recomputed in `sum`; and `bias`, a bias of the
     * stream, gets its gradient from copy. NULL: none. */
    const void *branch;
    float *sum;
    ls_param *bias;
    ls_drop drop; /* of branch and copy */
} ls_nn_norm_more;
/* Computes dx from dy, and what `more` asks for. dx must be neither dy nor x. */
ls_status ls_nn_norm_backward(const ls_nn *nn, float *dx, const void *dy, float *stats, const float *x, ls_param *w,
                              const ls_nn_norm_more *more);
/* Returns whether ls_nn_norm_backward() should compute the gradients of w and b too (params): with tensor cores their
 * chains are short enough for one pass. */
static inline bool ls_nn_norm_is_whole(const ls_nn *nn) { return ls_unit_is_tensor_core(nn->policy.unit); }
/* Computes the gradients of a norm's weight and bias (b may be NULL) from dy, the gradient of its output, without dx;
 * in the steps of this micro-batch. */
ls_status ls_nn_norm_params(const ls_nn *nn, const void *dy, float *stats, const float *x, ls_param *w, ls_param *b);

#endif
