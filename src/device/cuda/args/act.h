/* act.h: what the kernels of act.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_ACT_H
#define LS_DEVICE_CUDA_ARGS_ACT_H

#include "device/cuda/common/pack.h"

/* With the values of ls_act_fn. */
enum { LS_CUDA_GELU, LS_CUDA_SILU, LS_CUDA_RELU, LS_CUDA_SIGMOID };

enum { LS_CUDA_ACT_PACKS = 2, LS_CUDA_ACT_ROWS = 2 }; /* that a thread has under way */

/* Numbers of the tables of act_table.cuh. A multiprocessor has room for so many
 * blocks, fewer where there is more than one input; threads have so many packs of a flat array under way. */
enum { LS_CUDA_GELU_TABLE = 1831, LS_CUDA_SIGMOID_TABLE = 4130, LS_CUDA_SLOPE_TABLE = 4174 };
enum { LS_CUDA_TABLE_THREADS = 512, LS_CUDA_TABLE_BLOCKS = 3, LS_CUDA_TABLE_MORE_BLOCKS = 2, LS_CUDA_TABLE_PACKS = 2 };

/* y of x; backward y is dx, from dy and x. */
typedef struct ls_cuda_act {
    ls_cuda_flat flat;
    int fn;  /* ls_act_fn */
    int act; /* ls_dtype of x, y and dy */
    void *y;
    const void *dy, *x;
} ls_cuda_act;

typedef struct ls_cuda_gated {
    ls_cuda_rows rows;
    int fn; /* ls_gate_fn: the host chooses the kernel by it */
    int act;
    const void *gate, *up;
    size_t in_stride;
    void *y;
    size_t y_stride;
    const void *dy;
    size_t dy_stride;
    void *dgate, *dup;
    size_t din_stride;
} ls_cuda_gated;

/* y = c + bias; with `pre`, which gets the sum, y = gelu(pre). */
typedef struct ls_cuda_bias {
    ls_cuda_rows rows;
    int act;
    void *y;
    size_t y_stride;
    const float *c;
    size_t c_stride;
    const float *bias; /* NULL: none */
    float *pre;
    size_t pre_stride;
} ls_cuda_bias;

#endif
