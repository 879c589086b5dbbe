/* pack.cuh: elements by packs: what one thread loads and stores at a time, and the loops over flat arrays and rows.
 *
 * A pack is W neighbours of a tensor as fp32. Four floats or eight 16-bit numbers are one access of 16 bytes; with
 * mixed types W is 4. All loads of U packs come before the first store: enough bytes are under way then, and outputs
 * may be inputs. Alignment is checked by the host, for all tensors of a call: without it W is 1. */
#pragma once
#include "device/cuda/common/base.cuh"
#include "device/cuda/common/pack.h"

/* W neighbours as fp32. */
template <int W> struct pack { float v[W]; };

/* Widens a 16-bit number of the type of the first argument; a NaN may keep its payload, because arithmetic only needs that it stays a
 * NaN. */
LS_DEVICE float wide_of(bf16, uint32_t bits) { return __uint_as_float(bits << 16); }
/* Widens an fp16 number; a NaN may keep its payload. */
LS_DEVICE float wide_of(f16, uint32_t bits) { return plain_from_f16((uint16_t)bits); }
/* Rounds to the type of the first argument; returns the 16 bits. */
LS_DEVICE uint32_t bits_of(bf16, float x) { return to_bf16(x); }
/* Rounds to fp16; returns the 16 bits. */
LS_DEVICE uint32_t bits_of(f16, float x) { return to_f16(x); }

/* Rounds the numbers of a pack and packs them by twos. One instruction rounds two, but makes another NaN than the contract's, so packs
 * with a NaN are rounded one by one. */
template <class T, int W> LS_DEVICE void bits_of_all(T type, const pack<W> &x, uint32_t *two) {
#ifndef LS_CUDA_ON_CPU_H
    bool are_numbers = true;
#pragma unroll
    for (int i = 0; i < W; i++) are_numbers = are_numbers & (x.v[i] == x.v[i]);
    if (are_numbers) {
#pragma unroll
        for (int i = 0; i < W / 2; i++) two[i] = rounded_two(type, x.v[2 * i], x.v[2 * i + 1]);
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < W / 2; i++) two[i] = bits_of(type, x.v[2 * i]) | bits_of(type, x.v[2 * i + 1]) << 16;
}

/* Loads and stores of packs; use load_pack() and store_pack(). */
template <int W> struct packed;

template <> struct packed<1> {
    template <class T> LS_DEVICE static pack<1> load(const T *p) { return {{::load(p)}}; }
    template <class T> LS_DEVICE static void store(T *p, const pack<1> &x) { ::store(p, x.v[0]); }
};

template <> struct packed<4> {
    LS_DEVICE static pack<4> load(const float *p) {
        float4 x = *(const float4 *)p;
        return {{x.x, x.y, x.z, x.w}};
    }
    template <class T> LS_DEVICE static pack<4> load(const T *p) {
        uint2 x = *(const uint2 *)p;
        return {{wide_of(T(), x.x & 0xFFFFu), wide_of(T(), x.x >> 16), wide_of(T(), x.y & 0xFFFFu),
                 wide_of(T(), x.y >> 16)}};
    }
    LS_DEVICE static void store(float *p, const pack<4> &x) {
        *(float4 *)p = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
    }
    template <class T> LS_DEVICE static void store(T *p, const pack<4> &x) {
        uint32_t b[2];
        bits_of_all(T(), x, b);
        *(uint2 *)p = make_uint2(b[0], b[1]);
    }
};

template <> struct packed<8> {
    template <class T> LS_DEVICE static pack<8> load(const T *p) {
        uint4 x = *(const uint4 *)p;
        return {{wide_of(T(), x.x & 0xFFFFu), wide_of(T(), x.x >> 16), wide_of(T(), x.y & 0xFFFFu),
                 wide_of(T(), x.y >> 16), wide_of(T(), x.z & 0xFFFFu), wide_of(T(), x.z >> 16),
                 wide_of(T(), x.w & 0xFFFFu), wide_of(T(), x.w >> 16)}};
    }
    template <class T> LS_DEVICE static void store(T *p, const pack<8> &x) {
        uint32_t b[4];
        bits_of_all(T(), x, b);
        *(uint4 *)p = make_uint4(b[0], b[1], b[2], b[3]);
    }
};

/* n: elements of an access of 16 bytes. */
template <class T> struct widest {
    enum { n = 8 };
};
template <> struct widest<float> {
    enum { n = 4 };
};

/* Tells a loop's body how wide its packs are. */
template <int N> struct width {
    enum { n = N };
};

/* Loads W neighbours as fp32, exactly, in one access; the address is a multiple of W elements. */
template <int W, class T> LS_DEVICE pack<W> load_pack(const T *p) { return packed<W>::load(p); }
/* Stores W neighbours in one access, rounded if T has 16 bits. */
template <int W, class T> LS_DEVICE void store_pack(T *p, const pack<W> &x) { packed<W>::store(p, x); }

/* Stores four numbers, none of which is NaN, rounded: faster than store_pack(). */
LS_DEVICE void store_numbers(float *p, const pack<4> &x) { store_pack<4>(p, x); }
/* Stores four numbers, none of which is NaN, as 16-bit numbers, each rounded to nearest even. */
template <class T> LS_DEVICE void store_numbers(T *p, const pack<4> &x) {
#ifndef LS_CUDA_ON_CPU_H
    *(uint2 *)p = make_uint2(rounded_two(T(), x.v[0], x.v[1]), rounded_two(T(), x.v[2], x.v[3]));
#else
    store_pack<4>(p, x);
#endif
}

/* Returns f of each number. */
template <int W, class F> LS_DEVICE pack<W> map(const pack<W> &x, F f) {
    pack<W> y;
#pragma unroll
    for (int i = 0; i < W; i++) y.v[i] = f(x.v[i]);
    return y;
}
/* Returns f of each pair of numbers. */
template <int W, class F> LS_DEVICE pack<W> map(const pack<W> &a, const pack<W> &b, F f) {
    pack<W> y;
#pragma unroll
    for (int i = 0; i < W; i++) y.v[i] = f(a.v[i], b.v[i]);
    return y;
}
/* Returns the sums of two packs, element by element. */
template <int W> LS_DEVICE pack<W> add(const pack<W> &a, const pack<W> &b) {
    return map(a, b, [](float x, float y) { return x + y; });
}

/* Calls finish(width, i, load(width, i)) for elements begin … end − 1 in packs of W, U of them at a time: by this block alone if OWN,
 * else by all blocks of the grid. Elements that fill no pack are left out. */
template <int W, int U, bool OWN, class L, class F>
LS_DEVICE void walk_tiles(size_t begin, size_t end, const L &load, const F &finish) {
    const size_t packs = (end - begin) / W, tile = (size_t)blockDim.x * U;
    for (size_t first = (OWN ? 0 : blockIdx.x) * tile + threadIdx.x; first < packs; first += (OWN ? 1 : gridDim.x) * tile) {
        decltype(load(width<W>(), (size_t)0)) in[U];
        /* With a condition on each, the compiler would wait for one load before it starts the next. */
        if (first + (U - 1) * blockDim.x < packs) {
#pragma unroll
            for (int u = 0; u < U; u++) in[u] = load(width<W>(), begin + (first + u * blockDim.x) * W);
#pragma unroll
            for (int u = 0; u < U; u++) finish(width<W>(), begin + (first + u * blockDim.x) * W, in[u]);
        } else {
            LS_NO_UNROLL for (size_t p = first; p < packs; p += blockDim.x)
                finish(width<W>(), begin + p * W, load(width<W>(), begin + p * W));
        }
    }
}

/* walk_tiles() by all blocks of the grid. */
template <int W, int U, class L, class F>
LS_DEVICE void walk(size_t begin, size_t end, const L &load, const F &finish) {
    walk_tiles<W, U, false>(begin, end, load, finish);
}

/* walk_tiles() by this block alone. */
template <int W, int U, class L, class F>
LS_DEVICE void walk_own(size_t begin, size_t end, const L &load, const F &finish) {
    walk_tiles<W, U, true>(begin, end, load, finish);
}

/* Calls finish(width, i, load(width, i)) for elements i … i + width − 1 of a flat array, several loads before the first finish; load
 * has no side effect. Elements that fill no pack are last, one by one. */
template <int W, int U, class L, class F>
LS_DEVICE void each_elem(const ls_cuda_flat &flat, const L &load, const F &finish) {
    size_t whole = flat.aligned ? flat.n / W * W : 0;
    walk<W, U>(0, whole, load, finish);
    walk<1, U>(whole, flat.n, load, finish);
}

/* The loop of each_row() with packs of W; columns that fill no pack are left out. U rows are loaded before the first is finished. */
template <int W, int U, class L, class F>
LS_DEVICE void walk_rows(const ls_cuda_rows &g, const L &load, const F &finish) {
    const size_t packs = g.columns / W, lanes = (size_t)1 << g.lanes_log2, together = blockDim.x >> g.lanes_log2,
                 tile = together * U;
    const size_t lane = threadIdx.x & (lanes - 1), place = threadIdx.x >> g.lanes_log2;
    for (size_t p = blockIdx.y * lanes + lane; p < packs; p += gridDim.y * lanes)
        for (size_t row = blockIdx.x * tile + place; row < g.rows; row += gridDim.x * tile) {
            decltype(load(width<W>(), (size_t)0, (size_t)0)) in[U];
            if (row + (U - 1) * together < g.rows) {
#pragma unroll
                for (int u = 0; u < U; u++) in[u] = load(width<W>(), row + u * together, p * W);
#pragma unroll
                for (int u = 0; u < U; u++) finish(width<W>(), row + u * together, p * W, in[u]);
            } else {
                LS_NO_UNROLL for (size_t r = row; r < g.rows; r += together)
                    finish(width<W>(), r, p * W, load(width<W>(), r, p * W));
            }
        }
}

/* Calls finish(width, row, column, load(width, row, column)) for each pack of each row, in packs of W if rows are aligned, else element
 * by element; load has no side effect. A block has some rows of 2^lanes_log2 packs. */
template <int W, int U, class L, class F>
LS_DEVICE void each_row(const ls_cuda_rows &g, const L &load, const F &finish) {
    if (g.aligned)
        walk_rows<W, U>(g, load, finish);
    else
        walk_rows<1, U>(g, load, finish);
}
