/* nn.h: what layers run on: a device, a shape, the rows of a micro-batch, and the steps of its weight gradients.
 *
 * Rows are tokens: B sequences of T rows each, sequence by sequence. While text is generated B is 1, and the rows are
 * positions `first` … first + T − 1 of it; the keys and values of earlier positions are still in their place. Values
 * are the same bits in both cases (rule 6).
 *
 * Everything that is written is memory of the device. Functions return what the device's operations return. */
#ifndef LS_NN_NN_H
#define LS_NN_NN_H

#include "kernels/ops.h"
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

/* Memory that a block needs only while it runs; pieces of different phases share their place. */
typedef struct ls_scratch {
    float *norm;   /* [rows][C] what a norm gives */
    float *dnorm;  /* [rows][C] its gradient */
    float *branch; /* [rows][C] what goes to the residual stream, and its gradient */
    float *wide;   /* [rows][hidden] output of the activation */
    float *dact;   /* [rows][hidden] its gradient, where dwide cannot hold it */
    float *dwide;  /* [rows][width of the MLP] */
    float *dheads; /* [rows][query width] */
    float *dqkv;   /* [rows][qkv width] */
    float *dots;   /* [B][H][T] */
    float *logits; /* [rows][V] */
    float *loss;   /* [rows] */
} ls_scratch;

typedef struct ls_nn {
    ls_device *device;
    const ls_ops *ops;
    const ls_shape *shape;
    int S;
    const float *rope_cos, *rope_sin; /* [shape T][head size / 2] */

    size_t B, T, first;
    const int32_t *ids, *targets; /* one for each row, memory of the device */
    float loss_scale;             /* the power of two with which backward starts */
    const ls_grad_step *steps;    /* of this micro-batch */
    int nsteps;
    ls_dropout dropout;
    ls_scratch scratch;
} ls_nn;

static inline size_t ls_nn_rows(const ls_nn *nn) { return nn->B * nn->T; }

/* Ends of the slices of `units` units of `unit` elements: bounds[0 … S]. */
void ls_nn_bounds(const ls_nn *nn, size_t units, size_t unit, size_t bounds[LS_SLICES_MAX + 1]);

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* y[rows][n] = x[rows][k]·W[n][k]ᵀ + bias */
ls_status ls_nn_project(const ls_nn *nn, float *y, const float *x, const ls_param *w, const ls_param *bias);
/* y[rows][columns] = x[rows][k]·W[k][columns] + bias, where slices cut k at the ends of units of W */
ls_status ls_nn_project_sliced(const ls_nn *nn, float *y, const float *x, const ls_param *w, const ls_param *bias);
/* The same for a table of the vocabulary, whose slices are cut further, in halves, while a piece has more rows than
 * this: the one large term of a row, that of its target, would cost the many small ones behind it in a long chain their
 * last bits. Pieces of a slice are a subtree. */
enum { LS_NN_VOCABULARY_PIECE = 512 };
ls_status ls_nn_project_vocabulary(const ls_nn *nn, float *y, const float *x, const ls_param *table);
/* grad of W[m][n], from the factor of its rows a[rows][m] and that of its columns b[rows][n] */
ls_status ls_nn_grad_matrix(const ls_nn *nn, const ls_grad *grad, const float *a, size_t m, const float *b, size_t n);

/* The tokens of a step, for the sums over tokens. */
ls_token_groups ls_nn_groups(const ls_nn *nn, const ls_grad_step *step);
/* slot[at] joins the `joins` entries below it; the sum ends in slot[at − joins]. */
ls_status ls_nn_grad_join(const ls_nn *nn, const ls_grad *grad, int at, int joins, size_t elems);

/* ---- gradients of vectors ---------------------------------------------------------------------------------------- */

ls_status ls_nn_grad_bias(const ls_nn *nn, ls_param *bias, const float *dy);

/* ---- norms, of the kind of the shape; stats are [2][rows] ----------------------------------------------------------
 */

ls_status ls_nn_norm(const ls_nn *nn, float *y, float *stats, const float *x, const ls_param *w, const ls_param *b);
/* dx from dy, and the gradients of w and b. dx is neither dy nor x. */
ls_status ls_nn_norm_backward(const ls_nn *nn, float *dx, const float *dy, float *stats, const float *x, ls_param *w,
                              ls_param *b);

#endif
