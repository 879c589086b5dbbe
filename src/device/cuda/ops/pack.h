/* pack.h: divides flat arrays and rows among the threads of a grid (common/pack.cuh has the kernel's side); for
 * the host code in ops/. A pack is what a thread loads at once: some neighbours of a tensor. */
#ifndef LS_DEVICE_CUDA_OPS_PACK_H
#define LS_DEVICE_CUDA_OPS_PACK_H

#include "device/cuda/common/pack.h"
#include "device/cuda/launch.h"
#include "device/dtype.h"

/* Returns whether a thread can load `width` elements of this tensor at once: its address and `stride`, the elements
 * from row to row, are multiples of `width` elements. True for NULL, an absent tensor. */
static inline bool ls_cuda_fits(const void *at, ls_dtype dtype, size_t stride, size_t width) {
    return !at || ((uintptr_t)at % (width * ls_dtype_bytes(dtype)) == 0 && stride % width == 0);
}

/* Returns how many elements a load of 16 bytes, the widest, has. */
static inline size_t ls_cuda_widest(ls_dtype dtype) { return dtype == LS_F32 ? 4 : 8; }

/* Returns the grid for a flat array if a thread handles `packs` packs of `width` elements at a time (single
 * elements if it is not aligned). x is 0 for an empty array: nothing is launched. */
static inline ls_cuda_grid ls_cuda_flat_grid(const ls_cuda_flat *flat, size_t width, size_t packs) {
    enum { BLOCKS_MAX = 1 << 30 };
    size_t elems = (size_t)LS_CUDA_PACK_THREADS * packs * (flat->aligned ? width : 1);
    size_t blocks = ls_cuda_divide_up(flat->n, elems);
    return (ls_cuda_grid){blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX, 1, 1};
}

/* Returns the grid for a matrix, and sets rows->lanes_log2 (the binary logarithm of the threads side by side in a
 * row), which the kernel needs. A thread handles packs of `width` elements of `together` rows at a time. x is 0
 * for an empty matrix. */
static inline ls_cuda_grid ls_cuda_rows_grid(ls_cuda_rows *rows, size_t width, size_t together) {
    enum { BLOCKS_X_MAX = 1 << 30, BLOCKS_Y_MAX = 1 << 15 };
    size_t packs = rows->aligned ? rows->columns / width : rows->columns;
    rows->lanes_log2 = 0;
    while ((size_t)1 << rows->lanes_log2 < packs && 1 << rows->lanes_log2 < LS_CUDA_PACK_THREADS) rows->lanes_log2++;
    size_t x = ls_cuda_divide_up(rows->rows, (LS_CUDA_PACK_THREADS >> rows->lanes_log2) * together);
    size_t y = ls_cuda_divide_up(packs, (size_t)1 << rows->lanes_log2);
    if (x == 0 || y == 0) return (ls_cuda_grid){0, 1, 1};
    return (ls_cuda_grid){x < BLOCKS_X_MAX ? x : BLOCKS_X_MAX, y < BLOCKS_Y_MAX ? y : BLOCKS_Y_MAX, 1};
}

#endif
