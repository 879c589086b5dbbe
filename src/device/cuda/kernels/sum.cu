/* sum.cu: sums and maxima of several tensors, scaling and filling, element by element; launched by ops/sum.c. */
#include "device/cuda/args/sum.h"
#include "device/cuda/common/list.cuh"
#include "device/cuda/common/math.cuh"
#include "device/cuda/common/tree.cuh"

template <int W> struct two_packs { pack<W> a, b; };

/* Computes y = a + b; b has type T. */
template <class T> LS_DEVICE void add_elems(const ls_cuda_add &a) {
    each_elem<4, LS_CUDA_SUM_PACKS>(
        a.flat,
        [&](auto w, size_t i) {
            return two_packs<w.n>{load_pack<w.n>(a.a + i), load_pack<w.n>((const T *)a.b + i)};
        },
        [&](auto w, size_t i, const auto &in) { store_pack<w.n>(a.y + i, add(in.a, in.b)); });
}

/* Computes y = a + b; b may be 16-bit. */
LS_KERNEL(add, ls_cuda_add, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.b_dtype, T, { add_elems<T>(a); });
}

/* Computes y = x·factor. */
LS_KERNEL(scale, ls_cuda_scale, LS_CUDA_PACK_THREADS) {
    const float factor = a.factor;
    each_elem<4, LS_CUDA_SUM_PACKS>(
        a.flat, [&](auto w, size_t i) { return load_pack<w.n>(a.x + i); },
        [&](auto w, size_t i, const auto &x) {
            store_pack<w.n>(a.y + i, map(x, [=](float v) { return v * factor; }));
        });
}

/* Sets every element of y to the factor. */
LS_KERNEL(set, ls_cuda_scale, LS_CUDA_PACK_THREADS) {
    const float factor = a.factor;
    each_elem<4, LS_CUDA_SUM_PACKS>(
        a.flat, [&](auto, size_t) { return 0; },
        [&](auto w, size_t i, int) { store_pack<w.n>(a.y + i, map(pack<w.n>(), [=](float) { return factor; })); });
}

enum { EIGHT = 8 };

template <int LEAVES, int W> struct leaf_packs { pack<W> x[LEAVES]; };

/* Returns the tree over at most eight leaves first … first + count − 1, leaf k at leaf(k), all loaded together. */
template <int W, class F> LS_DEVICE pack<W> sum_eight(const F &leaf, int first, int count) {
    pack<W> x[EIGHT];
#pragma unroll
    for (int k = 0; k < EIGHT; k++) x[k] = load_pack<W>(leaf(first + (k < count ? k : 0)));
#pragma unroll
    for (int step = 1; step < EIGHT; step *= 2)
#pragma unroll
        for (int k = 0; k < EIGHT; k += 2 * step)
            if (k + step < count) x[k] = add(x[k], x[k + step]);
    return x[0];
}

/* Returns the balanced binary tree over `count` leaves, leaf k at leaf(k). */
template <int W, class F> LS_DEVICE pack<W> sum_all(const F &leaf, int count) {
    if (count <= EIGHT) return sum_eight<W>(leaf, 0, count);
    tree<W> t;
    t.begin();
    for (int first = 0; first < count; first += EIGHT)
        t.push(first / EIGHT, sum_eight<W>(leaf, first, count - first));
    t.end();
    return t.sum;
}

/* Computes the tree of at most LEAVES leaves, U packs of each loaded together. */
template <int LEAVES, int U, class T> LS_DEVICE void tree_few(const ls_cuda_join &a) {
    const T *from[LEAVES];
#pragma unroll
    for (int k = 0; k < LEAVES; k++) from[k] = (const T *)pointer_at(a.inputs, k < a.count ? k : 0);
    each_elem<4, U>(
        a.flat,
        [&](auto w, size_t i) {
            leaf_packs<LEAVES, w.n> in;
#pragma unroll
            for (int k = 0; k < LEAVES; k++) in.x[k] = load_pack<w.n>(from[k] + i);
            return in;
        },
        [&](auto w, size_t i, auto in) {
#pragma unroll
            for (int step = 1; step < LEAVES; step *= 2)
#pragma unroll
                for (int k = 0; k + step < LEAVES; k += 2 * step)
                    if (k + step < a.count) in.x[k] = add(in.x[k], in.x[k + step]);
            store_pack<w.n>(a.out + i, in.x[0]);
        });
}

/* Computes trees of one to four leaves. */
LS_KERNEL(tree_sum_few, ls_cuda_join, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.dtype, T, { a.count <= 2 ? tree_few<2, LS_CUDA_TREE_PACKS, T>(a) : tree_few<4, LS_CUDA_TREE_PACKS, T>(a); });
}

/* Computes the tree of any number of leaves, element by element. */
template <class T> LS_DEVICE void tree_elems(const ls_cuda_join &a) {
    each_elem<4, 1>(
        a.flat,
        [&](auto w, size_t i) {
            return sum_all<w.n>([&](int k) { return (const T *)pointer_at(a.inputs, k) + i; }, a.count);
        },
        [&](auto w, size_t i, const auto &sum) { store_pack<w.n>(a.out + i, sum); });
}

/* Computes the tree of any number of leaves; tree_sum_few is faster for up to four. */
LS_KERNEL(tree_sum, ls_cuda_join, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.dtype, T, { tree_elems<T>(a); });
}

/* Computes the tree over the rows of each piece into its first row. Vectors are short: a thread has one number. */
LS_KERNEL(tree_rows, ls_cuda_tree_rows, LS_CUDA_PACK_THREADS) {
    int piece = 0;
    for (int end = a.count; piece + 1 < end;) {
        const int middle = (piece + end) / 2;
        blockIdx.x < a.first[middle] ? end = middle : piece = middle;
    }
    const size_t n = a.n[piece], i = (size_t)(blockIdx.x - a.first[piece]) * blockDim.x + threadIdx.x;
    float *rows = a.rows[piece] + i;
    if (i < n) store_pack<1>(rows, sum_all<1>([&](int k) { return (const float *)rows + (size_t)k * n; }, a.leaves));
}

/* Computes the maximum of the inputs; NaN wins and becomes the one NaN, +0 > −0. */
LS_KERNEL(max, ls_cuda_join, LS_CUDA_PACK_THREADS) {
    each_elem<4, 1>(
        a.flat,
        [&](auto w, size_t i) {
            pack<w.n> most = load_pack<w.n>((const float *)pointer_at(a.inputs, 0) + i);
            most = map(most, [](float x) { return quiet(x, x != x); });
            for (int k = 1; k < a.count; k++)
                most = map(most, load_pack<w.n>((const float *)pointer_at(a.inputs, k) + i), max_of);
            return most;
        },
        [&](auto w, size_t i, const auto &most) { store_pack<w.n>(a.out + i, most); });
}
