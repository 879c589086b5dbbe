/* dropout.cu: dropout and the residual behind it (docs/reference/arithmetic.md, "Dropout"); launched by ops/dropout.c.
 *
 * One run of the random generator gives four numbers. Where rows are a multiple of four, they belong to one pack; else a thread takes the
 * four elements whose numbers come together, as far as they are in its row. */
#include "device/cuda/args/dropout.h"
#include "device/cuda/common/drop.cuh"

template <int W> struct dropout_packs { pack<W> x, residual; };

/* Computes y of aligned rows, pack by pack. X, Y: types of x and y. */
template <class X, class Y> LS_DEVICE void drop_packs(const ls_cuda_dropout &a) {
    walk_rows<4, LS_CUDA_DROPOUT_ROWS>(
        a.rows,
        [&](auto w, size_t row, size_t c) {
            dropout_packs<w.n> in = {load_pack<w.n>((const X *)a.x + row * a.x_stride + c), {}};
            if (a.residual) in.residual = load_pack<w.n>(a.residual + row * a.residual_stride + c);
            return in;
        },
        [&](auto w, size_t row, size_t c, const auto &in) {
            pack<w.n> y = drop_pack(a.drop, row_of_batch(a.drop, row) * a.rows.columns + c, in.x);
            if (a.residual) y = add(in.residual, y);
            store_pack<w.n>((Y *)a.y + row * a.y_stride + c, y);
        });
}

/* Computes y of rows of any width and alignment. */
template <class X, class Y> LS_DEVICE void drop_any(const ls_cuda_dropout &a) {
    const size_t lanes = (size_t)1 << a.rows.lanes_log2, together = blockDim.x >> a.rows.lanes_log2;
    for (size_t row = blockIdx.x * together + (threadIdx.x >> a.rows.lanes_log2); row < a.rows.rows;
         row += gridDim.x * together) {
        const uint64_t first = row_of_batch(a.drop, row) * a.rows.columns, end = first + a.rows.columns;
        for (uint64_t block = first / 4 + blockIdx.y * lanes + (threadIdx.x & (lanes - 1)); block * 4 < end;
             block += gridDim.y * lanes) {
            uint4 r = philox_block(a.drop.key, block);
            const uint32_t numbers[4] = {r.x, r.y, r.z, r.w};
            float y[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                uint64_t i = block * 4 + k;
                if (i < first || i >= end) continue;
                y[k] = drop_one(a.drop, numbers[k], load((const X *)a.x + row * a.x_stride + (i - first)));
                if (a.residual) y[k] = a.residual[row * a.residual_stride + (i - first)] + y[k];
            }
#pragma unroll
            for (int k = 0; k < 4; k++) {
                uint64_t i = block * 4 + k;
                if (i >= first && i < end) store((Y *)a.y + row * a.y_stride + (i - first), y[k]);
            }
        }
    }
}

/* Computes y = residual + what dropout leaves of x. */
LS_KERNEL(dropout_add, ls_cuda_dropout, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.x_dtype, X,
               { LS_BY_TYPE(a.y_dtype, Y, { a.rows.aligned ? drop_packs<X, Y>(a) : drop_any<X, Y>(a); }); });
}
