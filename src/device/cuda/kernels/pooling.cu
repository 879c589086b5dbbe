/* pooling.cu: max and mean pooling (docs/reference/arithmetic-images.md, "Pooling"); launched by ops/pooling.c. A thread has a group of
 * neighbouring channels of one window (forward) or of one pixel (backward), which it sums over the windows that contain it, so that no two
 * threads write to one place. */
#include "device/cuda/common/base.cuh"
#include "device/cuda/args/pooling.h"

/* What exists along one side: taps begin … end−1 of a window, or windows begin … end−1 of a pixel. */
struct span {
    uint32_t begin, end;
};

/* Returns the taps of a window that lie inside the image. */
LS_DEVICE span taps_of(uint32_t window, uint32_t size, uint32_t kernel, uint32_t stride, uint32_t pad) {
    uint32_t first = window * stride, last = size + pad - first;
    return {first < pad ? pad - first : 0, last < kernel ? last : kernel};
}

/* Returns the windows that contain a pixel. */
LS_DEVICE span windows_of(uint32_t pixel, uint32_t count, uint32_t kernel, const ls_cuda_divider &stride,
                          uint32_t pad) {
    uint32_t at = pixel + pad, end = divide(at, stride) + 1;
    return {at < kernel ? 0 : divide(at - kernel, stride) + 1, end < count ? end : count};
}

/* V neighbouring channels, four (one access of 16 bytes) or one. */
template <int V> struct channels {
    float x[V];
    LS_DEVICE void load(const float *p) {
        if constexpr (V == 4) {
            float4 v = load4(p);
            x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
        } else {
            x[0] = *p;
        }
    }
    LS_DEVICE void store(float *p) const {
        if constexpr (V == 4)
            store4(p, make_float4(x[0], x[1], x[2], x[3]));
        else
            *p = x[0];
    }
    LS_DEVICE void set(float value) {
        LS_UNROLL for (int i = 0; i < V; i++) x[i] = value;
    }
};

/* Group `at` of what is written: its image, row, column and first channel. */
struct place {
    uint32_t image, y, x, channel;
    /* Computes the fields for group `at`, of V channels. */
    template <int V> LS_DEVICE void find(const ls_cuda_pooling &a, uint32_t at) {
        uint32_t pixel = divide(at, a.groups), line = divide(pixel, a.across);
        channel = (at - pixel * a.groups.divisor) * V;
        x = pixel - line * a.across.divisor;
        image = divide(line, a.down);
        y = line - image * a.down.divisor;
    }
};

/* Returns the element of x or dx of a pixel, at the place's image and channel. */
LS_DEVICE size_t pixel_at(const ls_cuda_pooling &a, const place &p, uint32_t y, uint32_t x) {
    return (((size_t)p.image * a.height + y) * a.width + x) * a.channels + p.channel;
}

/* Returns the element of y, dy or taps of a window, at the place's image and channel. */
LS_DEVICE size_t window_at(const ls_cuda_pooling &a, const place &p, uint32_t y, uint32_t x) {
    return (((size_t)p.image * a.rows + y) * a.columns + x) * a.channels + p.channel;
}

/* Calls body<V>(a, group) for all groups. */
#define LS_FOR_GROUPS(body)                                                                                            \
    const uint32_t step = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;                       \
    for (uint32_t at = first; at < a.count; at += step) {                                                              \
        if (a.is_vector)                                                                                               \
            body<4>(a, at);                                                                                            \
        else                                                                                                           \
            body<1>(a, at);                                                                                            \
        if (a.count - at <= step) break; /* at + step may be no number of 32 bits */                                   \
    }

/* Returns whether x > most, with NaN above all numbers and +0 above −0. */
LS_DEVICE bool is_larger(float x, float most) {
    if (most != most) return false;
    return x != x || x > most || (x == most && __float_as_uint(most) > __float_as_uint(x));
}

/* Computes y and taps of V channels of a window; the first of equal maxima wins, NaN above all. */
template <int V> LS_DEVICE void max_window(const ls_cuda_pooling &a, uint32_t at) {
    place p = {};
    p.find<V>(a, at);
    span down = taps_of(p.y, a.height, a.kernel_y, a.stride_y.divisor, a.pad_y);
    span across = taps_of(p.x, a.width, a.kernel_x, a.stride_x.divisor, a.pad_x);
    channels<V> most, x;
    uint32_t tap[V] = {};
    bool is_first = true;
    most.set(0.0f);
    for (uint32_t ky = down.begin; ky < down.end; ky++)
        for (uint32_t kx = across.begin; kx < across.end; kx++) {
            x.load(a.x +
                   pixel_at(a, p, p.y * a.stride_y.divisor + ky - a.pad_y, p.x * a.stride_x.divisor + kx - a.pad_x));
            LS_UNROLL for (int i = 0; i < V; i++)
                if (is_first || is_larger(x.x[i], most.x[i])) {
                    most.x[i] = x.x[i];
                    tap[i] = ky * a.kernel_x + kx;
                }
            is_first = false;
        }
    LS_UNROLL for (int i = 0; i < V; i++)
        if (most.x[i] != most.x[i]) most.x[i] = __uint_as_float(LS_NAN_BITS);
    size_t to = window_at(a, p, p.y, p.x);
    most.store(a.y + to);
    if constexpr (V == 4)
        *(uint4 *)(a.taps + to) = make_uint4(tap[0], tap[1], tap[2], tap[3]);
    else
        a.taps[to] = tap[0];
}

/* Computes dx of V channels of a pixel: the sum of dy of the windows whose maximum it is. */
template <int V> LS_DEVICE void max_pixel(const ls_cuda_pooling &a, uint32_t at) {
    place p = {};
    p.find<V>(a, at);
    span down = windows_of(p.y, a.rows, a.kernel_y, a.stride_y, a.pad_y),
         across = windows_of(p.x, a.columns, a.kernel_x, a.stride_x, a.pad_x);
    channels<V> sum, dy;
    uint32_t tap[V];
    sum.set(0.0f);
    for (uint32_t oy = down.begin; oy < down.end; oy++)
        for (uint32_t ox = across.begin; ox < across.end; ox++) {
            uint32_t mine =
                (p.y + a.pad_y - oy * a.stride_y.divisor) * a.kernel_x + (p.x + a.pad_x - ox * a.stride_x.divisor);
            size_t from = window_at(a, p, oy, ox);
            dy.load(a.dy + from);
            if constexpr (V == 4) {
                uint4 t = *(const uint4 *)(a.taps + from);
                tap[0] = t.x, tap[1] = t.y, tap[2] = t.z, tap[3] = t.w;
            } else {
                tap[0] = a.taps[from];
            }
            LS_UNROLL for (int i = 0; i < V; i++)
                if (tap[i] == mine) sum.x[i] = sum.x[i] + dy.x[i];
        }
    sum.store(a.dx + pixel_at(a, p, p.y, p.x));
}

/* The kernels of max pooling: y and taps forward, dx backward. */
LS_KERNEL(max_pool_forward, ls_cuda_pooling, LS_CUDA_POOLING_THREADS){
    LS_FOR_GROUPS(max_window)} LS_KERNEL(max_pool_backward, ls_cuda_pooling,
                                         LS_CUDA_POOLING_THREADS){LS_FOR_GROUPS(max_pixel)}

/* Returns 1 / the number of pixels that count in the mean: those inside the image, or, with count_pad, all of the window. */
LS_DEVICE float share_of(const ls_cuda_pooling &a, span down, span across) {
    uint32_t there = (down.end - down.begin) * (across.end - across.begin);
    return __fdiv_rn(1.0f, (float)(a.count_pad ? a.kernel_y * a.kernel_x : there));
}

/* Computes y of V channels of a window. */
template <int V> LS_DEVICE void mean_window(const ls_cuda_pooling &a, uint32_t at) {
    place p = {};
    p.find<V>(a, at);
    span down = taps_of(p.y, a.height, a.kernel_y, a.stride_y.divisor, a.pad_y);
    span across = taps_of(p.x, a.width, a.kernel_x, a.stride_x.divisor, a.pad_x);
    channels<V> sum, x;
    sum.set(0.0f);
    for (uint32_t ky = down.begin; ky < down.end; ky++)
        LS_UNROLL_4 for (uint32_t kx = across.begin; kx < across.end; kx++) {
            x.load(a.x +
                   pixel_at(a, p, p.y * a.stride_y.divisor + ky - a.pad_y, p.x * a.stride_x.divisor + kx - a.pad_x));
            LS_UNROLL for (int i = 0; i < V; i++) sum.x[i] = sum.x[i] + x.x[i];
        }
    float share = share_of(a, down, across);
    LS_UNROLL for (int i = 0; i < V; i++) sum.x[i] = sum.x[i] * share;
    sum.store(a.y + window_at(a, p, p.y, p.x));
}

/* Computes dx of V channels of a pixel: the sum of its windows' dy, each times its share. */
template <int V> LS_DEVICE void mean_pixel(const ls_cuda_pooling &a, uint32_t at) {
    place p = {};
    p.find<V>(a, at);
    span down = windows_of(p.y, a.rows, a.kernel_y, a.stride_y, a.pad_y),
         across = windows_of(p.x, a.columns, a.kernel_x, a.stride_x, a.pad_x);
    channels<V> sum, dy;
    sum.set(0.0f);
    for (uint32_t oy = down.begin; oy < down.end; oy++)
        for (uint32_t ox = across.begin; ox < across.end; ox++) {
            float share = share_of(a, taps_of(oy, a.height, a.kernel_y, a.stride_y.divisor, a.pad_y),
                                   taps_of(ox, a.width, a.kernel_x, a.stride_x.divisor, a.pad_x));
            dy.load(a.dy + window_at(a, p, oy, ox));
            LS_UNROLL for (int i = 0; i < V; i++) sum.x[i] = __fmaf_rn(dy.x[i], share, sum.x[i]);
        }
    sum.store(a.dx + pixel_at(a, p, p.y, p.x));
}

/* The kernels of mean pooling: y forward, dx backward. */
LS_KERNEL(mean_pool_forward, ls_cuda_pooling, LS_CUDA_POOLING_THREADS){
    LS_FOR_GROUPS(mean_window)} LS_KERNEL(mean_pool_backward, ls_cuda_pooling, LS_CUDA_POOLING_THREADS) {
    LS_FOR_GROUPS(mean_pixel)
}
