/* token_sums.h: sums over tokens, by gradient group, shared by the gradients of norms, biases and the token table
 * (docs/reference/arithmetic.md, "Sums over tokens").
 *
 * A sum is the tree over the groups (ls_cpu_sum_groups); a callback computes its leaves, the sum of one group. Partial
 * sums are as wide as the piece of a thread, so no operation here needs memory of the size of a tensor. */
#ifndef LS_DEVICE_CPU_OPS_TOKEN_SUMS_H
#define LS_DEVICE_CPU_OPS_TOKEN_SUMS_H

#include "device/cpu/cpu.h"

/* Callback: writes the sum of one group, `elems` numbers. When the call accumulates, `out` holds the sum to
 * continue. */
typedef void (*ls_cpu_leaf_fn)(const void *ctx, int group, float *out);

typedef struct ls_cpu_leaves {
    const ls_kernels *kernels;
    ls_cpu_leaf_fn leaf;
    const void *ctx;
    size_t elems;
} ls_cpu_leaves;

/* Returns the levels of the tree over `count` groups: its scratch has that many times `elems` numbers. */
size_t ls_cpu_sum_levels(int count);
/* Computes the sum of groups first … first+count−1, a node of the tree, and writes `elems` numbers to `out`. */
void ls_cpu_sum_groups(const ls_cpu_leaves *leaves, int first, int count, float *out, float *scratch);

/* A tile of dy as fp32: rows row … row+rows−1, columns column … column+columns−1. `dy` points to its first element. */
typedef struct ls_cpu_tile {
    const float *dy;
    size_t dy_stride, row, rows, column, columns;
} ls_cpu_tile;

/* The gradients of one or two parameter vectors (`sums`), such as the weight and the bias of a norm. The callback
 * `chain` continues their sums over the rows of a tile: to[i] points to the sum of vector i in the first column of the
 * tile. */
typedef struct ls_cpu_chains {
    const ls_token_groups *groups;
    size_t columns;
    const void *dy;
    ls_dtype act; /* of dy */
    size_t dy_stride;
    int sums;
    float *out[2]; /* [slices][columns] */
    void (*chain)(const ls_kernels *kernels, const void *args, float *const to[2], const ls_cpu_tile *tile);
    const void *args;
} ls_cpu_chains;

/* Computes the gradients on all threads of the CPU device. The caller has checked the groups. */
ls_status ls_cpu_run_chains(ls_cpu_device *cpu, const ls_cpu_chains *chains);

#endif
