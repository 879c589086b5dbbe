/* sum.c: sums and maxima of several tensors, element by element. */
#include "device/cuda/kernels/sum.h"

#include "device/cuda/ops/list.h"
#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"

enum { WIDTH = 4 };

static ls_status add(ls_device *device, float *y, const float *a, const void *b, ls_dtype b_dtype, size_t n) {
    LS_TRY(ls_cuda_check_dtype("a sum", b_dtype));
    ls_cuda_add args = {.flat = {.n = n}, .b_dtype = (int)b_dtype, .y = y, .a = a, .b = b};
    args.flat.aligned =
        ls_cuda_fits(y, LS_F32, 0, WIDTH) && ls_cuda_fits(a, LS_F32, 0, WIDTH) && ls_cuda_fits(b, b_dtype, 0, WIDTH);
    return ls_cuda_launch(device, LS_CUDA_add, ls_cuda_flat_grid(&args.flat, WIDTH, LS_CUDA_SUM_PACKS),
                          LS_CUDA_PACK_THREADS, 0, &args);
}

/* Of `count` tensors. */
static ls_status join(ls_device *device, ls_cuda_kernel kernel, float *out, const void *const *inputs, ls_dtype dtype,
                      int count, size_t n) {
    ls_cuda_join args = {.flat = {.n = n, .aligned = ls_cuda_fits(out, LS_F32, 0, WIDTH)},
                         .dtype = (int)dtype,
                         .count = count,
                         .out = out};
    for (int i = 0; i < count; i++) args.flat.aligned = args.flat.aligned && ls_cuda_fits(inputs[i], dtype, 0, WIDTH);
    if (n == 0) return LS_OK;
    LS_TRY(ls_cuda_pointers_set(device, &args.inputs, inputs, (size_t)count));
    return ls_cuda_launch(device, kernel, ls_cuda_flat_grid(&args.flat, WIDTH, 1), LS_CUDA_PACK_THREADS, 0, &args);
}

static ls_status tree_sum(ls_device *device, float *out, const void *const *contributions, ls_dtype dtype, int leaves,
                          size_t elems) {
    if (leaves < 1 || leaves > LS_GROUPS_MAX)
        return ls_fail(LS_ERR_INPUT, "a sum of %d contributions: must be between 1 and %d", leaves, LS_GROUPS_MAX);
    LS_TRY(ls_cuda_check_dtype("a sum", dtype));
    return join(device, LS_CUDA_tree_sum, out, contributions, dtype, leaves, elems);
}

static ls_status max(ls_device *device, float *out, const float *const *inputs, int count, size_t elems) {
    if (count < 1 || count > LS_WORKERS_MAX)
        return ls_fail(LS_ERR_INPUT, "a maximum of %d tensors: must be between 1 and %d", count, LS_WORKERS_MAX);
    return join(device, LS_CUDA_max, out, (const void *const *)inputs, LS_F32, count, elems);
}

static ls_status scale_or_set(ls_device *device, ls_cuda_kernel kernel, float *y, const float *x, float factor,
                              size_t n) {
    ls_cuda_scale args = {.flat = {.n = n}, .factor = factor, .y = y, .x = x};
    args.flat.aligned = ls_cuda_fits(y, LS_F32, 0, WIDTH) && ls_cuda_fits(x, LS_F32, 0, WIDTH);
    return ls_cuda_launch(device, kernel, ls_cuda_flat_grid(&args.flat, WIDTH, LS_CUDA_SUM_PACKS), LS_CUDA_PACK_THREADS,
                          0, &args);
}

static ls_status scale(ls_device *device, float *y, const float *x, float factor, size_t n) {
    return scale_or_set(device, LS_CUDA_scale, y, x, factor, n);
}

static ls_status set(ls_device *device, float *y, float value, size_t n) {
    return scale_or_set(device, LS_CUDA_set, y, NULL, value, n);
}

void ls_cuda_ops_fill_sum(ls_ops *ops) {
    ops->add = add;
    ops->tree_sum = tree_sum;
    ops->max = max;
    ops->scale = scale;
    ops->set = set;
}
