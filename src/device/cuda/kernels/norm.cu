/* norm.cu: layer norm and RMS norm (docs/arithmetic.md, "Norms"). Half a warp has a row: thread j of sixteen is lane j of
 * sum16, so a sum is a chain of C / 16 additions and four exchanges.
 *
 * A lane's numbers come in chunks. A row of up to N chunks is read once and stays in registers, all its loads under way
 * together; N 0: every pass reads a longer one again, chunk by chunk. In a chunk all loads come before the first store,
 * with which the compiler may not exchange them. */
#include "device/cuda/common/base.cuh"
#include "device/cuda/args/norm.h"

enum { CHUNK = LS_CUDA_NORM_CHUNK, SHORT = LS_CUDA_NORM_SHORT, LONG = LS_CUDA_NORM_LONG };

/* One of the numbers of lane j in a chunk: its column. */
LS_DEVICE size_t column_of(size_t chunk, int k, int j) { return (chunk * CHUNK + k) * 16 + j; }

/* A lane's numbers of a row. */
template <int N, class T> struct lane_numbers {
    const T *row;
    size_t C;
    int j;
    float held[N ? N : 1][CHUNK];

    LS_DEVICE void read(int to, size_t chunk) {
        LS_UNROLL for (int k = 0; k < CHUNK; k++)
            held[to][k] = column_of(chunk, k, j) < C ? load(row + column_of(chunk, k, j)) : 0.0f;
    }
    LS_DEVICE void open(const T *begin, size_t columns, int lane) {
        row = begin, C = columns, j = lane;
        LS_UNROLL for (int s = 0; s < N; s++) read(s, s);
    }
    LS_DEVICE const float *chunk(size_t s) {
        if (!N) read(0, s);
        return held[N ? s : 0];
    }
};

/* All chunks s; the numbers k of one that are there, and their columns. */
#define EACH_CHUNK(s) LS_UNROLL for (size_t s = 0; s < (N ? (size_t)N : (C + 16 * CHUNK - 1) / (16 * CHUNK)); s++)
#define EACH_NUMBER(s, k, c)                          \
    LS_UNROLL for (int k = 0; k < CHUNK; k++)         \
        if (const size_t c = column_of(s, k, j); c < C)

struct norm_place {
    size_t row;
    bool is_in;
    LS_DEVICE explicit norm_place(const ls_cuda_norm &a) {
        row = (size_t)blockIdx.x * LS_CUDA_NORM_ROWS + threadIdx.x / 16;
        is_in = row < a.rows;
        if (!is_in) row = a.rows - 1; /* does the same again and writes nothing: an exchange needs all lanes */
    }
};

template <bool RMS, class T, int N> LS_DEVICE void forward_row(const ls_cuda_norm &a) {
    const size_t C = a.C;
    const float n = (float)C;
    const int j = threadIdx.x % 16;
    const norm_place at(a);
    lane_numbers<N, float> x;
    x.open(a.x + at.row * a.x_stride, C, j);
    float sum = 0.0f, mean = 0.0f, squares = 0.0f;
    if (!RMS) {
        EACH_CHUNK(s) {
            const float *v = x.chunk(s);
            EACH_NUMBER(s, k, c) sum = sum + v[k];
        }
        mean = __fdiv_rn(join16(sum), n);
    }
    EACH_CHUNK(s) {
        const float *v = x.chunk(s);
        EACH_NUMBER(s, k, c) {
            float d = RMS ? v[k] : v[k] - mean;
            squares = __fmaf_rn(d, d, squares);
        }
    }
    float rstd = __fdiv_rn(1.0f, __fsqrt_rn(__fdiv_rn(join16(squares), n) + a.eps));
    if (!at.is_in) return;
    T *y = (T *)a.y + at.row * a.y_stride;
    EACH_CHUNK(s) {
        const float *v = x.chunk(s);
        float w[CHUNK], b[CHUNK];
        EACH_NUMBER(s, k, c) w[k] = a.w[c];
        if (!RMS) EACH_NUMBER(s, k, c) b[k] = a.b[c];
        EACH_NUMBER(s, k, c) store(y + c, RMS ? (v[k] * rstd) * w[k] : __fmaf_rn((v[k] - mean) * rstd, w[k], b[k]));
    }
    if (j == 0) {
        a.rstd[at.row] = rstd;
        if (!RMS) a.mean[at.row] = mean;
    }
}

template <bool RMS, class T, int N> LS_DEVICE void backward_row(const ls_cuda_norm &a) {
    const size_t C = a.C;
    const float n = (float)C;
    const int j = threadIdx.x % 16;
    const norm_place at(a);
    lane_numbers<N, float> x;
    lane_numbers<N, T> dy;
    x.open(a.x + at.row * a.x_stride, C, j);
    dy.open((const T *)a.dy + at.row * a.dy_stride, C, j);
    const float mean = RMS ? 0.0f : a.mean[at.row], rstd = a.rstd[at.row];
    float gs = 0.0f, ghs = 0.0f;
    EACH_CHUNK(s) {
        const float *v = x.chunk(s), *d = dy.chunk(s);
        EACH_NUMBER(s, k, c) {
            float g = d[k] * a.w[c], h = (RMS ? v[k] : v[k] - mean) * rstd;
            ghs = __fmaf_rn(g, h, ghs);
            if (!RMS) gs = gs + g;
        }
    }
    float t = __fdiv_rn(join16(ghs), n), mean_g = RMS ? 0.0f : __fdiv_rn(join16(gs), n);
    if (!at.is_in) return;
    float *dx = a.dx + at.row * a.dx_stride;
    EACH_CHUNK(s) {
        const float *v = x.chunk(s), *d = dy.chunk(s);
        float w[CHUNK], old[CHUNK];
        EACH_NUMBER(s, k, c) w[k] = a.w[c];
        if (a.add) EACH_NUMBER(s, k, c) old[k] = dx[c];
        EACH_NUMBER(s, k, c) {
            float g = d[k] * w[k], h = (RMS ? v[k] : v[k] - mean) * rstd;
            float z = rstd * __fmaf_rn(-h, t, RMS ? g : g - mean_g);
            dx[c] = a.add ? old[k] + z : z;
        }
    }
}

LS_KERNEL(norm_forward, ls_cuda_norm, LS_CUDA_NORM_THREADS) {
    LS_BY_TYPE(a.act, T, {
        if (a.C <= LONG * CHUNK * 16)
            a.rms ? forward_row<true, T, LONG>(a) : forward_row<false, T, LONG>(a);
        else
            a.rms ? forward_row<true, T, 0>(a) : forward_row<false, T, 0>(a);
    });
}

/* More numbers in registers leave room for fewer rows, so long rows have a kernel of their own. */
LS_KERNEL(norm_backward, ls_cuda_norm, LS_CUDA_NORM_THREADS) {
    LS_BY_TYPE(a.act, T, {
        if (a.C <= SHORT * CHUNK * 16)
            a.rms ? backward_row<true, T, SHORT>(a) : backward_row<false, T, SHORT>(a);
        else
            a.rms ? backward_row<true, T, 0>(a) : backward_row<false, T, 0>(a);
    });
}
LS_KERNEL(norm_backward_long, ls_cuda_norm, LS_CUDA_NORM_THREADS) {
    LS_BY_TYPE(a.act, T, { a.rms ? backward_row<true, T, LONG>(a) : backward_row<false, T, LONG>(a); });
}
