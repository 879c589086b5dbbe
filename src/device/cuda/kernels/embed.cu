/* embed.cu: token and position embeddings, and rotary embeddings (docs/reference/arithmetic.md, "Embedding, bias, residual", "Rotary
 * embedding"); launched by ops/embed.c. */
#include "device/cuda/args/embed.h"
#include "device/cuda/common/pack.cuh"

template <int W> struct embed_packs {
    pack<W> y;
    bool found;
};

/* Computes y of each row whose token is in this part of the table; other rows are left alone. T: type of the table. */
template <class T> LS_DEVICE void embed_rows(const ls_cuda_embed &a) {
    each_row<4, LS_CUDA_EMBED_ROWS>(
        a.rows,
        [&](auto w, size_t row, size_t c) {
            embed_packs<w.n> in = {};
            int32_t id = a.ids[row];
            in.found = id >= a.id_begin && id < a.id_end;
            if (!in.found) return in;
            in.y = load_pack<w.n>((const T *)a.token + (size_t)(id - a.id_begin) * a.rows.columns + c);
            if (a.position)
                in.y = add(in.y, load_pack<w.n>(a.position + (a.position0 + row) % a.period * a.rows.columns + c));
            return in;
        },
        [&](auto w, size_t row, size_t c, const auto &in) {
            if (in.found) store_pack<w.n>(a.y + row * a.y_stride + c, in.y);
        });
}

/* Computes y of each token: its row of the table plus that of its position. */
LS_KERNEL(embed_forward, ls_cuda_embed, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.token_dtype, T, { embed_rows<T>(a); });
}

/* Rotates the pairs (i, i + half) of each head by the angle of the row's position, or back if a.back. Both halves are loaded before
 * either is stored, so y may be x. −(b·sin) is b·(−sin). */
template <int W, class T> LS_DEVICE void rotate(const ls_cuda_rope &a) {
    const uint32_t count = (uint32_t)a.rows * a.units.divisor; /* the host sees to it that they are few */
    for (uint32_t n = blockIdx.x * blockDim.x + threadIdx.x; n < count; n += gridDim.x * blockDim.x) {
        const uint32_t row = divide(n, a.units), unit = n - row * a.units.divisor, head = divide(unit, a.packs),
                       i = (unit - head * a.packs.divisor) * W, place = a.position0 + row,
                       at = place - divide(place, a.period) * a.period.divisor;
        const T *x = (const T *)a.x + row * a.x_row_stride + head * a.x_head_stride + i;
        T *y = (T *)a.y + row * a.y_row_stride + head * a.y_head_stride + i;
        const size_t from = (size_t)at * a.half + i;
        pack<W> first = load_pack<W>(x), second = load_pack<W>(x + a.half), y0, y1;
#pragma unroll
        for (int part = 0; part < W; part += W < 4 ? W : 4) { /* of the table's numbers, which are fp32 */
            enum { N = W < 4 ? W : 4 };
            const pack<N> cos = load_pack<N>(a.cos + from + part);
            pack<N> sin = load_pack<N>(a.sin + from + part);
            if (a.back) sin = map(sin, [](float s) { return -s; });
#pragma unroll
            for (int k = 0; k < N; k++) {
                const float p = first.v[part + k], q = second.v[part + k];
                y0.v[part + k] = __fmaf_rn(p, cos.v[k], q * -sin.v[k]);
                y1.v[part + k] = __fmaf_rn(q, cos.v[k], p * sin.v[k]);
            }
        }
        store_pack<W>(y, y0);
        store_pack<W>(y + a.half, y1);
    }
}

/* Rotates heads by the angles of their positions, or back. */
LS_KERNEL(rope, ls_cuda_rope, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.act, T, { a.aligned ? rotate<widest<T>::n, T>(a) : rotate<1, T>(a); });
}
