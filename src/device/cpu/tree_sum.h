/* tree_sum.h: evaluates a tree program (numerics/tree.h: the fixed order of a sum over groups or slices, as steps of a
 * stack machine) over arrays in host memory, on the calling thread. Collectives of workers and the CPU device use it.
 *
 * Works in blocks of LS_TREE_BLOCK elements, so that partial sums stay in the first cache and every source is read, and
 * every output written, exactly once. An output may be one of the sources. */
#ifndef LS_DEVICE_CPU_TREE_SUM_H
#define LS_DEVICE_CPU_TREE_SUM_H

#include <stdbool.h>

#include "numerics/tree.h"

enum { LS_TREE_BLOCK = 512 };

typedef struct ls_tree_source {
    const void *data; /* of the first element to add */
    ls_dtype dtype;   /* LS_F32, LS_BF16 or LS_F16; LS_I64 in a sum of integers */
} ls_tree_source;

/* Computes `elems` sums by the program and writes them to each of the outputs: fp32, or int64 modulo 2^64 if
 * `integers`. Data that are 16-bit are widened. `stream`: the caller states that the outputs are large and none of them
 * is a source, so that they are stored past the caches; the stores are complete when the call returns. */
void ls_tree_sum_run(const ls_tree_program *program, const ls_tree_source *sources, bool integers, void *const *outs,
                     int n_outs, bool stream, size_t elems);

#endif
