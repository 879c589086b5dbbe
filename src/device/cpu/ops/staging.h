/* staging.h: 16-bit tensors on the CPU.
 *
 * An operation takes a piece of its tensors at a time: a 16-bit piece is widened into a buffer of the task, the fp32
 * kernel runs, and what it wrote is rounded on its way out. The buffers stay in the first cache. fp32 tensors are one
 * piece, used where they are:
 *
 *     for each piece:  x = ls_cpu_widen(…, buffer, x, …)   y = ls_cpu_target(buffer, y, …)
 *                      kernel(y, x, n)                     ls_cpu_narrow(…, y, …)
 *
 * A piece is read whole before any of it is written, so an elementwise operation may be in place. */
#ifndef LS_DEVICE_CPU_OPS_STAGING_H
#define LS_DEVICE_CPU_OPS_STAGING_H

#include "device/cpu/cpu.h"

enum { LS_CPU_STAGING = 1024 };

typedef struct ls_cpu_buffer {
    _Alignas(64) float at[LS_CPU_STAGING];
} ls_cpu_buffer;

/* Elements of the next piece, of `left` that are to go. */
static inline size_t ls_cpu_piece(ls_dtype dtype, size_t left) {
    return dtype == LS_F32 || left < LS_CPU_STAGING ? left : LS_CPU_STAGING;
}

/* Elements first … first+n−1 of `from` as fp32: in the buffer, or where they are. */
const float *ls_cpu_widen(const ls_kernels *kernels, float *buffer, const void *from, ls_dtype dtype, size_t first,
                          size_t n);
/* Where a kernel is to write what belongs at `first` of `to`: the buffer, or the place itself. */
float *ls_cpu_target(float *buffer, void *to, ls_dtype dtype, size_t first);
/* Rounds what a kernel wrote to ls_cpu_target() to its place; it is there already where the type is LS_F32. */
void ls_cpu_narrow(const ls_kernels *kernels, void *to, ls_dtype dtype, size_t first, const float *from, size_t n);

#endif
