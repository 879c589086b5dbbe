/* norm.cu: layer norm and RMS norm (docs/arithmetic.md, "Norms"). Half a warp has a row: thread j of sixteen is lane j of sum16, so a sum
 * is a chain of C / 16 additions and four exchanges. The passes after the first find the row in the L1 cache. */
#include "device/cuda/common/base.cuh"
#include "device/cuda/args/norm.h"

template <bool RMS, class T> LS_DEVICE void forward_row(const ls_cuda_norm &a) {
    const size_t C = a.C;
    const float n = (float)C;
    size_t row = (size_t)blockIdx.x * LS_CUDA_NORM_ROWS + threadIdx.x / 16;
    int j = threadIdx.x % 16;
    bool is_in = row < a.rows;
    if (!is_in) row = a.rows - 1; /* does the same again and writes nothing: an exchange needs all lanes */
    const float *x = a.x + row * a.x_stride;
    float sum = 0.0f, mean = 0.0f, squares = 0.0f;
    if (!RMS) {
        for (size_t c = j; c < C; c += 16) sum = sum + x[c];
        mean = __fdiv_rn(join16(sum), n);
    }
    for (size_t c = j; c < C; c += 16) {
        float d = RMS ? x[c] : x[c] - mean;
        squares = __fmaf_rn(d, d, squares);
    }
    float rstd = __fdiv_rn(1.0f, __fsqrt_rn(__fdiv_rn(join16(squares), n) + a.eps));
    if (!is_in) return;
    T *y = (T *)a.y + row * a.y_stride;
    for (size_t c = j; c < C; c += 16)
        store(y + c, RMS ? (x[c] * rstd) * a.w[c] : __fmaf_rn((x[c] - mean) * rstd, a.w[c], a.b[c]));
    if (j == 0) {
        a.rstd[row] = rstd;
        if (!RMS) a.mean[row] = mean;
    }
}

LS_KERNEL(norm_forward, ls_cuda_norm, LS_CUDA_NORM_THREADS) {
    LS_BY_TYPE(a.act, T, { a.rms ? forward_row<true, T>(a) : forward_row<false, T>(a); });
}

template <bool RMS, class T> LS_DEVICE void backward_row(const ls_cuda_norm &a) {
    const size_t C = a.C;
    const float n = (float)C;
    size_t row = (size_t)blockIdx.x * LS_CUDA_NORM_ROWS + threadIdx.x / 16;
    int j = threadIdx.x % 16;
    bool is_in = row < a.rows;
    if (!is_in) row = a.rows - 1;
    const float *x = a.x + row * a.x_stride;
    const T *dy = (const T *)a.dy + row * a.dy_stride;
    const float mean = RMS ? 0.0f : a.mean[row], rstd = a.rstd[row];
    float gs = 0.0f, ghs = 0.0f;
    for (size_t c = j; c < C; c += 16) {
        float g = load(dy + c) * a.w[c], h = (RMS ? x[c] : x[c] - mean) * rstd;
        ghs = __fmaf_rn(g, h, ghs);
        if (!RMS) gs = gs + g;
    }
    float t = __fdiv_rn(join16(ghs), n), s = RMS ? 0.0f : __fdiv_rn(join16(gs), n);
    if (!is_in) return;
    float *dx = a.dx + row * a.dx_stride;
    for (size_t c = j; c < C; c += 16) {
        float g = load(dy + c) * a.w[c], h = (RMS ? x[c] : x[c] - mean) * rstd;
        float d = rstd * __fmaf_rn(-h, t, RMS ? g : g - s);
        dx[c] = a.add ? dx[c] + d : d;
    }
}

LS_KERNEL(norm_backward, ls_cuda_norm, LS_CUDA_NORM_THREADS) {
    LS_BY_TYPE(a.act, T, { a.rms ? backward_row<true, T>(a) : backward_row<false, T>(a); });
}
