/* drop.cuh: dropout of elements by their index in the batch (docs/reference/arithmetic.md, "Dropout"), for dropout.cu and the norms. */
#pragma once
#include "device/cuda/common/drop.h"
#include "device/cuda/common/pack.cuh"
#include "device/cuda/common/philox.cuh"

/* Returns the row of the whole batch that row `row` of the call is. */
LS_DEVICE uint64_t row_of_batch(const ls_cuda_drop &d, size_t row) {
    return d.first + row + (d.gap ? divide((uint32_t)row, d.together) * d.gap : 0);
}

/* Returns what dropout leaves of x: +0 if its random number is below the threshold, else x times the scale. */
LS_DEVICE float drop_one(const ls_cuda_drop &d, uint32_t number, float x) {
    return number < d.threshold ? 0.0f : x * d.scale;
}

/* Drops elements of a pack of four, whose first has this index in the batch, a multiple of 4: one run of the generator gives four
 * numbers. */
template <int ROUNDS = 10> LS_DEVICE pack<4> drop_pack(const ls_cuda_drop &d, uint64_t index, const pack<4> &x) {
    const uint4 r = philox_block<ROUNDS>(d.key, index / 4);
    return {{drop_one(d, r.x, x.v[0]), drop_one(d, r.y, x.v[1]), drop_one(d, r.z, x.v[2]), drop_one(d, r.w, x.v[3])}};
}

/* Drops one element, of any index in the batch, or scales it; three of the four random numbers are not used. */
template <int ROUNDS = 10> LS_DEVICE pack<1> drop_pack(const ls_cuda_drop &d, uint64_t index, const pack<1> &x) {
    const uint4 r = philox_block<ROUNDS>(d.key, index / 4);
    const uint32_t which = (uint32_t)index % 4;
    return {{drop_one(d, which < 2 ? (which == 0 ? r.x : r.y) : (which == 2 ? r.z : r.w), x.v[0])}};
}
