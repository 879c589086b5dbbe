/* staging.h: runs fp32 kernels on 16-bit tensors on the CPU, for the operations in this folder.
 *
 * An operation processes a 16-bit tensor piece by piece: it widens a piece into an fp32 buffer on its stack, runs the
 * fp32 kernel, and rounds the kernel's output to 16 bits. Pieces are small enough that the buffers stay in the L1
 * cache. An fp32 tensor is one piece and is used in place:
 *
 *     for each piece:  x = ls_cpu_widen(…, buffer, x, …)   y = ls_cpu_target(buffer, y, …)
 *                      kernel(y, x, n)                     ls_cpu_narrow(…, y, …)
 *
 * A piece is read completely before any of it is written, so an elementwise operation may be in place. */
#ifndef LS_DEVICE_CPU_OPS_STAGING_H
#define LS_DEVICE_CPU_OPS_STAGING_H

#include "device/cpu/cpu.h"

enum { LS_CPU_STAGING = 1024 }; /* elements of a piece */

/* The fp32 copy of a piece, on the stack of an operation. */
typedef struct ls_cpu_buffer {
    _Alignas(64) float at[LS_CPU_STAGING];
} ls_cpu_buffer;

/* Returns the size of the next piece, in elements, if `left` elements remain: all of them for fp32, else at most
 * LS_CPU_STAGING. */
static inline size_t ls_cpu_piece(ls_dtype dtype, size_t left) {
    return dtype == LS_F32 || left < LS_CPU_STAGING ? left : LS_CPU_STAGING;
}

/* Returns elements first … first+n−1 of `from` as fp32: widened in `buffer` or, if they are fp32, in place. A 16-bit
 * NaN may keep its payload. */
const float *ls_cpu_widen(const ls_kernels *kernels, float *buffer, const void *from, ls_dtype dtype, size_t first,
                          size_t n);
/* Returns where a kernel writes the elements of `to` from `first` on: `buffer` or, if `to` is fp32, `to` itself. */
float *ls_cpu_target(float *buffer, void *to, ls_dtype dtype, size_t first);
/* Rounds the `n` elements at `from`, which ls_cpu_target() returned, to `to` from `first` on. Does nothing for fp32. */
void ls_cpu_narrow(const ls_kernels *kernels, void *to, ls_dtype dtype, size_t first, const float *from, size_t n);

#endif
