/* compare.cu: whether two pieces of memory have the same bytes; launched by ops/library.c. */
#include "device/cuda/args/compare.h"
#include "device/cuda/common/base.cuh"

/* Sets *differ to 1 if any byte differs; else leaves it. */
LS_KERNEL(compare, ls_cuda_compare, LS_CUDA_COMPARE_THREADS) {
    const uint4 *x = (const uint4 *)a.x, *y = (const uint4 *)a.y;
    const size_t step = (size_t)gridDim.x * blockDim.x;
    uint32_t differ = 0;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += step) {
        uint4 p = x[i], q = y[i];
        differ |= (p.x ^ q.x) | (p.y ^ q.y) | (p.z ^ q.z) | (p.w ^ q.w);
    }
    if (differ) *a.differ = 1; /* all threads that write it write the same value */
}
