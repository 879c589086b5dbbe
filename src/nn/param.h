/* param.h: a parameter: what it is, how slices cut it, where it is in memory. A slice is one of S fixed parts of every
 * layer, which tensor parallelism assigns to workers. Blocks declare parameters; the partition (parallel/) gives them
 * memory.
 *
 * A parameter is a matrix of rows × columns, stored so that a slice is a range of its rows: a weight whose outputs are
 * cut has a row for each output, one whose inputs are cut has a row for each input. Rows are made of *units* (a key
 * head with its query heads, one column of the MLP, one id), and slices hold whole units. A fused weight has several
 * parts; in memory each slice holds its own rows of all parts, so that a slice stays one piece:
 *
 *     canonical    q0 q1 q2 q3 │ k0 k1 │ v0 v1          as files have it, whatever the number of slices
 *     in memory    q0 q1 k0 v0 │ q2 q3 k1 v1            two slices
 *
 * Random initial values and files go by the canonical order. */
#ifndef LS_NN_PARAM_H
#define LS_NN_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "nn/shape.h"

typedef enum ls_param_kind {
    LS_PARAM_MATRIX,   /* gradient: a matmul over tokens */
    LS_PARAM_VECTOR,   /* one dimension; gradient: sums over tokens (rule 4) */
    LS_PARAM_TOKENS,   /* rows looked up by id */
    LS_PARAM_POSITIONS /* rows looked up by position */
} ls_param_kind;

/* What a block uses a parameter for. Blocks find their parameters by role (ls_block_param()), not by their order. */
typedef enum ls_role {
    LS_ROLE_TOKENS,
    LS_ROLE_POSITIONS,
    LS_ROLE_ATTENTION_NORM,
    LS_ROLE_ATTENTION_NORM_BIAS,
    LS_ROLE_QKV,
    LS_ROLE_QKV_BIAS,
    LS_ROLE_Q_NORM,
    LS_ROLE_K_NORM,
    LS_ROLE_ATTENTION_OUT,
    LS_ROLE_ATTENTION_OUT_BIAS,
    LS_ROLE_MLP_NORM,
    LS_ROLE_MLP_NORM_BIAS,
    LS_ROLE_MLP_IN,
    LS_ROLE_MLP_IN_BIAS,
    LS_ROLE_MLP_OUT,
    LS_ROLE_MLP_OUT_BIAS,
    LS_ROLE_FINAL_NORM,
    LS_ROLE_FINAL_NORM_BIAS,
    LS_ROLE_HEAD,
    /* Image models. The weight and bias of a layer; the weight of a convolution and the four of its batch norm. */
    LS_ROLE_WEIGHT,
    LS_ROLE_BIAS,
    LS_ROLE_CONV,
    LS_ROLE_BATCH_NORM,
    LS_ROLE_BATCH_NORM_BIAS,
    LS_ROLE_RUNNING_MEAN,
    LS_ROLE_RUNNING_VAR
} ls_role;

typedef enum ls_param_init { LS_INIT_NORMAL, LS_INIT_ZEROS, LS_INIT_ONES } ls_param_init;

enum { LS_PARAM_PARTS_MAX = 3, LS_PARAM_NAME_MAX = 64, LS_GRAD_SLOTS_MAX = 24 };

/* One part of a fused weight, such as the rows of k. */
typedef struct ls_param_part {
    size_t first_row; /* canonical */
    size_t unit_rows; /* rows of one unit */
} ls_param_part;

/* Elements begin … end−1, counted in the local rows. */
typedef struct ls_param_range {
    size_t begin, end;
} ls_param_range;

/* Returns how many elements the range has. */
static inline size_t ls_param_range_elems(ls_param_range range) { return range.end - range.begin; }

/* Gradients of one use of a parameter. Slot 0 is where the finished one is; the others hold subtrees (grad_plan.h).
 * A vector's slot has several rows (ls_grad_rows), which are joined into the first at the end of the step. */
typedef struct ls_grad {
    float *slot[LS_GRAD_SLOTS_MAX];
} ls_grad;

/* A parameter of the model, and this worker's part of it. */
typedef struct ls_param {
    char name[LS_PARAM_NAME_MAX];
    ls_param_kind kind;
    ls_role role;
    int unit; /* which conv_bn of its block has that role; 0 in blocks without */
    size_t rows, columns;
    size_t units; /* indivisible groups of rows: heads, columns of the MLP, ids */
    size_t grain; /* slices end at multiples of so many units; 0: at any */
    int parts;
    ls_param_part part[LS_PARAM_PARTS_MAX];
    size_t positions; /* of a matrix: rows of its matmul for a token or image: 1, or the pixels of a convolution */
    bool split;       /* cut into slices; otherwise one slice has it all */
    bool of_slices; /* a vector that all slices use, each for its own heads: row i of its gradient is that of slice i */
    bool decay;     /* weight decay applies */
    bool running; /* statistics of batch norm: its gradient is the sum of those of the ghost groups, which it follows */
    double follow; /* of those: times the mean over ghost groups; n/(n−1) for a variance of n numbers */
    bool rounded;  /* own_w has what 16 bits can hold although there is no own_w16: of a copy for another worker */
    ls_param_init init;
    double init_std;
    uint32_t number; /* in the model */

    /* This worker's part: parallel/ decides. */
    bool held;                    /* it has any of it */
    size_t first_row, local_rows; /* rows in memory that it has: those of its slices, or all */
    ls_param_range own;           /* of the elements of these rows, those that it updates; empty: none */
    ls_param_range once;          /* of those, the ones that no other worker counts, hashes and saves */

    float *w;      /* memory of the device from here on: the local rows (while they are gathered); NULL where there is
                      only w16 */
    uint16_t *w16; /* of matrices and tables under a 16-bit policy: the local rows, rounded, as matmuls read them */
    ls_grad grad;
    ls_grad lookup;          /* of a tied table: the use as embedding; `grad` is then that of the head */
    float *own_w, *own_grad; /* elements `own`; the gradient once the step is complete */
    uint16_t *own_w16;       /* the same elements of w16, or of the shard it is gathered from */
    float *moment[2];        /* of the optimizer, elements `own`; NULL where it has none */
    uint64_t *block_sums;    /* of own_w and moments as they were written (device/calls.h); NULL: none */
    _Atomic uint64_t *cells; /* of the host: how far updates of `own` have come (device/cpu/journal.h); NULL: none */
} ls_param;

/* Returns the number of elements in the rows of this worker's slices. */
static inline size_t ls_param_local_elems(const ls_param *param) { return param->local_rows * param->columns; }
/* Returns the elements of the whole parameter, over all workers. */
static inline size_t ls_param_elems(const ls_param *param) { return param->rows * param->columns; }
/* Returns how many slices this parameter is cut into when layers are cut into `slices`: all of them, or 1. */
static inline int ls_param_slices(const ls_param *param, int slices) { return param->split ? slices : 1; }
/* Returns the first row in memory of slice i of `slices`, counted over the rows of all workers; i = slices gives
 * their end. Of a parameter that slices do not cut i is 0 or 1, the end. */
size_t ls_param_slice_row(const ls_param *param, int slices, int i);
/* Gives this worker slices first … first + count − 1 of `slices`, or all rows of a parameter that slices do not cut,
 * and all of their elements to update and to report (own, once). */
void ls_param_take_slices(ls_param *param, int slices, int first, int count);

/* The rows of a slot of a gradient. A vector has one for each of the S slices, because its sums are cut there (rule 4);
 * any other parameter has a single row. Where count < all, other workers of the TP group compute the other rows, and
 * the reduction must gather them; until then they hold what an earlier step left. This is the only place that decides
 * which rows a worker computes: kernels, reduction, audit, hunt and traffic ask here. */
typedef struct ls_grad_rows {
    size_t all;
    size_t first, count; /* those that this worker computes */
    size_t elems;        /* of one row */
} ls_grad_rows;

/* Returns how many rows a slot of the parameter's gradient has, and which of them a worker computes that has slices
 * first … first + count − 1 of S: one row for each slice of a vector, a single row otherwise. */
ls_grad_rows ls_param_grad_rows(const ls_param *param, int S, int first, int count, bool sequence_parallel);
/* Returns the elements of a slot of the gradient, the rows of other workers included. */
static inline size_t ls_grad_rows_elems(ls_grad_rows rows) { return rows.all * rows.elems; }

/* A run of rows that are neighbours both in memory and in canonical order. */
typedef struct ls_param_run {
    size_t memory_row, canonical_row, rows;
} ls_param_run;

/* Sets *run to run i of neighbouring rows, ascending in memory, to convert between the order in memory and the
 * canonical one: part i % parts of slice i / parts, over the rows of all workers; it may have no rows. Returns false,
 * and leaves *run, if there is no such run. */
bool ls_param_run_get(const ls_param *param, int slices, int i, ls_param_run *run);

/* Returns a matrix of one part that slices do not cut, with normal initial values and weight decay. */
ls_param ls_param_matrix(const char *name, size_t rows, size_t columns, double init_std);
/* Returns a vector of one part that slices do not cut, without weight decay. */
ls_param ls_param_vector(const char *name, size_t elems, ls_param_init init);

/* ---- initial values (init.c) ------------------------------------------------------------------------------------- */

/* Computes the initial values of elements first … first + count − 1 in canonical order, which depend on the seed and
 * the parameter's number in the model only. */
void ls_init_param(const ls_param *param, uint64_t seed, size_t first, size_t count, float *out);

/* Computes the tables [T][ls_shape_rotated() / 2] of the rotary embedding of a layer that rotates: cosine and sine of
 * position times frequency, in double, rounded to fp32. The caller owns both. */
void ls_init_rope(const ls_shape *shape, size_t layer, size_t T, float *cos, float *sin);

#endif
