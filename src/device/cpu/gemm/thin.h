/* thin.h: matmuls with few rows or few columns, in chain order, for gemm.c. */
#ifndef LS_DEVICE_CPU_GEMM_THIN_H
#define LS_DEVICE_CPU_GEMM_THIN_H

#include "device/cpu/gemm/gemm.h"

bool ls_gemm_is_thin(const ls_gemm *g);
/* Needs no scratch. */
void ls_gemm_thin_run(const ls_gemm_kernels *kernels, const ls_gemm *g, ls_pool *pool);

#endif
