/* embed.cu: embeddings and rotation (docs/arithmetic.md, "Embedding, bias, residual", "Rotary embedding"). */
#include "device/cuda/args/embed.h"
#include "device/cuda/common/pack.cuh"

template <int W> struct embed_packs {
    pack<W> y;
    bool found;
};

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

LS_KERNEL(embed_forward, ls_cuda_embed, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.token_dtype, T, { embed_rows<T>(a); });
}

/* ---- rotation ---------------------------------------------------------------------------------------------------- */

/* Both halves of a pair are loaded before either is stored, so y may be x. −(b·sin) is b·(−sin). */
template <int W, class T> LS_DEVICE void rotate(const ls_cuda_rope &a) {
    const uint32_t packs = (uint32_t)a.half / W, units = (uint32_t)a.heads * packs; /* the host checks that they fit */
    for (size_t base = (size_t)blockIdx.x * blockDim.x;; base += (size_t)gridDim.x * blockDim.x) {
        size_t row = base / units;
        uint32_t unit = (uint32_t)(base % units) + threadIdx.x;
        row += unit / units, unit %= units;
        if (row >= a.rows) return;
        const size_t head = unit / packs, i = (size_t)(unit % packs) * W,
                     at = (a.position0 + row) % a.period * a.half + i;
        const T *x = (const T *)a.x + row * a.x_row_stride + head * a.x_head_stride + i;
        T *y = (T *)a.y + row * a.y_row_stride + head * a.y_head_stride + i;
        pack<W> first = load_pack<W>(x), second = load_pack<W>(x + a.half), cos = load_pack<W>(a.cos + at),
                sin = load_pack<W>(a.sin + at);
        if (a.back) sin = map(sin, [](float s) { return -s; });
        pack<W> y0, y1;
#pragma unroll
        for (int k = 0; k < W; k++) {
            y0.v[k] = __fmaf_rn(first.v[k], cos.v[k], second.v[k] * -sin.v[k]);
            y1.v[k] = __fmaf_rn(second.v[k], cos.v[k], first.v[k] * sin.v[k]);
        }
        store_pack<W>(y, y0);
        store_pack<W>(y + a.half, y1);
    }
}

LS_KERNEL(rope, ls_cuda_rope, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.act, T, { a.aligned ? rotate<4, T>(a) : rotate<1, T>(a); });
}
