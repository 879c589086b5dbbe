/* loss.cuh: what the kernels of the loss of fp32 logits (loss.cu) and of 16-bit logits (loss_hgmma.cu) share. */
#pragma once
#include "device/cuda/args/loss.h"
#include "device/cuda/common/list.cuh"
#include "device/cuda/common/math.cuh"

/* Returns the column of a row's target, counted from that of id_begin; it may be one that this worker does not hold. */
LS_DEVICE int64_t target_of(const ls_cuda_loss &a, size_t row) { return (int64_t)a.targets[row] - a.id_begin; }
/* Returns whether this worker holds a column of logits. */
LS_DEVICE bool is_held(const ls_cuda_loss &a, int64_t column) {
    return column >= (int64_t)a.first && column < (int64_t)(a.first + a.columns);
}

/* Returns the smaller number. */
LS_DEVICE uint32_t smaller(uint32_t a, uint32_t b) { return b < a ? b : a; }

/* Returns the largest number of a warp to all its lanes; NaN wins, of two zeros any. */
LS_DEVICE float warp_max(float most) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) most = max_of_any_zero(most, __shfl_xor_sync(~0u, most, mask));
    return most;
}

/* Returns the largest number of the block to all its threads; NaN wins and becomes the one NaN. `space`, in shared memory, has a number
 * for each warp. All threads call it. */
LS_DEVICE float block_max(float most, float *space) {
    most = warp_max(most);
    if (threadIdx.x % 32 == 0) space[threadIdx.x / 32] = most;
    __syncthreads();
    most = warp_max(threadIdx.x % 32 < blockDim.x / 32 ? space[threadIdx.x % 32] : __uint_as_float(0xFF800000u));
    return quiet(most, most != most);
}

/* Returns the loss of a row: log(l) − (z_target − m). */
LS_DEVICE float value_of(float z_target, float m, float l) { return log_of(l) - (z_target - m); }

/* Delays thread block i by (i mod blocks) · cycles clock cycles, if each block has 8 of the `rows` or more, so that blocks of a
 * multiprocessor are in different phases of a row. */
LS_DEVICE void begin_later(size_t rows, unsigned blocks, unsigned cycles) {
    enum { ROWS = 8 };
    if (rows >= (size_t)ROWS * gridDim.x) wait_cycles(blockIdx.x % blocks * cycles);
}
