/* convert.cu: conversions between number formats (docs/reference/arithmetic.md, "Number formats"), in which every NaN becomes the one NaN,
 * and copies of rows; launched by ops/convert.c. */
#include "device/cuda/args/convert.h"
#include "device/cuda/common/pack.cuh"

/* Returns x, or the one NaN of the contract for any NaN. */
LS_DEVICE float one_nan(float x) { return x != x ? __uint_as_float(LS_NAN_BITS) : x; }

/* Converts a flat array from one type to another. */
template <class To, class From> LS_DEVICE void convert_elems(const ls_cuda_convert &a) {
    each_elem<4, LS_CUDA_CONVERT_PACKS>(
        a.flat, [&](auto w, size_t i) { return load_pack<w.n>((const From *)a.in + i); },
        [&](auto w, size_t i, const auto &x) { store_pack<w.n>((To *)a.out + i, map(x, one_nan)); });
}

/* Converts between fp32 and bf16 or fp16. */
LS_KERNEL(convert, ls_cuda_convert, LS_CUDA_PACK_THREADS) {
    if (a.to == LS_CUDA_BF16)
        convert_elems<bf16, float>(a);
    else if (a.to == LS_CUDA_F16)
        convert_elems<f16, float>(a);
    else if (a.from == LS_CUDA_BF16)
        convert_elems<float, bf16>(a);
    else
        convert_elems<float, f16>(a);
}

/* Rounds a flat fp32 array to the type T and stores it as fp32. */
template <class T> LS_DEVICE void round_elems(const ls_cuda_convert &a) {
    each_elem<4, LS_CUDA_CONVERT_PACKS>(
        a.flat, [&](auto w, size_t i) { return load_pack<w.n>((const float *)a.in + i); },
        [&](auto w, size_t i, const auto &x) {
            store_pack<w.n>((float *)a.out + i, map(x, [](float v) { return one_nan(wide_of(T(), bits_of(T(), v))); }));
        });
}

/* Rounds fp32 to a 16-bit format and stores it as fp32. */
LS_KERNEL(round, ls_cuda_convert, LS_CUDA_PACK_THREADS) {
    if (a.to == LS_CUDA_BF16)
        round_elems<bf16>(a);
    else
        round_elems<f16>(a);
}

/* Copies rows as words of type T; blockIdx.y is the first row of a block. */
template <class T> LS_DEVICE void copy_words(const ls_cuda_copy_rows &a) {
    enum { AT_ONCE = 4 };
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t r = blockIdx.y; r < a.rows; r += gridDim.y) {
        T *to = (T *)(a.to + r * a.to_stride);
        const T *from = (const T *)(a.from + r * a.from_stride);
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.words; i += AT_ONCE * step) {
            T x[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (i + k * step < a.words) x[k] = from[i + k * step];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (i + k * step < a.words) to[i + k * step] = x[k];
        }
    }
}

/* Copies rows of bytes, by words of a.width bytes. */
LS_KERNEL(copy_rows, ls_cuda_copy_rows, LS_CUDA_PACK_THREADS) {
    if (a.width == 16)
        copy_words<uint4>(a);
    else if (a.width == 4)
        copy_words<uint32_t>(a);
    else
        copy_words<unsigned char>(a);
}
