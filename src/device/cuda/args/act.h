/* act.h: the arguments of the kernels of act.cu (activations, gates, bias), which ops/act.c fills in, and
 * constants that both sides need. Pointers are device memory; strides count elements. */
#ifndef LS_DEVICE_CUDA_ARGS_ACT_H
#define LS_DEVICE_CUDA_ARGS_ACT_H

#include "device/cuda/common/pack.h"

/* The activations, with the values of ls_act_fn. */
enum { LS_CUDA_GELU, LS_CUDA_SILU, LS_CUDA_RELU, LS_CUDA_SIGMOID };

enum { LS_CUDA_ACT_PACKS = 2, LS_CUDA_ACT_ROWS = 2 }; /* packs and rows that a thread loads before it computes */

/* Floats in the tables of act_table.cuh, by which bf16 activations are looked up in shared memory. Kernels with
 * tables have blocks of TABLE_THREADS; a multiprocessor runs TABLE_BLOCKS of them, or TABLE_MORE_BLOCKS where
 * there is more than one input; a thread loads TABLE_PACKS packs of a flat array before it computes. */
enum { LS_CUDA_GELU_TABLE = 1831, LS_CUDA_SIGMOID_TABLE = 4130, LS_CUDA_SLOPE_TABLE = 4174 };
enum { LS_CUDA_TABLE_THREADS = 512, LS_CUDA_TABLE_BLOCKS = 3, LS_CUDA_TABLE_MORE_BLOCKS = 2, LS_CUDA_TABLE_PACKS = 2 };

/* An activation: y of x; in backward y is dx, from dy and x. */
typedef struct ls_cuda_act {
    ls_cuda_flat flat;
    int fn;  /* ls_act_fn */
    int act; /* ls_dtype of x, y and dy */
    void *y;
    const void *dy, *x; /* dy NULL: forward */
} ls_cuda_act;

/* A gate, y = fn(gate)·up, with the fields of ls_gated_call; backward (dy is not NULL) writes dgate and dup
 * instead of y. */
typedef struct ls_cuda_gated {
    ls_cuda_rows rows;
    int fn;  /* ls_gate_fn: the host chooses the kernel by it */
    int act; /* ls_dtype of all tensors */
    const void *gate, *up;
    size_t in_stride;
    void *y;
    size_t y_stride;
    const void *dy;
    size_t dy_stride;
    void *dgate, *dup;
    size_t din_stride;
} ls_cuda_gated;

/* A bias: y = c + bias; if `pre` is not NULL, it gets the sum, and y = gelu(pre). */
typedef struct ls_cuda_bias {
    ls_cuda_rows rows;
    int act; /* ls_dtype of y */
    void *y;
    size_t y_stride;
    const float *c;
    size_t c_stride;
    const float *bias; /* NULL: none */
    float *pre;
    size_t pre_stride;
} ls_cuda_bias;

#endif
