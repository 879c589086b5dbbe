/* kernels.c: the kernels for any CPU; 16-byte vectors are what both baselines (NEON, SSE2) have; the matmuls are in
 * gemm.c. */
#include "device/cpu/simd/portable.h"

#define LSK_NAME(stem) stem##_portable
#define LSK_WIDTH 16
enum { FORWARD_ROWS = 1, BACKWARD_ROWS = 1, PARAM_ROWS = 1 };
#include "device/cpu/loops/kernels_loops.h"
