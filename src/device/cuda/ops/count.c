/* count.c: counting and finding numbers of a kind. Results go to the host, so these wait for the GPU. */
#include "device/cuda/args/count.h"

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"
#include "numerics/float16.h"

enum { WIDTH = 4 };

_Static_assert((int)LS_COUNTS == LS_CUDA_COUNTS && LS_COUNT_FLUSHED == 0 && LS_COUNT_HIGH == 1 &&
                   LS_COUNT_NONZERO == 2 && LS_COUNT_BAD == 3,
               "kernels count in the order of ls_count");

/* Memory for results, all bytes of them `byte`. */
static ls_status make_results(ls_device *device, unsigned char byte, size_t count, unsigned long long **out) {
    void *memory;
    LS_TRY(ls_cuda_scratch(device, count * sizeof **out, &memory));
    *out = memory;
    return ls_device_fill(device, memory, byte, count * sizeof **out);
}

/* As many blocks as stay busy: each adds once. */
static ls_cuda_grid grid_of(ls_device *device, const ls_cuda_flat *flat, size_t width, size_t packs) {
    ls_cuda_grid grid = ls_cuda_flat_grid(flat, width, packs);
    grid.x = ls_cuda_blocks(device, grid.x);
    return grid;
}

ls_status ls_cuda_op_count(ls_device *device, const ls_count_call *c) {
    ls_dtype type = c->type;
    LS_TRY(ls_check_float("counts", type));
    if (c->n == 0) return LS_OK;
    /* The tie between 0 and the smallest number goes to 0. */
    float flushed = type == LS_BF16 ? 0x1p-134f : type == LS_F16 ? 0x1p-25f : 0.0f;
    float high = type == LS_BF16 ? 0x1.FEp123f : type == LS_F16 ? 0x1.FFCp11f : 0x1.FFFFFEp123f;
    ls_cuda_count args = {.flat = {.n = c->n, .aligned = ls_cuda_fits(c->x, LS_F32, 0, WIDTH)},
                          .x = c->x,
                          .scale = c->scale,
                          .flushed = ls_f32_bits(flushed),
                          .high = ls_f32_bits(high)};
    unsigned long long counts[LS_COUNTS];
    LS_TRY(make_results(device, 0, LS_COUNTS, &args.out));
    LS_TRY(ls_cuda_launch(device, LS_CUDA_count, grid_of(device, &args.flat, WIDTH, LS_CUDA_COUNT_PACKS),
                          LS_CUDA_PACK_THREADS, 0, &args));
    LS_TRY(ls_device_copy_out(device, counts, args.out, sizeof counts));
    for (int i = 0; i < LS_COUNTS; i++) c->out[i] += (int64_t)counts[i];
    return LS_OK;
}

ls_status ls_cuda_op_difference(ls_device *device, const ls_difference_call *c) {
    if (c->n == 0) return LS_OK;
    ls_cuda_difference args = {.flat = {.n = c->n}, .before = c->before, .after = c->after, .by = c->by};
    args.flat.aligned = ls_cuda_fits(c->before, LS_F32, 0, WIDTH) && ls_cuda_fits(c->after, LS_F32, 0, WIDTH) &&
                        ls_cuda_fits(c->by, LS_F32, 0, WIDTH);
    unsigned long long sum;
    LS_TRY(make_results(device, 0, 1, &args.lost));
    LS_TRY(ls_cuda_launch(device, LS_CUDA_difference, grid_of(device, &args.flat, WIDTH, 1), LS_CUDA_PACK_THREADS, 0,
                          &args));
    LS_TRY(ls_device_copy_out(device, &sum, args.lost, sizeof sum));
    *c->lost += (int64_t)sum;
    return LS_OK;
}

ls_status ls_cuda_op_find_bad(ls_device *device, const ls_find_bad_call *c) {
    LS_TRY(ls_check_float("a search", c->dtype));
    *c->index = c->n;
    if (c->n == 0) return LS_OK;
    size_t width = ls_cuda_widest(c->dtype);
    ls_cuda_find args = {
        .flat = {.n = c->n, .aligned = ls_cuda_fits(c->x, c->dtype, 0, width)}, .x = c->x, .dtype = (int)c->dtype};
    unsigned long long first;
    LS_TRY(make_results(device, 0xFF, 1, &args.first));
    LS_TRY(ls_cuda_launch(device, LS_CUDA_find_bad, grid_of(device, &args.flat, width, 2), LS_CUDA_PACK_THREADS, 0,
                          &args));
    LS_TRY(ls_device_copy_out(device, &first, args.first, sizeof first));
    if (first < c->n) *c->index = (size_t)first;
    return LS_OK;
}
