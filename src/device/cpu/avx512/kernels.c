/* kernels.c: the kernels for x86-64 with AVX-512; the matmuls are in gemm.c. */
#include "device/cpu/simd/avx512.h"

#define LSK_NAME(stem) stem##_avx512
#define LSK_WIDTH 64
#define LSK_STREAM(to, from) _mm512_stream_si512(to, _mm512_loadu_si512(from))
enum { FORWARD_ROWS = 4, BACKWARD_ROWS = 4, PARAM_ROWS = 4 };
#include "device/cpu/loops/kernels_loops.h"
