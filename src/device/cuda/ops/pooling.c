/* pooling.c: launches pooling (kernels/pooling.cu): a thread for some channels of a window or a pixel, in as many
 * images at a time as can be counted in 31 bits. */
#include "device/cuda/args/pooling.h"

#include <stdbool.h>

#include "device/cuda/ops/ops.h"

/* Threads of a launch, at most. */
#define GROUPS_MAX ((size_t)INT32_MAX)

/* Returns whether a tensor allows loads of 16 bytes; true for NULL. */
static bool is_aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

LS_ASSERT_ARGS(ls_pooling_call, 11);
/* Converts a call to the kernel's arguments, all but `count`. Forward has a thread per output, backward one per
 * input pixel. */
static ls_cuda_pooling args_of(const ls_pooling_call *c, bool backward) {
    const ls_window *w = &c->window;
    size_t rows = ls_window_rows(w, c->height), columns = ls_window_columns(w, c->width);
    bool is_vector = c->channels % 4 == 0 && is_aligned(c->x) && is_aligned(c->y) && is_aligned(c->taps) &&
                     is_aligned(c->dy) && is_aligned(c->dx);
    return (ls_cuda_pooling){
        .groups = ls_cuda_divider_of(is_vector ? c->channels / 4 : c->channels),
        .height = (uint32_t)c->height,
        .width = (uint32_t)c->width,
        .channels = (uint32_t)c->channels,
        .across = ls_cuda_divider_of(backward ? c->width : columns),
        .down = ls_cuda_divider_of(backward ? c->height : rows),
        .rows = (uint32_t)rows,
        .columns = (uint32_t)columns,
        .kernel_y = (uint32_t)w->kernel_y,
        .kernel_x = (uint32_t)w->kernel_x,
        .pad_y = (uint32_t)w->pad_y,
        .pad_x = (uint32_t)w->pad_x,
        .stride_y = ls_cuda_divider_of(w->stride_y),
        .stride_x = ls_cuda_divider_of(w->stride_x),
        .count_pad = c->count_pad,
        .is_vector = is_vector,
        .x = c->x,
        .y = c->y,
        .taps = c->taps,
        .dy = c->dy,
        .dx = c->dx,
    };
}

/* Advances the tensors to the next images by `in` elements of x and dx and `out` of y, dy and taps; tensors of the
 * other pass may be NULL. */
static void move_on(ls_cuda_pooling *args, size_t in, size_t out) {
    if (args->x) args->x += in;
    if (args->dx) args->dx += in;
    if (args->y) args->y += out;
    if (args->dy) args->dy += out;
    if (args->taps) args->taps += out;
}

/* Launches a pooling kernel over all images, in several launches if needed. LS_ERR_INPUT for an image that is too
 * large for one launch. */
static ls_status pool(ls_device *device, ls_cuda_kernel kernel, const ls_pooling_call *c, bool backward) {
    LS_TRY(ls_pooling_check(c));
    ls_cuda_pooling args = args_of(c, backward);
    size_t in = c->height * c->width, out = (size_t)args.rows * args.columns,
           groups = (backward ? in : out) * args.groups.divisor;
    if (groups > GROUPS_MAX || in * args.groups.divisor > GROUPS_MAX)
        return ls_fail(
            LS_ERR_INPUT,
            "pooling over images of %zu × %zu pixels and %zu channels: more than a GPU numbers; use smaller ones",
            c->height, c->width, c->channels);
    for (size_t image = 0, some; image < c->images; image += some) {
        some = c->images - image < GROUPS_MAX / groups ? c->images - image : GROUPS_MAX / groups;
        args.count = (uint32_t)(some * groups);
        ls_cuda_grid grid = {ls_cuda_blocks(device, ls_cuda_divide_up(args.count, LS_CUDA_POOLING_THREADS)), 1, 1};
        LS_TRY(ls_cuda_launch(device, kernel, grid, LS_CUDA_POOLING_THREADS, 0, &args));
        move_on(&args, some * in * c->channels, some * out * c->channels);
    }
    return LS_OK;
}

/* Launches the computation of y, and in `taps` which pixel of its window each maximum is. */
ls_status ls_cuda_op_max_pool_forward(ls_device *device, const ls_pooling_call *c) {
    return pool(device, LS_CUDA_max_pool_forward, c, false);
}
/* Launches the computation of dx from dy and `taps`. */
ls_status ls_cuda_op_max_pool_backward(ls_device *device, const ls_pooling_call *c) {
    return pool(device, LS_CUDA_max_pool_backward, c, true);
}
/* Launches the computation of y, the means of the windows of x. */
ls_status ls_cuda_op_mean_pool_forward(ls_device *device, const ls_pooling_call *c) {
    return pool(device, LS_CUDA_mean_pool_forward, c, false);
}
/* Launches the computation of dx, to which every window adds its share of dy. */
ls_status ls_cuda_op_mean_pool_backward(ls_device *device, const ls_pooling_call *c) {
    return pool(device, LS_CUDA_mean_pool_backward, c, true);
}
