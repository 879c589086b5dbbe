/* token_sums.h: sums over the tokens of a call by groups: what gradients of parameters share.
 *
 * A sum is a tree over the groups (ls_cpu_sum_groups), whose leaves somebody else adds up. Partial sums are as wide as
 * the piece that a thread works on: no operation here needs memory of the size of a tensor. */
#ifndef LS_DEVICE_CPU_OPS_TOKEN_SUMS_H
#define LS_DEVICE_CPU_OPS_TOKEN_SUMS_H

#include "device/cpu/cpu.h"

/* Writes the sum of one group, `elems` numbers; `out` may hold what it goes on from. */
typedef void (*ls_cpu_leaf_fn)(const void *ctx, int group, float *out);

typedef struct ls_cpu_leaves {
    const ls_kernels *kernels;
    ls_cpu_leaf_fn leaf;
    const void *ctx;
    size_t elems;
} ls_cpu_leaves;

/* `levels` of ls_cpu_sum_levels(count) times `elems` numbers are the scratch of a tree over `count` groups. */
size_t ls_cpu_sum_levels(int count);
void ls_cpu_sum_groups(const ls_cpu_leaves *leaves, int first, int count, float *out, float *scratch);

/* Rows row … row+rows−1 of dy, as fp32, in columns column … column+columns−1; `dy` is where they begin. */
typedef struct ls_cpu_tile {
    const float *dy;
    size_t dy_stride, row, rows, column, columns;
} ls_cpu_tile;

/* Gradients of one-dimensional parameters. `chain` goes on, over the rows of a tile, with the `sums` numbers that
 * belong to each of its columns: to[0] begins with that of the first column, and so does to[1] where sums is 2. */
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

ls_status ls_cpu_run_chains(ls_cpu_device *cpu, const ls_cpu_chains *chains);

#endif
