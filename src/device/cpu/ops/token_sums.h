/* token_sums.h: sums over tokens, by gradient group (a fixed part of the global batch), shared by the gradients of
 * norms, biases and the position table (docs/reference/arithmetic.md, "Sums over tokens").
 *
 * The sum over the groups is added up as one fixed balanced binary tree (ls_cpu_sum_groups); a callback computes its
 * leaves, the sum of one group. Partial sums are as wide as the piece of a thread, so no operation here needs memory of
 * the size of a tensor. Scratch is the caller's. */
#ifndef LS_DEVICE_CPU_OPS_TOKEN_SUMS_H
#define LS_DEVICE_CPU_OPS_TOKEN_SUMS_H

#include "device/cpu/cpu.h"

/* Callback: writes the sum of one group, `elems` numbers. When the call accumulates, `out` holds the sum to
 * continue. */
typedef void (*ls_cpu_leaf_fn)(const void *ctx, int group, float *out);

/* A sum over groups: `leaf` is called with `ctx` for each of them. */
typedef struct ls_cpu_leaves {
    const ls_kernels *kernels;
    ls_cpu_leaf_fn leaf;
    const void *ctx;
    size_t elems; /* numbers of a sum */
} ls_cpu_leaves;

/* Returns the levels of the tree over `count` ≥ 1 groups, ⌈log2 count⌉: the scratch of ls_cpu_sum_groups() has that
 * many times `elems` numbers. */
size_t ls_cpu_sum_levels(int count);
/* Computes the sum of groups first … first+count−1, a node of the tree, and writes `elems` numbers to `out`. */
void ls_cpu_sum_groups(const ls_cpu_leaves *leaves, int first, int count, float *out, float *scratch);

/* A tile of dy as fp32: rows row … row+rows−1, columns column … column+columns−1 of the tensor. `dy` points to the
 * tile's first element. */
typedef struct ls_cpu_tile {
    const float *dy;
    size_t dy_stride, row, rows, column, columns;
} ls_cpu_tile;

/* The gradients of one or two parameter vectors (`sums`), such as the weight and the bias of a norm. The callback
 * `chain` continues their sums over the rows of a tile: to[i] points to the sum of vector i in the first column of the
 * tile. */
typedef struct ls_cpu_chains {
    const ls_token_groups *groups;
    size_t columns; /* elements of a parameter vector */
    const void *dy;
    ls_dtype act; /* of dy */
    size_t dy_stride;
    int sums;      /* how many vectors, 1 or 2 */
    float *out[2]; /* [slices][columns]: the gradients, by token slice */
    void (*chain)(const ls_kernels *kernels, const void *args, float *const to[2], const ls_cpu_tile *tile);
    const void *args; /* passed to `chain` */
} ls_cpu_chains;

/* Computes the gradients on all threads of the CPU device. The caller has checked the groups. LS_ERR_RESOURCE if there
 * is no memory for scratch. */
ls_status ls_cpu_run_chains(ls_cpu_device *cpu, const ls_cpu_chains *chains);

#endif
