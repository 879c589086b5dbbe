/* nn.h: what layers run on: a device, a shape, this worker's slices of it, the rows of a micro-batch, and the steps of
 * its weight gradients.
 *
 * Rows are tokens: B sequences of T rows each, sequence by sequence. While text is generated B is 1, and the rows are
 * positions `first` … first + T − 1 of it; the keys and values of earlier positions are still in their place. Values
 * are the same bits in both cases (rule 6).
 *
 * Tensor parallelism. The workers of a tp row share every layer: each has some of the slices, so of heads, columns of
 * the MLP and rows of the vocabulary. What lies between the layers, the residual stream and the norms, each of them has
 * whole; with sequence parallelism each has some tokens of every sequence, those of its token slices:
 *
 *     stream rows ─ norm ─┤gather├─ all rows, own slices ─┤sum over the tp row, scatter├─ stream rows
 *
 * split.c has the two crossings; alone, they cost nothing.
 *
 * Everything that is written is memory of the device. Functions return what the device's operations return. */
#ifndef LS_NN_NN_H
#define LS_NN_NN_H

#include "kernels/ops.h"
#include "lockstep.h"
#include "nn/grad_plan.h"
#include "nn/param.h"
#include "nn/shape.h"
#include "tensor/arena.h"
#include "tensor/device.h"

enum { LS_SLICES_MAX = 64 };

/* Elements that are dropped in training; p = 0: none. An element is named by seed, step, place in the model, number of
 * the sequence in all of the run's data, and index, so no layout changes it. */
typedef struct ls_dropout {
    double p;
    uint64_t seed, step;
    uint64_t first_sequence; /* of the micro-batch, counted in the batch */
} ls_dropout;

/* Memory that a block needs only while it runs; pieces of different phases share their place. `rows` are all rows,
 * `stream` those of the residual stream; widths are this worker's. */
typedef struct ls_scratch {
    float *norm;    /* [stream][C] what a norm gives */
    float *dnorm;   /* [stream][C] its gradient */
    float *branch;  /* [stream][C] what goes to the residual stream, and its gradient */
    float *rows;    /* [rows][C] gathered, or a product before it is scattered; only with sequence parallelism */
    float *rows2;   /* [rows][C] the same: the gradient of the branch */
    float *wide;    /* [rows][hidden] output of the activation */
    float *dact;    /* [rows][hidden] its gradient, where dwide cannot hold it */
    float *dwide;   /* [rows][width of the MLP] */
    float *dheads;  /* [rows][query width] */
    float *dqkv;    /* [rows][qkv width] */
    float *dots;    /* [B][H][T] */
    float *logits;  /* [rows][V] */
    float *loss;    /* [rows] */
    float *stats;   /* [2][stream] of the head's norm */
    float *row_max; /* [rows] of the workers that share logits: their maxima, targets' logits and sums */
    float *row_sum; /* [rows] */
    float *parts;   /* [max(2·tp, S)][rows] */
} ls_scratch;

/* This worker's part of the widths of a shape. */
typedef struct ls_widths {
    size_t heads, kv_heads;
    size_t query, qkv; /* columns */
    size_t hidden, mlp;
    size_t vocabulary, first_id;
} ls_widths;

typedef struct ls_nn {
    ls_device *device;
    const ls_ops *ops;
    const ls_shape *shape;
    int S;              /* slices of all workers */
    int slice0, slices; /* this worker's */
    ls_widths own;
    ls_comm *tp; /* the tp row; NULL: this worker alone */
    int tp_size, tp_index;
    bool sequence_parallel;
    const float *rope_cos, *rope_sin; /* [shape T][head size / 2] */

    size_t B, T, first;
    size_t token0, stream_T;      /* of a sequence: tokens token0 … token0 + stream_T − 1 are in the stream here */
    const int32_t *ids, *targets; /* one for each row, memory of the device */
    float loss_scale;             /* the power of two with which backward starts */
    const ls_grad_step *steps;    /* of this micro-batch */
    int nsteps;
    ls_dropout dropout;
    ls_scratch scratch;
} ls_nn;

/* Slices first … first + count − 1 of S are this worker's. */
void ls_nn_take_slices(ls_nn *nn, int S, int first, int count);
/* B sequences of T tokens, from position 0. */
void ls_nn_set_rows(ls_nn *nn, size_t B, size_t T);

static inline size_t ls_nn_rows(const ls_nn *nn) { return nn->B * nn->T; }
static inline size_t ls_nn_stream_rows(const ls_nn *nn) { return nn->B * nn->stream_T; }

/* ---- the tp row (split.c) ---------------------------------------------------------------------------------------- */

/* All rows from the stream's: *all is `stream` itself, or `room` with everything gathered. */
ls_status ls_nn_gather(const ls_nn *nn, const float *stream, float *room, const float **all);
/* Where a product over this worker's slices goes: `stream`, or rows of its own where it is scattered afterwards. */
static inline float *ls_nn_partial(const ls_nn *nn, float *stream) {
    return nn->sequence_parallel ? nn->scratch.rows : stream;
}
/* Adds the products of the tp row up in the order of slices, then the bias: from ls_nn_partial(stream) to `stream`. */
ls_status ls_nn_join(const ls_nn *nn, float *stream, const ls_param *bias);

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* y[rows][n] = x[rows][k]·W[n][k]ᵀ + bias */
ls_status ls_nn_project(const ls_nn *nn, float *y, const float *x, const ls_param *w, const ls_param *bias);
/* y[stream][columns] = x[rows][k]·W[k][columns] + bias, where slices cut k at the ends of units of W; over the tp row
 */
ls_status ls_nn_project_sliced(const ls_nn *nn, float *y, const float *x, const ls_param *w, const ls_param *bias);
/* The same for a table of the vocabulary, whose slices are cut further, in halves, while a piece has more rows than
 * this: the one large term of a row, that of its target, would cost the many small ones behind it in a long chain their
 * last bits. Pieces of a slice are a subtree. */
enum { LS_NN_VOCABULARY_PIECE = 512 };
ls_status ls_nn_project_vocabulary(const ls_nn *nn, float *y, const float *x, const ls_param *table);
/* grad of W[m][n], from the factor of its rows a[rows][m] and that of its columns b[rows][n] */
ls_status ls_nn_grad_matrix(const ls_nn *nn, const ls_grad *grad, const float *a, size_t m, const float *b, size_t n);

/* The tokens of a step, for the sums over all tokens. */
ls_token_groups ls_nn_groups(const ls_nn *nn, const ls_grad_step *step);
/* slot[at] joins the `joins` entries below it; the sum ends in slot[at − joins]. */
ls_status ls_nn_grad_join(const ls_nn *nn, const ls_grad *grad, int at, int joins, size_t elems);

/* ---- gradients of vectors ---------------------------------------------------------------------------------------- */

/* Of a bias of own columns, added to all rows; and of one added to the stream. */
ls_status ls_nn_grad_bias(const ls_nn *nn, ls_param *bias, const float *dy);
ls_status ls_nn_grad_stream_bias(const ls_nn *nn, ls_param *bias, const float *dy);

/* ---- norms of the stream, of the kind of the shape; stats are [2][stream] ------------------------------------------
 */

ls_status ls_nn_norm(const ls_nn *nn, float *y, float *stats, const float *x, const ls_param *w, const ls_param *b);
/* dx from dy. dx is neither dy nor x. */
ls_status ls_nn_norm_backward(const ls_nn *nn, float *dx, const float *dy, float *stats, const float *x,
                              const ls_param *w);
/* The gradients of w and b. */
ls_status ls_nn_norm_params(const ls_nn *nn, const float *dy, float *stats, const float *x, ls_param *w, ls_param *b);

#endif
