/* halo.h: patches of images with few channels, for gather.c. */
#ifndef LS_DEVICE_CPU_GEMM_HALO_H
#define LS_DEVICE_CPU_GEMM_HALO_H

#include "device/cpu/gemm/pack.h"

/* As ls_gemm_gather(), with positions or with columns as lines. False where this is not the way: nothing is written
 * then. */
bool ls_gemm_halo_positions(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k);
bool ls_gemm_halo_columns(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k);

#endif
