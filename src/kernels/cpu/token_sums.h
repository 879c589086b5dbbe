/* token_sums.h: sums over the tokens of a call by groups: what gradients of parameters share.
 *
 * A sum is a tree over the groups (ls_cpu_sum_groups), whose leaves somebody else adds up. Partial sums are as wide as
 * the piece that a thread works on: no operation here needs memory of the size of a tensor. */
#ifndef LS_KERNELS_CPU_TOKEN_SUMS_H
#define LS_KERNELS_CPU_TOKEN_SUMS_H

#include "kernels/cpu/cpu.h"

/* LS_ERR_INPUT with a message, unless the groups make sense. */
ls_status ls_cpu_check_groups(const ls_token_groups *groups);
/* The same, and they have `rows` rows. */
ls_status ls_cpu_check_group_rows(const ls_token_groups *groups, size_t rows);

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

/* Gradients of one-dimensional parameters. `chain` goes on with `sums` numbers for each column over `rows` rows: `to`
 * has n numbers for columns column … column+n−1, then, where sums is 2, n more. */
typedef struct ls_cpu_chains {
    const ls_token_groups *groups;
    size_t columns;
    int sums;
    float *out[2]; /* [slices][columns] */
    void (*chain)(const ls_kernels *kernels, const void *args, float *to, size_t row, size_t rows, size_t column,
                  size_t n);
    const void *args;
} ls_cpu_chains;

ls_status ls_cpu_run_chains(ls_cpu_device *cpu, const ls_cpu_chains *chains);

#endif
