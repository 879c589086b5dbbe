/* kernels.c: the kernels for x86-64 with AVX2 and FMA; the matmuls are in gemm.c. */
#include "device/cpu/simd/avx2.h"

#define LSK_NAME(stem) stem##_avx2
#define LSK_WIDTH 32
#define LSK_STREAM(to, from) _mm256_stream_si256(to, _mm256_loadu_si256(from))
enum { FORWARD_ROWS = 4, BACKWARD_ROWS = 2, PARAM_ROWS = 4 };
#include "device/cpu/loops/kernels_loops.h"
